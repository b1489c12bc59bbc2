//! The text of a filter, read into steps.

use std::net::IpAddr;
use std::str::FromStr;

use anywire_packet::Cidr;

use super::{Direction, FilterError, Protocol, Step, Test, What};

/// Reads a filter. Each step finds its operands on the stack of truths, and one is left at the end.
pub(super) fn steps(text: &str) -> Result<Vec<Step>, FilterError> {
    let mut reader = Reader { text, words: words(text), next: 0, steps: Vec::new() };
    if text.len() > BYTES_MAX {
        return Err(reader.wrong("the text is too long", "a filter has 1,024 bytes at most"));
    }
    reader.filter(0)?;
    match reader.word() {
        None => Ok(reader.steps),
        Some(_) => Err(reader.unexpected("`and`, `or` or the end")),
    }
}

struct Reader<'t> {
    text: &'t str,
    /// With the bytes before each.
    words: Vec<(usize, &'t str)>,
    next: usize,
    steps: Vec<Step>,
}

impl<'t> Reader<'t> {
    fn filter(&mut self, depth: u32) -> Result<(), FilterError> {
        self.test(depth)?;
        loop {
            let joined = match self.word() {
                Some("and" | "&&") => Step::And,
                Some("or" | "||") => Step::Or,
                _ => return Ok(()),
            };
            self.next += 1;
            self.test(depth)?;
            self.steps.push(joined);
        }
    }

    fn test(&mut self, depth: u32) -> Result<(), FilterError> {
        let mut is_negated = false;
        while self.takes(&["not", "!"]) {
            is_negated = !is_negated;
        }
        if self.takes(&["("]) {
            if depth >= DEPTH_MAX {
                self.next -= 1;
                return Err(self.wrong("the parenthesis is too deep", "up to 32 may be open at a time"));
            }
            self.filter(depth + 1)?;
            if !self.takes(&[")"]) {
                return Err(self.unexpected("`)`"));
            }
        } else {
            let test = self.primitive()?;
            self.steps.push(Step::Test(test));
        }
        if is_negated {
            self.steps.push(Step::Not);
        }
        Ok(())
    }

    fn primitive(&mut self) -> Result<Test, FilterError> {
        let first = self.next;
        let protocol = self.word().and_then(protocol_of);
        self.next += usize::from(protocol.is_some());
        let direction = match self.word() {
            Some("src") => Some(Direction::Source),
            Some("dst") => Some(Direction::Destination),
            _ => None,
        };
        self.next += usize::from(direction.is_some());
        let has_either = direction == Some(Direction::Source) && self.takes(&["or"]);
        if has_either && !self.takes(&["dst"]) {
            return Err(self.unexpected("`dst`"));
        }
        let ends = direction.filter(|_| !has_either);
        if let Some(host) = self.word().and_then(|word| word.parse().ok()) {
            self.next += 1;
            return self.checked(first, Test { protocol, direction: ends, what: What::Host(host) });
        }
        let what = match (self.word(), protocol, direction) {
            (Some("host"), ..) => What::Host(self.value("an IP address; no name is looked up")?),
            (Some("net"), ..) => self.net()?,
            (Some("port"), ..) => {
                let port = self.value("the number of a port; no name is looked up")?;
                What::Ports(port..=port)
            }
            (Some("portrange"), ..) => self.ports()?,
            (Some("ether"), None, None) => self.ether()?,
            (Some("ether"), None, Some(_)) => return Err(self.unexpected("behind a direction")),
            (Some("less"), None, None) => What::Less(self.value("a number of bytes")?),
            (Some("greater"), None, None) => What::Greater(self.value("a number of bytes")?),
            (_, Some(_), None) => return Ok(Test { protocol, direction, what: What::Any }),
            (_, _, Some(_)) => return Err(self.unexpected("host, net, port or portrange")),
            _ => return Err(self.unexpected(PRIMITIVES)),
        };
        self.next += 1;
        self.checked(first, Test { protocol, direction: ends, what })
    }

    /// Refuses what no frame can be, at its first word.
    fn checked(&mut self, first: usize, test: Test) -> Result<Test, FilterError> {
        if let Some((wrong, help)) = fault(test.protocol, &test.what) {
            self.next = first;
            return Err(self.wrong(wrong, help));
        }
        Ok(test)
    }

    /// The word behind the present one, read as a value. It is the present word afterwards.
    fn value<T: FromStr>(&mut self, expected: &str) -> Result<T, FilterError> {
        self.next += 1;
        let value = self.word().and_then(|word| word.parse().ok());
        value.ok_or_else(|| self.unexpected(expected))
    }

    fn net(&mut self) -> Result<What, FilterError> {
        let expected = "a network such as 10.0.0.0/8";
        self.next += 1;
        let parts = self.word().and_then(|word| word.split_once('/'));
        let net = parts
            .and_then(|(address, bits)| Cidr::new(address.parse::<IpAddr>().ok()?, bits.parse().ok()?).ok());
        let net = net.ok_or_else(|| self.unexpected(expected))?;
        if net.network() != net {
            return Err(self.wrong("the network has bits behind its prefix", "name it by its first address"));
        }
        Ok(What::Net(net))
    }

    fn ports(&mut self) -> Result<What, FilterError> {
        self.next += 1;
        let range = self.word().and_then(|word| word.split_once('-'));
        let range = range.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        match range.filter(|(first, last): &(u16, u16)| first <= last) {
            Some((first, last)) => Ok(What::Ports(first..=last)),
            None => Err(self.unexpected("a range of ports such as 8000-8010")),
        }
    }

    fn ether(&mut self) -> Result<What, FilterError> {
        self.next += 1;
        if self.word() != Some("host") {
            return Err(self.unexpected("`host`"));
        }
        Ok(What::Ether(self.value("an address such as 02:00:00:00:00:01")?))
    }

    fn word(&self) -> Option<&'t str> {
        self.words.get(self.next).map(|(_, word)| *word)
    }

    /// Whether the next word is one of these, which is then passed.
    fn takes(&mut self, words: &[&str]) -> bool {
        let is_there = self.word().is_some_and(|word| words.contains(&word));
        self.next += usize::from(is_there);
        is_there
    }

    fn unexpected(&self, expected: &str) -> FilterError {
        let found = self.word().map_or_else(|| "the end".to_owned(), |word| format!("{word:?}"));
        self.wrong(&format!("{found} where there should be {expected}"), LANGUAGE)
    }

    fn wrong(&self, what: &str, help: &'static str) -> FilterError {
        let at = self.words.get(self.next).map_or(self.text.len(), |(at, _)| *at);
        FilterError { at, text: self.text.to_owned(), what: what.to_owned(), help }
    }
}

/// Why no frame can be such, if none can.
fn fault(protocol: Option<Protocol>, what: &What) -> Option<(&'static str, &'static str)> {
    let is_v4 = match what {
        What::Ports(_) => {
            let has_none = matches!(protocol, Some(Protocol::Arp | Protocol::Icmp | Protocol::Icmp6));
            return has_none.then_some(("a protocol without ports", "ports are of tcp and udp"));
        }
        What::Host(ip) => ip.is_ipv4(),
        What::Net(net) => net.address().is_ipv4(),
        What::Any | What::Ether(_) | What::Less(_) | What::Greater(_) => return None,
    };
    let is_of_other = match protocol {
        Some(Protocol::Ip | Protocol::Arp | Protocol::Icmp) => !is_v4,
        Some(Protocol::Ip6 | Protocol::Icmp6) => is_v4,
        Some(Protocol::Tcp | Protocol::Udp) | None => false,
    };
    let help = "ip, arp and icmp are of IPv4, ip6 and icmp6 of IPv6";
    is_of_other.then_some(("a protocol without such addresses", help))
}

/// Words, and each parenthesis and exclamation mark by itself.
fn words(text: &str) -> Vec<(usize, &str)> {
    let (mut words, mut start) = (Vec::new(), None);
    for (at, letter) in text.char_indices() {
        let is_alone = matches!(letter, '(' | ')' | '!');
        if is_alone || letter.is_whitespace() {
            words.extend(start.take().map(|start| (start, &text[start..at])));
        }
        if is_alone {
            words.push((at, &text[at..=at]));
        } else if !letter.is_whitespace() {
            start.get_or_insert(at);
        }
    }
    words.extend(start.map(|start| (start, &text[start..])));
    words
}

fn protocol_of(word: &str) -> Option<Protocol> {
    Some(match word {
        "ip" => Protocol::Ip,
        "ip6" => Protocol::Ip6,
        "arp" => Protocol::Arp,
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "icmp" => Protocol::Icmp,
        "icmp6" => Protocol::Icmp6,
        _ => return None,
    })
}

const PRIMITIVES: &str =
    "ip, ip6, arp, tcp, udp, icmp, icmp6, src, dst, host, net, port, portrange, ether host, less or greater";

const LANGUAGE: &str =
    "write it as for tcpdump, such as 'tcp port 80 and host 10.0.0.1', with its word before each value";

/// Bytes of the text.
const BYTES_MAX: usize = 1024;

/// Parentheses that are open at a time. Each holds back one truth, and there are bits for 64.
const DEPTH_MAX: u32 = 32;
