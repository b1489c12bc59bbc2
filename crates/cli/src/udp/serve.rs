//! `anywire udp serve`: returns each datagram to its sender.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anywire::load::text::{Columns, digits, grouped, known};
use anywire::loops::{Loops, Pinning};
use anywire::server::udp::{
    Datagram, PeerRate, Replies, Steering, UdpCounters, UdpLimits, UdpOptions, UdpServer, UdpServerError,
};
use anywire::wire::udp::DatagramAddress;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::address;
use crate::failure::{Code, Failure};
use crate::output;
use crate::values;

/// Return each datagram to its sender, and print at the end what each loop did
///
/// Ends at SIGINT or SIGTERM: what has arrived is answered first.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UdpServe {
    /// Where to receive: udp:HOST:PORT or unixgram:PATH; may be repeated
    #[arg(short, long, value_name = "ADDRESS", value_parser = address, default_value = "udp:127.0.0.1:9000")]
    listen: Vec<DatagramAddress>,
    /// Event loops, each with a socket of its own [default: one a core]
    #[arg(long, value_name = "N", value_parser = values::loops())]
    loops: Option<usize>,
    /// Tie each loop to a core
    #[arg(long)]
    pin: bool,
    /// Which loop gets a datagram: flow, cpu, or payload:OFFSET:WIDTH, a number in the payload (4:4 is the flow of
    /// 'anywire lab udp-load')
    #[arg(long, value_name = "BY", value_parser = steering, default_value = "flow")]
    steer: Steering,
    /// What to do with a datagram
    #[arg(long, value_enum, default_value_t = Reply::Echo)]
    reply: Reply,
    /// Receive buffer of each socket, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = UdpOptions::default().receive_buffer_bytes)]
    receive_buffer: usize,
    /// Longest datagram, in bytes; longer ones are counted and not answered
    #[arg(long, value_name = "BYTES", default_value_t = UdpOptions::default().datagram_bytes_max)]
    max_datagram: usize,
    /// Datagrams a second that one peer may send to a loop [default: as many as it likes]
    #[arg(long, value_name = "N")]
    peer_rate: Option<u32>,
    /// Let the kernel join no datagrams (no GRO and GSO)
    #[arg(long)]
    no_offload: bool,
    /// How long the end may take
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = anywire::load::text::duration)]
    shutdown: Duration,
    /// Write the counters as JSON to a file, or to stdout (-) instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Reply {
    /// Return it to its sender
    Echo,
    /// Count it alone
    None,
}

impl UdpServe {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let cores = anywire_sys::cpu::available_cores();
        let loops = Loops::builder().count(self.loops.unwrap_or(cores.len()));
        let pinning = if self.pin { Pinning::Cores(cores) } else { Pinning::None };
        let loops = loops.pinning(pinning).start().map_err(|error| Failure::of(Code::Failed, &error))?;
        let options = UdpOptions {
            receive_buffer_bytes: self.receive_buffer,
            datagram_bytes_max: self.max_datagram,
            steering: self.steer,
            offload: !self.no_offload,
            only_peer: None,
        };
        let rate = |datagrams_per_second| PeerRate {
            datagrams_per_second,
            burst: datagrams_per_second,
            ..PeerRate::default()
        };
        let limits = UdpLimits { peer_rate: self.peer_rate.map(rate), ..UdpLimits::default() };
        let echoes = self.reply == Reply::Echo;
        let service = UdpServer::new(move || {
            move |datagram: &Datagram<'_>, replies: &mut Replies<'_>| {
                if echoes {
                    // One that finds no room is counted.
                    let _ = replies.send(datagram, datagram.data());
                }
            }
        });
        let service = service.options(options).limits(limits).on(&loops).shutdown_deadline(self.shutdown);
        let service = self.listen.iter().fold(service, UdpServer::listen);
        self.json.iter().try_for_each(|path| output::check(path))?;
        let failed = |error: UdpServerError| Failure::of(Code::Failed, &error);
        let mut service = service.start().map_err(failed)?;
        service.register_signals().map_err(failed)?;
        for address in service.addresses() {
            let line = format_args!("receiving on {address}");
            // The result has stdout for itself.
            if self.json.as_deref() == Some(Path::new("-")) {
                // Whoever closed stderr wants to read nothing there.
                let _ = writeln!(io::stderr(), "{line}");
            } else {
                output::print_line(line)?;
            }
        }
        let ended = service.wait_for_signal().map_err(failed)?;
        let result = Counted::new(&ended.counters, &ended.by_loop, &loops);
        output::table_or_json(&result, self.json.as_deref())
    }
}

/// What a service has counted, as a table and as JSON.
#[derive(Debug, Serialize)]
struct Counted {
    schema: &'static str,
    datagrams: u64,
    bytes: u64,
    replies: u64,
    replies_dropped: u64,
    replies_failed: u64,
    cut: u64,
    over_rate: u64,
    forged: u64,
    dropped_by_system: u64,
    loops: Vec<LoopPart>,
}

#[derive(Debug, Serialize)]
struct LoopPart {
    id: usize,
    core: Option<usize>,
    datagrams: u64,
    /// Of all datagrams.
    share: Option<f64>,
    dropped_by_system: u64,
    datagrams_per_receive: Option<f64>,
    datagrams_per_send: Option<f64>,
    cpu_seconds: f64,
}

impl Counted {
    fn new(all: &UdpCounters, by_loop: &[UdpCounters], loops: &Loops) -> Self {
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let parts = by_loop.iter().zip(loops.iter()).map(|(one, home)| LoopPart {
            id: home.id().index(),
            core: home.core(),
            datagrams: one.datagrams,
            share: ratio(one.datagrams, all.datagrams),
            dropped_by_system: one.dropped_by_system,
            datagrams_per_receive: ratio(one.datagrams, one.receive_calls),
            datagrams_per_send: ratio(one.replies, one.send_calls),
            cpu_seconds: home.counters().cpu.as_secs_f64(),
        });
        Self {
            schema: "anywire.udp-serve/1",
            datagrams: all.datagrams,
            bytes: all.bytes,
            replies: all.replies,
            replies_dropped: all.replies_dropped,
            replies_failed: all.replies_failed,
            cut: all.cut,
            over_rate: all.over_rate,
            forged: all.forged,
            dropped_by_system: all.dropped_by_system,
            loops: parts.collect(),
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} datagrams, {} replies ({} dropped, {} failed), {} dropped by the system, {} cut, {} over their rate, \
             {} forged\n",
            grouped(self.datagrams),
            grouped(self.replies),
            grouped(self.replies_dropped),
            grouped(self.replies_failed),
            grouped(self.dropped_by_system),
            grouped(self.cut),
            grouped(self.over_rate),
            grouped(self.forged)
        )?;
        let headings = ["loop", "datagrams", "share %", "dropped", "a receive", "a send", "CPU s"];
        let mut columns = Columns::new(1, &headings);
        for part in &self.loops {
            columns.row(vec![
                part.id.to_string(),
                grouped(part.datagrams),
                known(part.share, |share| digits(share * 100.0)),
                grouped(part.dropped_by_system),
                known(part.datagrams_per_receive, digits),
                known(part.datagrams_per_send, digits),
                digits(part.cpu_seconds),
            ]);
        }
        f.write_str(&columns.render())
    }
}

fn steering(text: &str) -> Result<Steering, String> {
    let wrong = || {
        "write flow, cpu, or payload:OFFSET:WIDTH with a width of 1, 2 or 4, such as payload:4:4".to_owned()
    };
    match text.split(':').collect::<Vec<_>>()[..] {
        ["flow"] => Ok(Steering::Flow),
        ["cpu"] => Ok(Steering::Cpu),
        ["payload", offset, width @ ("1" | "2" | "4")] => {
            let offset = offset.parse().map_err(|_| wrong())?;
            Ok(Steering::Payload { offset, width: width.parse().map_err(|_| wrong())? })
        }
        _ => Err(wrong()),
    }
}

const EXAMPLES: &str = "\
Examples:
  anywire udp serve --listen udp:0.0.0.0:9000 --loops 2 --pin
  anywire udp serve --steer payload:4:4 --json counters.json
  anywire udp serve --listen unixgram:/tmp/echo.sock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steering_is_read() {
        assert_eq!(steering("payload:4:2"), Ok(Steering::Payload { offset: 4, width: 2 }));
        assert_eq!((steering("flow"), steering("cpu")), (Ok(Steering::Flow), Ok(Steering::Cpu)));
        for wrong in
            ["", "hash", "payload", "payload:4", "payload:4:3", "payload:x:4", "payload:70000:4", "flow:1"]
        {
            assert!(steering(wrong).is_err_and(|said| said.contains("payload:4:4")), "{wrong}");
        }
    }
}
