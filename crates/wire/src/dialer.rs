//! Dialling: a connection to an address, with a deadline.

use std::time::Duration;

use crate::address::Address;
use crate::connection::Connection;
use crate::error::DialError;

/// How to dial.
#[derive(Debug, Clone)]
pub struct DialOptions {
    /// From the first attempt to the connection, all addresses of a name together (3 s: a lost SYN is sent again after
    /// one second, and again after two more).
    pub connect_timeout: Duration,
    /// How long an attempt is waited for before the next address is tried beside it (250 ms, RFC 8305 section 5).
    pub attempt_delay: Duration,
    /// For a name to resolve, before the first attempt (2 s).
    pub resolve_timeout: Duration,
}

impl Default for DialOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(3),
            attempt_delay: Duration::from_millis(250),
            resolve_timeout: Duration::from_secs(2),
        }
    }
}

/// Makes connections, on the loop that asks for them.
///
/// ```no_run
/// use anywire_wire::Dialer;
///
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let connection = Dialer::default().dial(&"unix:/run/app.sock".parse()?).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Dialer {
    options: DialOptions,
}

impl Dialer {
    /// A dialer with these options.
    pub fn new(options: DialOptions) -> Self {
        Self { options }
    }

    /// Connects to the first of the address's hosts that answers.
    ///
    /// # Errors
    /// [`DialError`] says which address, what was found, and what would help; nothing was sent.
    pub async fn dial(&self, address: &Address) -> Result<Connection, DialError> {
        address.wire().dial(address, &self.options).await
    }
}

/// Gives up on a connection that takes longer.
pub(crate) async fn within<T>(
    after: Duration,
    address: &Address,
    connecting: impl Future<Output = Result<T, DialError>>,
) -> Result<T, DialError> {
    let in_time = tokio::time::timeout(after, connecting).await;
    in_time.unwrap_or_else(|_| Err(DialError::Timeout { address: address.clone(), after }))
}
