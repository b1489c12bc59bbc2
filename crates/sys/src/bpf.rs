//! BPF: a program that the kernel checks and then runs on each packet, the maps that it shares with us, and the link that attaches it.
//!
//! Only what an XDP program needs, straight over `bpf(2)`: no object file, no loader library, no compiler. A program is
//! written in Rust with the [`Assembler`]. The kernel's verifier checks each program before it runs, so any sequence of
//! instructions is safe to [load](Program::load_xdp). A wrong one is refused with the verifier's log.
//!
//! The kernel keeps a program, a map or a link while a descriptor of it is open. So all of them go with the process,
//! however it ends. Creating them needs `CAP_BPF` and `CAP_NET_ADMIN` in the first user namespace.
//!
//! ```
//! use anywire_sys::bpf::{Assembler, Program, Register};
//!
//! const XDP_PASS: i32 = 2;
//! let mut code = Assembler::new();
//! code.set(Register::R0, XDP_PASS);
//! code.exit();
//! match Program::load_xdp("pass", &code.finish()) {
//!     Ok(program) => assert_eq!(program.run(&[0; 60])?, 2),
//!     Err(error) => println!("{error}"), // not the superuser
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod assembler;
mod call;
mod map;
mod program;

pub use assembler::{Assembler, Code, Comparison, Label, Operand, Register, Width};
pub use map::{Map, SocketMap};
pub use program::{AttachMode, LoadError, Program, XdpLink};
