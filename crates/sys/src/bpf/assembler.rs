//! An assembler for BPF: a few instructions, labels, and maps by their descriptors.
//!
//! The instruction set is that of RFC 9669. Only what the programs here need is offered.

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};

/// Writes a program, instruction by instruction. It borrows the maps that the program uses, because the program names them by
/// their descriptors until it is loaded.
///
/// ```
/// use anywire_sys::bpf::{Assembler, Comparison, Register, Width};
///
/// // XDP_PASS for even receive queues, XDP_DROP for odd ones.
/// let mut code = Assembler::new();
/// let odd = code.label();
/// code.load(Width::Word, Register::R2, Register::R1, 16); // xdp_md::rx_queue_index
/// code.set(Register::R0, 1);
/// code.jump_if(Register::R2, Comparison::HasBits, 1, odd);
/// code.set(Register::R0, 2);
/// code.bind(odd);
/// code.exit();
/// assert_eq!(code.finish().len(), 5);
/// ```
#[derive(Debug, Default)]
pub struct Assembler<'maps> {
    instructions: Vec<Instruction>,
    /// Where each label is, once it is bound.
    labels: Vec<Option<usize>>,
    /// Instructions that jump, and where to.
    jumps: Vec<(usize, Label)>,
    maps: PhantomData<&'maps ()>,
}

impl<'maps> Assembler<'maps> {
    /// A program without instructions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a register.
    pub fn set(&mut self, to: Register, value: impl Into<Operand>) {
        self.calculate(MOVE, to, value.into());
    }

    /// Adds to a register.
    pub fn add(&mut self, to: Register, value: impl Into<Operand>) {
        self.calculate(ADD, to, value.into());
    }

    /// Keeps only the bits of a register that the operand has too.
    pub fn and(&mut self, to: Register, value: impl Into<Operand>) {
        self.calculate(AND, to, value.into());
    }

    /// Shifts a register to the left.
    pub fn shift_left(&mut self, to: Register, bits: i32) {
        self.calculate(SHIFT_LEFT, to, Operand::Number(bits));
    }

    /// Loads from memory at `base + offset`, without a change of the byte order; the upper bits become 0.
    pub fn load(&mut self, width: Width, to: Register, base: Register, offset: i16) {
        self.push(LOAD | MEMORY | width as u8, to, base, offset, 0);
    }

    /// Stores a register, or a number, at `base + offset`, without a change of the byte order.
    pub fn store(&mut self, width: Width, base: Register, offset: i16, value: impl Into<Operand>) {
        match value.into() {
            Operand::Register(from) => {
                self.push(STORE_REGISTER | MEMORY | width as u8, base, from, offset, 0);
            }
            Operand::Number(number) => {
                self.push(STORE_NUMBER | MEMORY | width as u8, base, Register::R0, offset, number);
            }
        }
    }

    /// Loads the address of a map.
    pub fn load_map(&mut self, to: Register, map: &'maps impl AsFd) {
        let map = map.as_fd().as_raw_fd();
        // Two slots: a constant of 64 bits, which the source register marks as a map.
        self.push(LOAD_CONSTANT, to, MAP_BY_DESCRIPTOR, 0, map);
        self.push(0, Register::R0, Register::R0, 0, 0);
    }

    /// Calls a helper of the kernel by its number (`enum bpf_func_id`): arguments in R1 to R5, which it spoils, and the result in R0.
    pub fn call(&mut self, helper: i32) {
        self.push(JUMP | CALL, Register::R0, Register::R0, 0, helper);
    }

    /// Ends the program; its verdict is R0.
    pub fn exit(&mut self) {
        self.push(JUMP | EXIT, Register::R0, Register::R0, 0, 0);
    }

    /// A place to jump to, which is to be [bound](Self::bind) later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Lets a label be the place of the next instruction.
    pub fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// Jumps always.
    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.push(JUMP, Register::R0, Register::R0, 0, 0);
    }

    /// Jumps if the comparison of 64 bits, without a sign, holds.
    pub fn jump_if(&mut self, left: Register, is: Comparison, right: impl Into<Operand>, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        match right.into() {
            Operand::Register(right) => self.push(JUMP | is as u8 | BY_REGISTER, left, right, 0, 0),
            Operand::Number(number) => self.push(JUMP | is as u8, left, Register::R0, 0, number),
        }
    }

    /// The program.
    ///
    /// # Panics
    ///
    /// If a label that is jumped to was never bound, or is more than 32,767 instructions away.
    pub fn finish(mut self) -> Code<'maps> {
        for (from, label) in self.jumps {
            let to = self.labels[label.0].expect("each label that is jumped to is bound");
            // From the instruction behind the jump.
            let distance = to as isize - from as isize - 1;
            self.instructions[from].offset = i16::try_from(distance).expect("programs are short");
        }
        Code { instructions: self.instructions, maps: PhantomData }
    }

    fn calculate(&mut self, operation: u8, to: Register, value: Operand) {
        match value {
            Operand::Register(from) => self.push(CALCULATE | operation | BY_REGISTER, to, from, 0, 0),
            Operand::Number(number) => self.push(CALCULATE | operation, to, Register::R0, 0, number),
        }
    }

    fn push(&mut self, code: u8, to: Register, from: Register, offset: i16, number: i32) {
        let (to, from) = (to as u8, from as u8);
        // Two fields of four bits, in the order of the machine.
        let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        self.instructions.push(Instruction { code, registers, offset, number });
    }
}

/// A finished program, to be [loaded](super::Program::load_xdp) while its maps live.
#[derive(Debug, Clone)]
pub struct Code<'maps> {
    pub(super) instructions: Vec<Instruction>,
    maps: PhantomData<&'maps ()>,
}

impl Code<'_> {
    /// Slots of instructions; an address of a map takes two.
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }
}

/// `struct bpf_insn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    number: i32,
}

/// A register. R1 holds the context at the start, R0 the verdict at the end; calls keep R6 to R9; R10 is the end of a stack of
/// 512 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "a number each")]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// What an instruction takes beside its register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// The value of a register.
    Register(Register),
    /// A number, whose sign is extended to 64 bits.
    Number(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

/// How much is loaded or stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// 4 bytes.
    Word = 0x00,
    /// 2 bytes.
    Half = 0x08,
    /// 1 byte.
    Byte = 0x10,
    /// 8 bytes.
    Double = 0x18,
}

/// When a conditional jump is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Comparison {
    /// Both are equal.
    Equal = 0x10,
    /// The left one is greater, without a sign.
    Greater = 0x20,
    /// They have a bit in common.
    HasBits = 0x40,
    /// They differ.
    NotEqual = 0x50,
}

/// A place within a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

// Classes of instructions, RFC 9669 3.
const LOAD_CONSTANT: u8 = 0x18;
const LOAD: u8 = 0x01;
const STORE_NUMBER: u8 = 0x02;
const STORE_REGISTER: u8 = 0x03;
const JUMP: u8 = 0x05;
const CALCULATE: u8 = 0x07;

const MEMORY: u8 = 0x60;
/// The operand is a register.
const BY_REGISTER: u8 = 0x08;
/// As source register of a constant: the constant is the descriptor of a map (RFC 9669 5.4).
const MAP_BY_DESCRIPTOR: Register = Register::R1;

// Operations, RFC 9669 4.
const ADD: u8 = 0x00;
const AND: u8 = 0x50;
const SHIFT_LEFT: u8 = 0x60;
const MOVE: u8 = 0xb0;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;

#[cfg(test)]
mod tests {
    use super::*;

    /// As `struct bpf_insn` lies in memory on little-endian machines, from the tables of RFC 9669.
    #[test]
    fn instructions_are_encoded_as_the_rfc_says() {
        let mut code = Assembler::new();
        let end = code.label();
        code.set(Register::R6, Register::R1);
        code.set(Register::R0, -2);
        code.add(Register::R2, 14);
        code.and(Register::R4, 15);
        code.shift_left(Register::R4, 2);
        code.load(Width::Half, Register::R2, Register::R7, 12);
        code.store(Width::Double, Register::R10, -16, 0);
        code.store(Width::Word, Register::R10, -4, Register::R2);
        code.jump_if(Register::R2, Comparison::Greater, Register::R8, end);
        code.jump_if(Register::R2, Comparison::NotEqual, 8, end);
        code.call(51);
        code.bind(end);
        code.exit();
        let expected: [(u8, u8, i16, i32); 12] = [
            (0xbf, 0x16, 0, 0),
            (0xb7, 0x00, 0, -2),
            (0x07, 0x02, 0, 14),
            (0x57, 0x04, 0, 15),
            (0x67, 0x04, 0, 2),
            (0x69, 0x72, 12, 0),
            (0x7a, 0x0a, -16, 0),
            (0x63, 0x2a, -4, 0),
            (0x2d, 0x82, 2, 0),
            (0x55, 0x02, 1, 8),
            (0x85, 0x00, 0, 51),
            (0x95, 0x00, 0, 0),
        ];
        if cfg!(target_endian = "little") {
            let code = code.finish();
            let found: Vec<_> =
                code.instructions.iter().map(|i| (i.code, i.registers, i.offset, i.number)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn labels_are_found_in_both_directions() {
        let mut code = Assembler::new();
        let (start, end) = (code.label(), code.label());
        code.bind(start);
        code.jump(end);
        code.jump(start);
        code.bind(end);
        code.exit();
        let code = code.finish();
        assert_eq!((code.instructions[0].offset, code.instructions[1].offset), (1, -2));
    }

    #[test]
    #[should_panic(expected = "is bound")]
    fn a_jump_to_nowhere_is_no_program() {
        let mut code = Assembler::new();
        let nowhere = code.label();
        code.jump(nowhere);
        code.finish();
    }
}
