//! The blocks of a pcapng file, as tshark and Wireshark read them (draft-ietf-opsawg-pcapng).

/// The begin of a section: what follows is of this machine's byte order.
pub fn section_header(out: &mut Vec<u8>) {
    block(out, SECTION_HEADER, |body| {
        body.extend(BYTE_ORDER.to_ne_bytes());
        body.extend(1_u16.to_ne_bytes());
        body.extend(0_u16.to_ne_bytes());
        // How long the section will be is not known.
        body.extend(u64::MAX.to_ne_bytes());
        option(body, USER_APPLICATION, concat!("anywire ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(body, END_OF_OPTIONS, &[]);
    });
}

/// An Ethernet interface, of whose frames `frame_bytes` are kept at most. The first one is 0, and so on.
pub fn interface(out: &mut Vec<u8>, name: &str, frame_bytes: u32) {
    block(out, INTERFACE, |body| {
        body.extend(ETHERNET.to_ne_bytes());
        body.extend(0_u16.to_ne_bytes());
        body.extend(frame_bytes.to_ne_bytes());
        option(body, INTERFACE_NAME, name.as_bytes());
        option(body, END_OF_OPTIONS, &[]);
    });
}

/// A frame that passed an interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'f> {
    pub(super) interface: u32,
    /// Since 1970.
    pub(super) micros: u64,
    pub(super) is_inbound: bool,
    /// Its first bytes, as many as are recorded.
    pub(super) bytes: &'f [u8],
    /// Bytes of the whole packet.
    pub(super) length: usize,
}

pub(super) fn packet(out: &mut Vec<u8>, packet: &Packet<'_>) {
    block(out, PACKET, |body| {
        body.extend(packet.interface.to_ne_bytes());
        body.extend(halves(packet.micros));
        body.extend((packet.bytes.len() as u32).to_ne_bytes());
        body.extend((packet.length as u32).to_ne_bytes());
        body.extend_from_slice(packet.bytes);
        pad(body);
        let direction: u32 = if packet.is_inbound { 1 } else { 2 };
        option(body, PACKET_FLAGS, &direction.to_ne_bytes());
        option(body, END_OF_OPTIONS, &[]);
    });
}

/// How many frames of an interface the capture has dropped so far. `micros` is the time since 1970.
pub fn statistics(out: &mut Vec<u8>, interface: u32, micros: u64, dropped: u64) {
    block(out, STATISTICS, |body| {
        body.extend(interface.to_ne_bytes());
        body.extend(halves(micros));
        option(body, INTERFACE_DROPPED, &dropped.to_ne_bytes());
        option(body, END_OF_OPTIONS, &[]);
    });
}

/// The high half of a time comes first, whatever the byte order.
fn halves(micros: u64) -> impl Iterator<Item = u8> {
    [(micros >> 32) as u32, micros as u32].into_iter().flat_map(u32::to_ne_bytes)
}

/// A block's length stands at both of its ends.
fn block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_ne_bytes());
    out.extend([0; 4]);
    fill(out);
    let length = ((out.len() - start + 4) as u32).to_ne_bytes();
    out[start + 4..start + 8].copy_from_slice(&length);
    out.extend(length);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_ne_bytes());
    body.extend((value.len() as u16).to_ne_bytes());
    body.extend_from_slice(value);
    pad(body);
}

/// To 32 bits, counted from the start of the block: all parts before are padded too.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const ETHERNET: u16 = 1;
const END_OF_OPTIONS: u16 = 0;
const INTERFACE_NAME: u16 = 2;
const PACKET_FLAGS: u16 = 2;
const INTERFACE_DROPPED: u16 = 5;
const USER_APPLICATION: u16 = 4;
