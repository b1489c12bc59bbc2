//! Segments as frames, made and read here, independently of the crate's own code; every checksum is verified.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::BitOr;

/// The control bits.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Bits(pub u8);

pub const FIN: Bits = Bits(1);
pub const SYN: Bits = Bits(2);
pub const RST: Bits = Bits(4);
pub const PSH: Bits = Bits(8);
pub const ACK: Bits = Bits(16);
pub const URG: Bits = Bits(32);
pub const ECE: Bits = Bits(64);
pub const CWR: Bits = Bits(128);

impl BitOr for Bits {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitAnd for Bits {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Bits {
    pub const fn has(self, all: Self) -> bool {
        self.0 & all.0 == all.0
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        let names: Vec<_> = (0..8).filter(|bit| self.0 >> bit & 1 == 1).map(|bit| NAMES[bit]).collect();
        f.write_str(&names.join("|"))
    }
}

/// A TCP segment with its addresses.
#[derive(Clone, PartialEq, Eq)]
pub struct Segment {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub ack: u32,
    pub bits: Bits,
    pub window: u16,
    pub urgent: u16,
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: Option<(u32, u32)>,
    pub sack: Vec<(u32, u32)>,
    /// Options as they are, behind those above.
    pub raw_options: Vec<u8>,
    pub payload: Vec<u8>,
    /// DSCP and ECN of the IP header.
    pub traffic_class: u8,
    pub hop_limit: u8,
    /// Of IPv4: do not fragment. Nothing to set.
    pub dont_fragment: bool,
}

impl Segment {
    pub fn new(from: SocketAddr, to: SocketAddr) -> Self {
        Self {
            from,
            to,
            seq: 0,
            ack: 0,
            bits: Bits::default(),
            window: 65_535,
            urgent: 0,
            mss: None,
            scale: None,
            sack_permitted: false,
            timestamps: None,
            sack: Vec::new(),
            raw_options: Vec::new(),
            payload: Vec::new(),
            traffic_class: 0,
            hop_limit: 64,
            dont_fragment: true,
        }
    }

    pub fn is(&self, bits: Bits) -> bool {
        self.bits.has(bits)
    }

    /// Sequence numbers that it takes.
    pub fn len(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.is(SYN)) + u32::from(self.is(FIN))
    }

    /// The sequence number behind it.
    pub fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len())
    }

    /// The segment in an Ethernet frame.
    pub fn frame(&self) -> Vec<u8> {
        let mut options = Vec::new();
        if let Some(mss) = self.mss {
            options.extend_from_slice(&[2, 4, (mss >> 8) as u8, mss as u8]);
        }
        if let Some(scale) = self.scale {
            options.extend_from_slice(&[1, 3, 3, scale]);
        }
        if self.sack_permitted {
            options.extend_from_slice(&[1, 1, 4, 2]);
        }
        if let Some((value, echo)) = self.timestamps {
            options.extend_from_slice(&[1, 1, 8, 10]);
            options.extend_from_slice(&value.to_be_bytes());
            options.extend_from_slice(&echo.to_be_bytes());
        }
        if !self.sack.is_empty() {
            options.extend_from_slice(&[1, 1, 5, 2 + 8 * self.sack.len() as u8]);
            for (left, right) in &self.sack {
                options.extend_from_slice(&left.to_be_bytes());
                options.extend_from_slice(&right.to_be_bytes());
            }
        }
        options.extend(&self.raw_options);
        options.resize(options.len().next_multiple_of(4), 0);
        assert!(options.len() <= 40, "options of {} bytes", options.len());

        let mut tcp = Vec::new();
        tcp.extend_from_slice(&self.from.port().to_be_bytes());
        tcp.extend_from_slice(&self.to.port().to_be_bytes());
        tcp.extend_from_slice(&self.seq.to_be_bytes());
        tcp.extend_from_slice(&self.ack.to_be_bytes());
        tcp.extend_from_slice(&[(((20 + options.len()) / 4) << 4) as u8, self.bits.0]);
        tcp.extend_from_slice(&self.window.to_be_bytes());
        tcp.extend_from_slice(&[0, 0]);
        tcp.extend_from_slice(&self.urgent.to_be_bytes());
        tcp.extend(options);
        tcp.extend(&self.payload);
        let sum = !sum(&[&pseudo(self.from.ip(), self.to.ip(), 6, tcp.len()), &tcp]);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        ip_frame(self.from.ip(), self.to.ip(), 6, self.traffic_class, self.hop_limit, &tcp)
    }

    /// The segment in a frame; nothing if it holds none. Panics if a checksum or length is wrong.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let packet = &frame[14..];
        let (from, to, protocol, traffic_class, hop_limit, dont_fragment, tcp) = match &frame[12..14] {
            [8, 0] => {
                let header = usize::from(packet[0] & 15) * 4;
                let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
                assert_eq!(sum(&[&packet[..header]]), 0xffff, "checksum of the IP header");
                let address =
                    |at: usize| IpAddr::V4(Ipv4Addr::from_octets(*packet[at..].first_chunk().unwrap()));
                let flags = packet[6] & 0x40 != 0;
                (address(12), address(16), packet[9], packet[1], packet[8], flags, &packet[header..total])
            }
            [0x86, 0xdd] => {
                let length = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
                let class = (packet[0] << 4) | (packet[1] >> 4);
                let address =
                    |at: usize| IpAddr::V6(Ipv6Addr::from_octets(*packet[at..].first_chunk().unwrap()));
                (address(8), address(24), packet[6], class, packet[7], true, &packet[40..40 + length])
            }
            _ => return None,
        };
        if protocol != 6 {
            return None;
        }
        assert_eq!(sum(&[&pseudo(from, to, 6, tcp.len()), tcp]), 0xffff, "checksum of the segment");
        let two = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let four = |at: usize| u32::from_be_bytes(*tcp[at..].first_chunk().unwrap());
        let data = usize::from(tcp[12] >> 4) * 4;
        assert_eq!(tcp[12] & 15, 0, "reserved bits are zero (MUST of RFC 9293 3.1)");
        let mut segment = Self {
            seq: four(4),
            ack: four(8),
            bits: Bits(tcp[13]),
            window: two(14),
            urgent: two(18),
            payload: tcp[data..].to_vec(),
            traffic_class,
            hop_limit,
            dont_fragment,
            ..Self::new(SocketAddr::new(from, two(0)), SocketAddr::new(to, two(2)))
        };
        segment.read_options(&tcp[20..data]);
        assert!(segment.urgent == 0 && !segment.is(URG), "no urgent data is ever sent (MUST-62 of RFC 9293)");
        let offers = segment.mss.is_some() || segment.scale.is_some() || segment.sack_permitted;
        assert!(!offers || segment.is(SYN), "an offer without SYN (MUST-65 of RFC 9293): {segment:?}");
        Some(segment)
    }

    fn read_options(&mut self, mut options: &[u8]) {
        let word = |bytes: &[u8]| u32::from_be_bytes(*bytes.first_chunk().unwrap());
        loop {
            options = match options {
                [] => return,
                [0, padding @ ..] => {
                    assert!(padding.iter().all(|byte| *byte == 0), "MUST-69 of RFC 9293: {padding:?}");
                    return;
                }
                [1, rest @ ..] => rest,
                [kind, length, ..] => {
                    let (option, rest) = options.split_at(usize::from(*length));
                    match (*kind, &option[2..]) {
                        (2, mss) => self.mss = Some(u16::from_be_bytes([mss[0], mss[1]])),
                        (3, scale) => self.scale = Some(scale[0]),
                        (4, _) => self.sack_permitted = true,
                        (5, blocks) => {
                            self.sack =
                                blocks.chunks(8).map(|block| (word(block), word(&block[4..]))).collect();
                        }
                        (8, both) => self.timestamps = Some((word(both), word(&both[4..]))),
                        _ => self.raw_options.extend(option),
                    }
                    rest
                }
                [_] => panic!("an option without a length"),
            }
        }
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.bits, self.seq)?;
        write!(f, "+{} ack {} win {}", self.payload.len(), self.ack, self.window)?;
        if let Some((value, echo)) = self.timestamps {
            write!(f, " ts {value}/{echo}")?;
        }
        if !self.sack.is_empty() {
            write!(f, " sack {:?}", self.sack)?;
        }
        Ok(())
    }
}

/// An IP packet in an Ethernet frame.
pub fn ip_frame(from: IpAddr, to: IpAddr, protocol: u8, class: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total = (20 + payload.len()) as u16;
            let mut header =
                vec![0x45, class, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, hop_limit, protocol, 0, 0];
            header.extend_from_slice(&from.octets());
            header.extend_from_slice(&to.octets());
            let sum = !sum(&[&header]);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend_from_slice(&[8, 0]);
            frame.extend(header);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let length = payload.len() as u16;
            frame.extend_from_slice(&[0x86, 0xdd, 0x60 | (class >> 4), class << 4, 0, 0]);
            frame.extend_from_slice(&[(length >> 8) as u8, length as u8, protocol, hop_limit]);
            frame.extend_from_slice(&from.octets());
            frame.extend_from_slice(&to.octets());
        }
        _ => panic!("addresses of two families"),
    }
    frame.extend(payload);
    frame
}

fn pseudo(from: IpAddr, to: IpAddr, protocol: u8, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for address in [from, to] {
        match address {
            IpAddr::V4(address) => bytes.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes.extend_from_slice(&address.octets()),
        }
    }
    bytes.extend_from_slice(&(length as u32).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, protocol]);
    bytes
}

/// The ones' complement sum of parts of even length (the last may be odd).
pub fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u128;
    for part in parts {
        // Four words of 16 bits at a time give the same sum, as its carries come round (RFC 1071, section 2).
        let (fours, rest) = part.as_chunks();
        for four in fours {
            sum += u128::from(u64::from_be_bytes(*four));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        sum += u128::from(u64::from_be_bytes(last));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// An ICMP error about a segment, from a router: type and code, and the MTU where the kind has one.
pub fn icmp_error(router: IpAddr, about: &Segment, kind: u8, code: u8, mtu: u32) -> Vec<u8> {
    let quoted = &about.frame()[14..];
    let quoted = &quoted[..quoted.len().min(if about.from.is_ipv4() { 28 } else { 200 })];
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(&mtu.to_be_bytes());
    message.extend(quoted);
    let (protocol, head) = match about.from.ip() {
        IpAddr::V4(_) => (1, Vec::new()),
        IpAddr::V6(_) => (58, pseudo(router, about.from.ip(), 58, message.len())),
    };
    let sum = !sum(&[&head, &message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ip_frame(router, about.from.ip(), protocol, 0, 64, &message)
}
