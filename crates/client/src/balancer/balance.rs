//! Which addresses serve an origin, and which of them gets the next call.

use std::time::Duration;

use anywire_http::StatusCode;
use anywire_wire::{Address, AddressError, ToAddress};

/// Several addresses for one origin: [`ClientBuilder::balance`](crate::ClientBuilder::balance).
///
/// Each loop chooses for each of its calls: of two addresses at random the one with fewer calls in flight, or one after the other.
/// Each address has a pool of its own, so [`Limits`](crate::Limits) for an origin hold for each of its addresses.
///
/// A call whose dial fails goes to another address; nothing of it was sent. An address that fails some times in a row gets no calls for a
/// while, twice as long each time up to 32 times. Then it gets few calls first, and more by and by. If all addresses have failed,
/// all are tried.
///
/// ```
/// use anywire_client::{Balance, Client};
///
/// let shop = Balance::over(["tcp:10.0.0.1:8080", "tcp:10.0.0.2:8080"]).or_else(["tcp:10.0.9.1:8080"]);
/// let client = Client::builder().balance("http://shop.internal", shop).build();
/// ```
#[derive(Debug, Clone)]
pub struct Balance {
    /// Of each priority, the first one first.
    pub(crate) groups: Vec<Vec<Address>>,
    /// The addresses of the URL's host, as its names change.
    pub(crate) is_by_name: bool,
    pub(crate) rule: Rule,
    pub(crate) health: HealthOptions,
    /// Reported by each call.
    pub(crate) fault: Option<AddressError>,
}

/// Which address is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    LeastOfTwo,
    RoundRobin,
}

/// When an address is out, and how it comes back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HealthOptions {
    pub(crate) eject_after: u32,
    pub(crate) eject_for: Duration,
    pub(crate) slow_start: Duration,
    pub(crate) statuses: Statuses,
}

/// Which of the statuses from 500 to 599 are failures, a bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Statuses(u128);

impl Statuses {
    fn bit(status: StatusCode) -> Option<u128> {
        let at = u32::from(status.as_u16()).checked_sub(500)?;
        1_u128.checked_shl(at).filter(|_| at < 100)
    }

    pub(crate) fn contains(self, status: StatusCode) -> bool {
        Self::bit(status).is_some_and(|bit| self.0 & bit != 0)
    }
}

impl Balance {
    /// These addresses, on any wire. If the URL's scheme is `https`, TLS is spoken on them, and each has to prove the host of the URL.
    pub fn over<A: ToAddress>(addresses: impl IntoIterator<Item = A>) -> Self {
        Self::new().or_else(addresses)
    }

    /// All addresses that the host of the URL has, as they change. New addresses get calls as they become known, and addresses that are
    /// gone get none. Until the first ones are known, calls go where they would without a balance.
    ///
    /// Not for a host whose addresses are one machine with IPv4 and IPv6: it would get connections by both.
    pub fn over_name() -> Self {
        // The first priority is the name's.
        Self { is_by_name: true, groups: vec![Vec::new()], ..Self::new() }
    }

    fn new() -> Self {
        Self {
            groups: Vec::new(),
            is_by_name: false,
            rule: Rule::LeastOfTwo,
            health: HealthOptions {
                eject_after: 3,
                eject_for: Duration::from_secs(5),
                slow_start: Duration::from_secs(10),
                statuses: Statuses::default(),
            },
            fault: None,
        }
    }

    /// Addresses that get calls only while all that were named before have failed.
    pub fn or_else<A: ToAddress>(mut self, addresses: impl IntoIterator<Item = A>) -> Self {
        let mut group = Vec::new();
        for address in addresses {
            match address.to_address() {
                Ok(address) => group.push(address),
                Err(fault) => self.fault = self.fault.or(Some(fault)),
            }
        }
        self.groups.push(group);
        self
    }

    /// One address after the other, however busy each is.
    pub fn round_robin(self) -> Self {
        Self { rule: Rule::RoundRobin, ..self }
    }

    /// An address that has failed so often in a row is out: dials that fail, connections that end without a response, timeouts.
    /// The timeout of a [whole call](crate::Timeouts::total) is none of them, so that of silence ([`Timeouts::read`](crate::Timeouts::read)) has to be shorter.
    /// A status, such as 500, is a response, unless [`eject_on_statuses`](Self::eject_on_statuses) names it. Default 3: a
    /// single connection may end by chance, and a dead address costs each loop no more than that. At least 1.
    pub fn eject_after(mut self, failures: u32) -> Self {
        self.health.eject_after = failures.max(1);
        self
    }

    /// Statuses from 500 to 599 that are failures of their address, too, such as those of a gateway that cannot reach its server: 502, 503
    /// and 504. Others are left out. The status of a body that is read by and by counts at its end. Default: none, because an
    /// address whose requests fail by their own fault would get no calls.
    ///
    /// ```
    /// use anywire_client::Balance;
    /// use anywire_http::StatusCode;
    ///
    /// let gateway = [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
    /// let balance = Balance::over(["tcp:10.0.0.1:80", "tcp:10.0.0.2:80"]).eject_on_statuses(gateway);
    /// ```
    pub fn eject_on_statuses(mut self, statuses: impl IntoIterator<Item = StatusCode>) -> Self {
        self.health.statuses =
            Statuses(statuses.into_iter().filter_map(Statuses::bit).fold(0, |all, bit| all | bit));
        self
    }

    /// How long it is out for the first time. Default 5 s: a restart takes some seconds.
    pub fn eject_for(mut self, first: Duration) -> Self {
        self.health.eject_for = first;
        self
    }

    /// How long an address that comes back gets fewer calls than others: a tenth at first, and all at the end. Default 10 s, in
    /// which caches fill.
    pub fn slow_start(mut self, lasts: Duration) -> Self {
        self.health.slow_start = lasts;
        self
    }
}

impl<A: ToAddress, const N: usize> From<[A; N]> for Balance {
    /// [`Balance::over`] them.
    fn from(addresses: [A; N]) -> Self {
        Self::over(addresses)
    }
}

impl<A: ToAddress> From<Vec<A>> for Balance {
    /// [`Balance::over`] them.
    fn from(addresses: Vec<A>) -> Self {
        Self::over(addresses)
    }
}
