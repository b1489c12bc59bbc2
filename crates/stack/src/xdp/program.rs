//! The XDP program: which packets go to the stack, and which to the kernel.
//!
//! For each packet that arrives on the interface:
//!
//! | packet | goes to the stack |
//! | --- | --- |
//! | IPv4 or IPv6 to an address that is the stack's | always: TCP, UDP, ICMP and fragments |
//! | IPv4 or IPv6 to an address of which the stack has ports | TCP to such a port; not behind IPv6 extension headers, and no later fragment |
//! | ARP whose target or sender is an address of the stack's | always |
//! | neighbour solicitation or advertisement (RFC 4861) about an address of the stack's | always, whatever group it is sent to |
//! | anything else: VLAN tags, other protocols, other addresses | never |
//!
//! A sender's address in ARP counts so that the stack hears of others who use it (RFC 5227). The target of a neighbour
//! message counts so that solicited-node groups need no table of their own: two addresses with the same last 24 bits share one. What
//! neighbours say of themselves without being asked goes to the kernel, of which [`NeighbourMessages`] has a copy.
//!
//! [`NeighbourMessages`]: anywire_sys::network_interface::NeighbourMessages
//!
//! "To the stack" is a redirect to an AF_XDP socket of the queue that the packet came by. If there is none, the packet goes to the
//! kernel. Each queue has two sockets:
//!
//! | packet | socket |
//! | --- | --- |
//! | TCP with ACK, and neither SYN nor RST; no fragment, and not behind IPv6 extension headers | [`Class::Priority`] |
//! | anything else: SYN, RST, fragments, ARP, ICMP, UDP | [`Class::BestEffort`] |
//!
//! The second kind is what anybody can send without a connection, and as much of it as the link carries. So it has a receive ring of its
//! own, of which the stack takes a few frames at a time.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

use anywire_sys::bpf::Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use anywire_sys::bpf::Width::{Byte, Double, Half, Word};
use anywire_sys::bpf::{Assembler, Code, Comparison, Label, LoadError, Map, Program, Register, SocketMap};
use anywire_sys::xsk::Class;

/// The tables that the program reads.
#[derive(Debug)]
pub(super) struct Maps {
    /// Addresses of the stack, 4-in-6 mapped if they are IPv4. The value says whether all of the address is the stack's.
    addresses: Map<16, 4>,
    /// The same, with a TCP port each.
    ports: Map<20, 4>,
    /// The sockets of each queue, by [`set_socket`](Self::set_socket).
    sockets: SocketMap,
}

impl Maps {
    /// Empty tables for an interface with so many receive queues.
    pub(super) fn new(queues: u32) -> io::Result<Self> {
        Ok(Self {
            addresses: Map::hash("aw_addresses", ADDRESSES_MAX)?,
            ports: Map::hash("aw_ports", PORTS_MAX)?,
            sockets: SocketMap::new("aw_sockets", 2 * queues)?,
        })
    }

    /// Has the program look for an address, all of which is the stack's or some ports of it.
    pub(super) fn add_address(&self, address: IpAddr, whole: bool) -> io::Result<()> {
        let share = if whole { WHOLE } else { BY_PORT };
        self.addresses.insert(&address_key(address), &share.to_ne_bytes())
    }

    pub(super) fn remove_address(&self, address: IpAddr) -> io::Result<bool> {
        self.addresses.remove(&address_key(address))
    }

    pub(super) fn add_port(&self, address: SocketAddr) -> io::Result<()> {
        self.ports.insert(&port_key(address), &1_u32.to_ne_bytes())
    }

    /// Has packets of a queue and a class go to a socket.
    pub(super) fn set_socket(&self, queue: u32, class: Class, socket: impl AsFd) -> io::Result<()> {
        self.sockets.insert(2 * queue + class as u32, socket)
    }

    pub(super) fn remove_port(&self, address: SocketAddr) -> io::Result<bool> {
        self.ports.remove(&port_key(address))
    }
}

/// Loads the program. The verdicts are for packets of the stack's whose queue has no socket: one for each [`Class`].
pub(super) fn load(maps: &Maps, else_verdicts: [Verdict; 2]) -> Result<Program, LoadError> {
    Program::load_xdp("anywire", &assemble(maps, else_verdicts))
}

/// What becomes of a packet (`enum xdp_action`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is dropped. Tests tell by it what would be redirected.
    #[cfg(test)]
    Drop = 1,
    /// It goes on to the kernel.
    Pass = 2,
    /// It is sent back. Tests tell by it what would be redirected to the second socket.
    #[cfg(test)]
    SendBack = 3,
}

fn address_key(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn port_key(address: SocketAddr) -> [u8; 20] {
    let mut key = [0; 20];
    key[..16].copy_from_slice(&address_key(address.ip()));
    // The program stores the port, in network order, as the low half of a word.
    let port = u32::from(u16::from_ne_bytes(address.port().to_be_bytes()));
    key[16..].copy_from_slice(&port.to_ne_bytes());
    key
}

// Registers that calls keep.
const CONTEXT: Register = R6;
const DATA: Register = R7;
const DATA_END: Register = R8;
/// The TCP header.
const TCP: Register = R9;

fn assemble(maps: &Maps, [priority_verdict, best_effort_verdict]: [Verdict; 2]) -> Code<'_> {
    let mut code = Assembler::new();
    let [ipv4, ipv6, arp, tcp] = std::array::from_fn(|_| code.label());
    let ends = Ends { redirect: code.label(), pass: code.label() };

    code.set(CONTEXT, R1);
    code.load(Word, DATA, CONTEXT, XDP_MD_DATA);
    code.load(Word, DATA_END, CONTEXT, XDP_MD_DATA_END);
    code.store(Word, R10, CLASS, Class::BestEffort as i32);
    need(&mut code, DATA, ETHERNET + IPV4, ends.pass);
    code.load(Half, R2, DATA, ETHER_TYPE);
    code.jump_if(R2, Comparison::Equal, network(0x0800), ipv4);
    code.jump_if(R2, Comparison::Equal, network(0x86dd), ipv6);
    code.jump_if(R2, Comparison::Equal, network(0x0806), arp);
    code.jump(ends.pass);

    code.bind(ipv4);
    classify_ipv4(&mut code);
    look_up_ipv4(&mut code, maps, ETHERNET + 16);
    ends.unless_by_port(&mut code);
    code.load(Byte, R2, DATA, ETHERNET + 9);
    code.jump_if(R2, Comparison::NotEqual, PROTOCOL_TCP, ends.pass);
    // A fragment but the first has no port: RFC 791, the last 13 bits of the word.
    code.load(Half, R2, DATA, ETHERNET + 6);
    code.and(R2, network(0x1fff));
    code.jump_if(R2, Comparison::NotEqual, 0, ends.pass);
    skip_ipv4(&mut code);
    code.jump(tcp);

    code.bind(ipv6);
    need(&mut code, DATA, ETHERNET + IPV6, ends.pass);
    neighbour_discovery(&mut code, maps, ends);
    classify_ipv6(&mut code);
    look_up_ipv6(&mut code, maps, ETHERNET + 24);
    ends.unless_by_port(&mut code);
    code.load(Byte, R2, DATA, ETHERNET + 6);
    code.jump_if(R2, Comparison::NotEqual, PROTOCOL_TCP, ends.pass);
    skip_ipv6(&mut code);

    code.bind(tcp);
    need(&mut code, TCP, 4, ends.pass);
    code.load(Half, R2, TCP, 2);
    // Behind the address that was looked up before.
    code.store(Word, R10, PORT, R2);
    look_up(&mut code, &maps.ports);
    code.jump_if(R0, Comparison::NotEqual, 0, ends.redirect);
    code.jump(ends.pass);

    code.bind(arp);
    need(&mut code, DATA, ETHERNET + ARP, ends.pass);
    // RFC 826: of IPv4, with addresses of six and four bytes.
    code.load(Half, R2, DATA, ETHERNET + 2);
    code.jump_if(R2, Comparison::NotEqual, network(0x0800), ends.pass);
    code.load(Half, R2, DATA, ETHERNET + 4);
    code.jump_if(R2, Comparison::NotEqual, network(0x0604), ends.pass);
    for address in [ARP_TARGET, ARP_SENDER] {
        look_up_ipv4(&mut code, maps, ETHERNET + address);
        ends.redirect_if_whole(&mut code);
    }
    code.jump(ends.pass);

    code.bind(ends.redirect);
    code.load_map(R1, &maps.sockets);
    code.load(Word, R2, CONTEXT, XDP_MD_QUEUE);
    code.shift_left(R2, 1);
    code.load(Word, R4, R10, CLASS);
    code.add(R2, R4);
    let is_priority = code.label();
    code.set(R3, priority_verdict as i32);
    code.jump_if(R4, Comparison::Equal, Class::Priority as i32, is_priority);
    code.set(R3, best_effort_verdict as i32);
    code.bind(is_priority);
    code.call(BPF_REDIRECT_MAP);
    code.exit();

    code.bind(ends.pass);
    code.set(R0, Verdict::Pass as i32);
    code.exit();
    code.finish()
}

/// Where the program ends.
#[derive(Clone, Copy)]
struct Ends {
    redirect: Label,
    pass: Label,
}

impl Ends {
    /// After a look-up of the destination: goes on only if ports of the address are the stack's.
    fn unless_by_port(self, code: &mut Assembler<'_>) {
        code.jump_if(R0, Comparison::Equal, 0, self.pass);
        code.load(Word, R1, R0, 0);
        code.jump_if(R1, Comparison::Equal, WHOLE as i32, self.redirect);
    }

    /// After a look-up: goes on unless all of the address is the stack's.
    fn redirect_if_whole(self, code: &mut Assembler<'_>) {
        let other = code.label();
        code.jump_if(R0, Comparison::Equal, 0, other);
        code.load(Word, R1, R0, 0);
        code.jump_if(R1, Comparison::Equal, WHOLE as i32, self.redirect);
        code.bind(other);
    }
}

/// Notes the class of an IPv4 packet, whose header without options is there.
fn classify_ipv4(code: &mut Assembler<'_>) {
    let other = code.label();
    code.load(Byte, R2, DATA, ETHERNET + 9);
    code.jump_if(R2, Comparison::NotEqual, PROTOCOL_TCP, other);
    // A fragment, the first included: RFC 791, all but the reserved bit and "don't fragment".
    code.load(Half, R2, DATA, ETHERNET + 6);
    code.and(R2, network(0x3fff));
    code.jump_if(R2, Comparison::NotEqual, 0, other);
    skip_ipv4(code);
    classify_tcp(code, other);
    code.bind(other);
}

/// The same for IPv6.
fn classify_ipv6(code: &mut Assembler<'_>) {
    let other = code.label();
    code.load(Byte, R2, DATA, ETHERNET + 6);
    code.jump_if(R2, Comparison::NotEqual, PROTOCOL_TCP, other);
    skip_ipv6(code);
    classify_tcp(code, other);
    code.bind(other);
}

fn classify_tcp(code: &mut Assembler<'_>, other: Label) {
    need(code, TCP, TCP_FLAGS + 1, other);
    code.load(Byte, R2, TCP, TCP_FLAGS);
    code.and(R2, SYN | RST | ACK);
    code.jump_if(R2, Comparison::NotEqual, ACK, other);
    code.store(Word, R10, CLASS, Class::Priority as i32);
}

/// TCP = what is behind the IPv4 header.
fn skip_ipv4(code: &mut Assembler<'_>) {
    // The header's length, in words, is the lower half of its first byte.
    code.load(Byte, R2, DATA, ETHERNET);
    code.and(R2, 0x0f);
    code.shift_left(R2, 2);
    code.set(TCP, DATA);
    code.add(TCP, R2);
    code.add(TCP, i32::from(ETHERNET));
}

/// TCP = what is behind the IPv6 header.
fn skip_ipv6(code: &mut Assembler<'_>) {
    code.set(TCP, DATA);
    code.add(TCP, i32::from(ETHERNET + IPV6));
}

/// Redirects a neighbour message whose target is the stack's; goes on with all else.
fn neighbour_discovery<'m>(code: &mut Assembler<'m>, maps: &'m Maps, ends: Ends) {
    let (neighbour, other) = (code.label(), code.label());
    code.load(Byte, R2, DATA, ETHERNET + 6);
    code.jump_if(R2, Comparison::NotEqual, PROTOCOL_ICMPV6, other);
    need(code, DATA, ETHERNET + IPV6 + NEIGHBOUR_MESSAGE, other);
    code.load(Byte, R2, DATA, ETHERNET + IPV6);
    code.jump_if(R2, Comparison::Equal, NEIGHBOUR_SOLICITATION, neighbour);
    code.jump_if(R2, Comparison::NotEqual, NEIGHBOUR_ADVERTISEMENT, other);
    code.bind(neighbour);
    look_up_ipv6(code, maps, ETHERNET + IPV6 + 8);
    ends.redirect_if_whole(code);
    code.bind(other);
}

/// Goes on if the packet has so many bytes from `start` on. The verifier demands it before each access.
fn need(code: &mut Assembler<'_>, start: Register, bytes: i16, otherwise: Label) {
    code.set(R2, start);
    code.add(R2, i32::from(bytes));
    code.jump_if(R2, Comparison::Greater, DATA_END, otherwise);
}

/// R0 = the value of the IPv4 address at `offset`, or 0.
fn look_up_ipv4<'m>(code: &mut Assembler<'m>, maps: &'m Maps, offset: i16) {
    const MAPPED: [u8; 16] = Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().octets();
    let marker = i32::from_ne_bytes([MAPPED[8], MAPPED[9], MAPPED[10], MAPPED[11]]);
    code.store(Double, R10, ADDRESS, 0);
    code.store(Word, R10, ADDRESS + 8, marker);
    code.load(Word, R2, DATA, offset);
    code.store(Word, R10, ADDRESS + 12, R2);
    look_up(code, &maps.addresses);
}

/// R0 = the value of the IPv6 address at `offset`, or 0.
fn look_up_ipv6<'m>(code: &mut Assembler<'m>, maps: &'m Maps, offset: i16) {
    // By words: the offset is no multiple of eight.
    for part in [0, 4, 8, 12] {
        code.load(Word, R4, DATA, offset + part);
        code.store(Word, R10, ADDRESS + part, R4);
    }
    look_up(code, &maps.addresses);
}

/// R0 = the address of the value for the key on the stack, or 0.
fn look_up<'m, const K: usize>(code: &mut Assembler<'m>, map: &'m Map<K, 4>) {
    code.load_map(R1, map);
    code.set(R2, R10);
    code.add(R2, i32::from(ADDRESS));
    code.call(BPF_MAP_LOOKUP);
}

/// A half of a word as it is loaded from a packet.
const fn network(number: u16) -> i32 {
    u16::from_ne_bytes(number.to_be_bytes()) as i32
}

/// All of the address is the stack's.
const WHOLE: u32 = 1;
/// Ports of the address are the stack's.
const BY_PORT: u32 = 2;

// `struct xdp_md`.
const XDP_MD_DATA: i16 = 0;
const XDP_MD_DATA_END: i16 = 4;
const XDP_MD_QUEUE: i16 = 16;

// Helpers, by `enum bpf_func_id`.
const BPF_MAP_LOOKUP: i32 = 1;
const BPF_REDIRECT_MAP: i32 = 51;

// The key on the program's stack: an address, and behind it a port.
const ADDRESS: i16 = -24;
const PORT: i16 = ADDRESS + 16;
/// Beside it, the class of the packet.
const CLASS: i16 = -32;

// Lengths of headers, and places within them.
const ETHERNET: i16 = 14;
const ETHER_TYPE: i16 = 12;
const IPV4: i16 = 20;
const IPV6: i16 = 40;
const ARP: i16 = 28;
const ARP_SENDER: i16 = 14;
const ARP_TARGET: i16 = 24;
/// Type, code, checksum, reserved, target: RFC 4861 4.3 and 4.4.
const NEIGHBOUR_MESSAGE: i16 = 24;

/// The flags of TCP (RFC 9293 3.1), and three of them.
const TCP_FLAGS: i16 = 13;
const SYN: i32 = 0x02;
const RST: i32 = 0x04;
const ACK: i32 = 0x10;

const PROTOCOL_TCP: i32 = 6;
const PROTOCOL_ICMPV6: i32 = 58;
const NEIGHBOUR_SOLICITATION: i32 = 135;
const NEIGHBOUR_ADVERTISEMENT: i32 = 136;

/// Addresses that the stack may have on an interface.
const ADDRESSES_MAX: u32 = 1024;
/// Ports that it may have on addresses of the kernel's.
const PORTS_MAX: u32 = 4096;

#[cfg(test)]
mod tests;
