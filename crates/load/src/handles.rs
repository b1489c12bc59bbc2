//! What a run needs beside its plan, and what cannot be written down as data.

use anywire_wire::DialOptions;
use anywire_wire::names::{Hosts, Names};
#[cfg(feature = "tls")]
use anywire_wire::tls::ClientTls;

use crate::stop::Stop;

/// What a run is given beside its [`Plan`](crate::Plan). The default speaks TLS as the platform has it, and nothing stops the run.
///
/// ```
/// use anywire_load::Handles;
///
/// let handles = Handles::default();
/// let stop = handles.stop.clone();
/// // Later, from any thread: end the run, and keep its result so far.
/// stop.stop();
/// assert!(handles.stop.is_stopped());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Handles {
    /// How TLS is spoken (`None`: as the platform has it).
    #[cfg(feature = "tls")]
    pub tls: Option<ClientTls>,
    /// Addresses and places that stand for those of the URL (none): only the dial changes. Agents have their own.
    pub hosts: Hosts,
    /// The handle that ends the run early; keep a clone of it.
    pub stop: Stop,
}

impl Handles {
    /// How connections are dialled, as far as the handles say.
    pub(crate) fn dial_options(&self) -> DialOptions {
        DialOptions {
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
            names: Names::default().with_hosts(self.hosts.clone()),
            ..DialOptions::default()
        }
    }
}
