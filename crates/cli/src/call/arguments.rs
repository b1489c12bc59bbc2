//! The options of a call, by their groups, and what is checked of them before the first call.

use std::time::Duration;

use anywire::client::proxy::Proxies;
use anywire::client::{Client, ClientBuilder, Limits, Timeouts};
use anywire::loops::Loops;
use clap::{ArgAction, Args};

use super::connection::ConnectionOptions;
use super::data::Data;
use super::request::RequestOptions;
use super::response::ResponseOptions;
use super::watch;
use crate::failure::{Code, Failure};
use crate::heads::HeadLimits;
use crate::trust::Trust;

/// What all commands that call have.
// The help that fits a screen is asked for by a flag, and all of it by `anywire help`.
#[derive(Debug, Args)]
// Of an option that is given again the last one counts, so that an alias of the shell may have it.
#[command(disable_help_flag = true, args_override_self = true)]
pub(crate) struct Call {
    /// Print help
    #[arg(short = 'h', long, action = ArgAction::HelpShort, display_order = 1000)]
    help: Option<bool>,
    /// URLs, called in order; http:// may be left out, and with --via the host too
    #[arg(value_name = "URL", required = true)]
    pub(super) urls: Vec<String>,
    #[command(flatten)]
    pub(super) data: Data,
    #[command(flatten)]
    pub(super) request: RequestOptions,
    #[command(flatten)]
    pub(super) response: ResponseOptions,
    #[command(flatten)]
    pub(super) connection: ConnectionOptions,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    heads: HeadLimits,
}

impl Call {
    /// Its responses are heads, which are what is printed.
    pub(super) fn of_head(mut self) -> Result<Self, Failure> {
        if self.data.is_body() {
            let message = "asking for a head: the data would be its body, and such a request has none";
            return Err(Failure::new(Code::Usage, message)
                .help("put them into the URL with --get, or call with 'anywire request HEAD'"));
        }
        self.response.include = true;
        Ok(self)
    }

    /// The client that makes all calls, so that connections are kept between them.
    pub(super) fn client(
        &self,
        loops: &Loops,
        verbose: bool,
        proxies: &Proxies,
    ) -> Result<ClientBuilder, Failure> {
        let limits = Limits { head: self.heads.limits(), ..Limits::default() };
        let client = Client::builder().on(loops).limits(limits).timeouts(self.timeouts());
        let mut client = client.hosts(self.connection.known.hosts()).proxies(proxies.clone());
        if let Some(tls) = self.trust.client_tls()? {
            client = client.tls(tls);
        }
        if let Some(name) = self.trust.server_name() {
            client = client.server_name(name);
        }
        // What nobody looks at is not intercepted.
        if verbose || self.response.include || self.response.write_out.is_some() {
            client = client.intercept_attempts(watch::attempt);
        }
        self.connection.with_rules(self.connection.versions.apply(client))
    }

    /// Whether certificates are not verified.
    pub(super) fn is_insecure(&self) -> bool {
        self.trust.is_insecure()
    }

    /// A person waits as long as the person likes: only connecting has a limit of its own.
    fn timeouts(&self) -> Timeouts {
        let day = Duration::from_secs(24 * 60 * 60);
        let connect = self.connection.connect_timeout;
        Timeouts {
            resolve: connect,
            connect,
            handshake: connect,
            read: day,
            write: day,
            total: day,
            ..Timeouts::default()
        }
    }
}
