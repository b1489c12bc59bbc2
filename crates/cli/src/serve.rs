//! `anywire serve`: the demo service or the files of a directory, over any number of wires at once.

use std::path::PathBuf;
use std::time::Duration;

use anywire::load::text;
use anywire::server::{Limits, Server};
use anywire::wire::Address;
use clap::Args;

use crate::certificates::Certificates;
use crate::failure::{Code, Failure};
use crate::heads::HeadLimits;
use crate::stack::Offer;
use crate::{certificates, demo, files, output, values};

/// Serve a demo service, or the files of a directory
///
/// Without --dir, a demo service answers: / (13 bytes), /json, POST /echo (the body back, as it comes), /bytes/N (N
/// bytes, streamed) and /delay/MS (after so many milliseconds). With --dir, GET and HEAD read files; names that
/// begin with a dot, except /.well-known/, and links that lead out of the directory, are not found.
///
/// The addresses are printed to stdout, one a line. SIGTERM or SIGINT ends it: requests under way may finish. SIGHUP reads
/// the files of certificates again. With -v each request is logged once its response has left, or has ended early.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Where to listen, WIRE:WHERE; may be repeated [default: tcp:127.0.0.1:8080, with a certificate tls:127.0.0.1:8443]
    #[arg(long, short, value_name = "ADDRESS", value_parser = values::address)]
    listen: Vec<Address>,
    /// Serve the files of this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Event loops, each a thread [default: one for each core]
    #[arg(long, value_name = "N", value_parser = values::loops())]
    loops: Option<usize>,
    /// How long requests may take to finish after a signal
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = text::duration)]
    shutdown_deadline: Duration,
    #[command(flatten)]
    certificates: Certificates,
    #[command(flatten)]
    heads: HeadLimits,
}

impl Serve {
    /// Serves until a signal. Each request is logged if that is asked for.
    pub(crate) fn run(mut self, logs_requests: bool) -> Result<(), Failure> {
        if self.listen.is_empty() {
            let address =
                if self.certificates.are_given() { "tls:127.0.0.1:8443" } else { "tcp:127.0.0.1:8080" };
            self.listen.extend(values::address(address));
        }
        let loaded = self.certificates.load(&self.listen)?;
        let router = match &self.dir {
            Some(dir) => files::router(dir)?,
            None => demo::router(demo::GREETING),
        };
        let limits = Limits { head: self.heads.limits(), ..Limits::default() };
        let mut server = Server::new(router).limits(limits).shutdown_deadline(self.shutdown_deadline);
        for address in &self.listen {
            server = server.listen(address);
        }
        if logs_requests {
            server = server.log_requests();
        }
        if let Some(loops) = self.loops {
            server = server.loops(loops);
        }
        if let Some(loaded) = &loaded {
            server = server.tls(&loaded.tls);
            self.certificates.reload_on_signal(loaded)?;
        }
        let mut running = server.start().map_err(|error| Failure::of(Code::Failed, &error))?;
        // Before the addresses are printed, because a script that reads them may send a signal at once.
        running.register_signals().map_err(|error| Failure::of(Code::Failed, &error))?;
        let _operators = Offer::of(running.addresses(), running.loops());
        for address in running.addresses() {
            match certificates::url(address) {
                Some(url) => output::print_line(format_args!("listening on {address} ({url})"))?,
                None => output::print_line(format_args!("listening on {address}"))?,
            }
        }
        let addresses: Vec<_> = running.addresses().collect();
        if let Some(advice) = loaded.as_ref().and_then(|loaded| loaded.how_to_trust(&addresses)) {
            tracing::info!("{advice}");
        }
        let ended = running.wait_for_signal().map_err(|error| Failure::of(Code::Failed, &error))?;
        if ended.connections_cut > 0 {
            tracing::warn!(connections_cut = ended.connections_cut, "requests had not finished and were cut");
        }
        Ok(())
    }
}

const EXAMPLES: &str = "\
Examples:
  anywire serve                                       the demo service on tcp:127.0.0.1:8080
  anywire serve --listen tcp:0.0.0.0:80 --listen 'unix:/run/app.sock?mode=660'
  anywire serve --dir public --listen 'tcp:[::]:8080'
  anywire serve --tls-self-signed                     https://localhost:8443/, and how to trust it
  anywire serve --listen tls:0.0.0.0:443 --cert fullchain.pem --key privkey.pem

Then, in another terminal:
  curl http://127.0.0.1:8080/json
  anywire get /json --via unix:/run/app.sock

Exit codes: 0 ended by a signal, 1 could not serve, 2 bad arguments.";
