//! Which frames a capture keeps: a part of the language of pcap-filter(7).
//!
//! ```text
//! filter    = test { ("and" | "&&" | "or" | "||") test }      both bind alike, from left to right, as pcap has it
//! test      = [ "not" | "!" ] ( "(" filter ")" | primitive )
//! primitive = protocol [ [direction] what ] | [direction] what | "less" N | "greater" N
//! protocol  = "ip" | "ip6" | "arp" | "tcp" | "udp" | "icmp" | "icmp6"
//! direction = "src" | "dst" | "src or dst"
//! what      = [ "host" ] IP | "net" IP/BITS | "port" N | "portrange" N-N | "ether" "host" MAC
//! ```
//!
//! Left out, and refused with the place: names of hosts and services (nothing is looked up), a second value without its word
//! (`port 80 or 443`), offsets (`tcp[13]`), tags of VLANs. Without a protocol, `port` is of TCP and of UDP, and `host` and `net`
//! look at ARP too. A fragment behind the first has no ports.

mod read;
mod view;

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use anywire_advice::Advice;
use anywire_packet::{Cidr, Mac};

use self::view::View;

/// A filter of frames.
///
/// ```
/// use anywire_stack::capture::Filter;
///
/// let filter: Filter = "tcp port 80 and host 10.0.0.1".parse()?;
/// assert!(!filter.matches(&[0; 60]));
/// let wrong = "tcp porf 80".parse::<Filter>().expect_err("a word is unknown");
/// assert_eq!(wrong.at, 4);
/// # Ok::<(), anywire_stack::capture::FilterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// In the order of evaluation; each takes its operands from a stack of truths.
    steps: Vec<Step>,
    text: String,
}

impl Filter {
    /// Whether a frame passes.
    pub fn matches(&self, frame: &[u8]) -> bool {
        let view = View::of(frame);
        // Its depth is bounded by that of the parentheses.
        let (mut truths, mut depth) = (0_u64, 0_u32);
        for step in &self.steps {
            match step {
                Step::Test(test) => {
                    truths |= u64::from(test.holds(&view)) << depth;
                    depth += 1;
                }
                Step::Not => truths ^= 1 << (depth - 1),
                Step::And | Step::Or => {
                    depth -= 1;
                    let last = truths >> depth & 1;
                    truths &= !(1 << depth);
                    let below = 1 << (depth - 1);
                    match step {
                        Step::And if last == 0 => truths &= !below,
                        Step::Or if last == 1 => truths |= below,
                        _ => {}
                    }
                }
            }
        }
        truths & 1 == 1
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Ok(Self { steps: read::steps(text)?, text: text.to_owned() })
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A filter that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at} of the filter {text:?}{help}", help = Advice(.help))]
pub struct FilterError {
    /// Bytes before the part that is not understood.
    pub at: usize,
    text: String,
    what: String,
    help: &'static str,
}

/// One step of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Test(Test),
    Not,
    And,
    Or,
}

/// What is asked of one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Test {
    protocol: Option<Protocol>,
    direction: Option<Direction>,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Ip,
    Ip6,
    Arp,
    Tcp,
    Udp,
    Icmp,
    Icmp6,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Source,
    Destination,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// The protocol alone.
    Any,
    Host(IpAddr),
    Net(Cidr),
    Ports(RangeInclusive<u16>),
    Ether(Mac),
    /// So many bytes at most.
    Less(usize),
    Greater(usize),
}

impl Test {
    fn holds(&self, view: &View) -> bool {
        self.protocol.is_none_or(|protocol| view.is_of(protocol)) && self.what_holds(view)
    }

    fn what_holds(&self, view: &View) -> bool {
        match &self.what {
            What::Any => true,
            What::Host(host) => self.either(view.addresses, |address| address == host),
            What::Net(net) => self.either(view.addresses, |address| net.contains(*address)),
            What::Ports(ports) => self.either(view.ports, |port| ports.contains(port)),
            What::Ether(mac) => self.either(view.macs, |address| address == mac),
            What::Less(bytes) => view.bytes <= *bytes,
            What::Greater(bytes) => view.bytes >= *bytes,
        }
    }

    /// Whether source or destination are such, as far as the direction asks.
    fn either<T>(&self, ends: Option<(T, T)>, is_such: impl Fn(&T) -> bool) -> bool {
        let Some((source, destination)) = ends else { return false };
        match self.direction {
            Some(Direction::Source) => is_such(&source),
            Some(Direction::Destination) => is_such(&destination),
            None => is_such(&source) || is_such(&destination),
        }
    }
}

#[cfg(test)]
mod tests;
