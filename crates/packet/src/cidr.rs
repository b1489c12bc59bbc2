//! Networks as an address and a prefix length (RFC 4632, RFC 4291 2.3).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use anywire_advice::Advice;

/// An address and how many of its first bits name its network.
///
/// ```
/// use anywire_packet::Cidr;
///
/// let here: Cidr = "10.1.2.3/8".parse()?;
/// assert!(here.contains("10.200.0.1".parse().unwrap()) && !here.contains("11.0.0.1".parse().unwrap()));
/// assert_eq!((here.to_string(), here.network().to_string()), ("10.1.2.3/8".into(), "10.0.0.0/8".into()));
/// # Ok::<(), anywire_packet::CidrError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// All addresses of IPv4.
    pub const ALL_V4: Self = Self { address: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), prefix: 0 };

    /// All addresses of IPv6.
    pub const ALL_V6: Self = Self { address: IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), prefix: 0 };

    /// The network of `address` with so many bits.
    ///
    /// # Errors
    /// If the address has fewer bits: 32 for IPv4, 128 for IPv6.
    pub const fn new(address: IpAddr, prefix: u8) -> Result<Self, CidrError> {
        if prefix > bits_of(address) {
            return Err(CidrError::Prefix(prefix));
        }
        Ok(Self { address, prefix })
    }

    /// The network of this address alone.
    pub const fn host(address: IpAddr) -> Self {
        Self { address, prefix: bits_of(address) }
    }

    /// The address as it was given.
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// How many bits name the network.
    pub const fn prefix(self) -> u8 {
        self.prefix
    }

    /// The same network, named by its lowest address.
    #[must_use]
    pub fn network(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let rest = u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
                IpAddr::V4((address.to_bits() & !rest).into())
            }
            IpAddr::V6(address) => {
                let rest = u128::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
                IpAddr::V6((address.to_bits() & !rest).into())
            }
        };
        Self { address, ..self }
    }

    /// Whether `address` is in the network.
    #[inline]
    pub fn contains(self, address: IpAddr) -> bool {
        common_prefix(self.address, address).is_some_and(|bits| bits >= u32::from(self.prefix))
    }
}

/// How many bits two addresses have in common at their front. None if they are of different families.
#[inline]
pub fn common_prefix(one: IpAddr, another: IpAddr) -> Option<u32> {
    match (one, another) {
        (IpAddr::V4(one), IpAddr::V4(another)) => Some((one.to_bits() ^ another.to_bits()).leading_zeros()),
        (IpAddr::V6(one), IpAddr::V6(another)) => Some((one.to_bits() ^ another.to_bits()).leading_zeros()),
        _ => None,
    }
}

const fn bits_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// Reads `ADDRESS/PREFIX`. An address alone is a network of one.
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let wrong = || CidrError::Text(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address = address.parse().map_err(|_| wrong())?;
        let Some(prefix) = prefix else { return Ok(Self::host(address)) };
        if !prefix.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(wrong());
        }
        Self::new(address, prefix.parse().map_err(|_| wrong())?)
    }
}

/// Why a text or a pair of values is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CidrError {
    /// The prefix is longer than the address.
    #[error(
        "a prefix of {0} bits is longer than the address{help}",
        help = Advice("it takes at most 32 for IPv4, 128 for IPv6")
    )]
    Prefix(u8),
    /// The text is no address with a prefix.
    #[error("{0:?} is no network{help}", help = Advice("it takes an address and a prefix, as in 10.0.0.0/8"))]
    Text(String),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_that_is_no_network_is_refused() {
        for text in ["", "/", "10.0.0.1/", "/8", "10.0.0.1/+8", "10.0.0.1/8/8", "10.0.0/8", "::1/1000"] {
            assert_eq!(text.parse::<Cidr>(), Err(CidrError::Text(text.to_owned())));
        }
        assert_eq!("10.0.0.1/33".parse::<Cidr>(), Err(CidrError::Prefix(33)));
        assert_eq!("::1/129".parse::<Cidr>(), Err(CidrError::Prefix(129)));
        assert_eq!("10.0.0.1".parse(), Ok(Cidr::host([10, 0, 0, 1].into())));
        assert!(!Cidr::ALL_V4.contains("::".parse().expect("an address")));
    }

    proptest! {
        #[test]
        fn a_network_has_the_addresses_with_its_bits(address: u128, other: u128, prefix in 0u8..=128) {
            let cidr = Cidr::new(IpAddr::V6(address.into()), prefix).expect("it fits");
            let mask = !u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
            // Half of the time of the same network.
            for other in [other, address & mask | other & !mask] {
                let is_inside = other & mask == address & mask;
                prop_assert_eq!(cidr.contains(IpAddr::V6(other.into())), is_inside);
            }
            let lowest = cidr.network();
            prop_assert_eq!(lowest.address(), IpAddr::V6((address & mask).into()));
            prop_assert_eq!(cidr.to_string().parse(), Ok(cidr));
        }
    }
}
