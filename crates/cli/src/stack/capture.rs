//! `anywire stack capture`: the frames of a service's devices into a file, while the service runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anywire::advice::Message;
use anywire::load::text::counted;
use anywire::loops::Signals;
use anywire::stack::capture::Filter;
use clap::Args;

use super::blocks::{self, Block, Blocks};
use super::process::{Process, Target};
use crate::failure::{Code, Failure};
use crate::{output, values};

/// Write the frames that pass a service's devices to a file for Wireshark and tshark, while the service runs
///
/// Ends at Ctrl-C, or after --count packets. The service is not held up: what this command does not read in time is dropped and counted.
/// A filter is written as for tcpdump: ip, ip6, arp, tcp, udp, icmp, icmp6, host, net, port, portrange, ether host, less, greater, with
/// src and dst, joined by and, or, not and parentheses.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Capture {
    /// The service: a PID, a device such as tap0 or xdp:eth0, or the address of its routes [default: the only one]
    #[arg(value_name = "PID|DEVICE|ADDRESS", value_parser = Target::parse)]
    target: Option<Target>,
    /// The file, a classic one if its name ends in .pcap, else pcapng; - is stdout
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Which frames [default: all]
    #[arg(short, long, value_name = "FILTER")]
    filter: Option<Filter>,
    /// The device, if the service has several [default: all]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// End after so many packets
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Bytes to keep of each packet
    #[arg(short, long, value_name = "SNAPLEN", default_value_t = 262_144, value_parser = values::up_to(1, 262_144))]
    bytes: usize,
}

/// What came of it.
#[derive(Debug, Default)]
struct Done {
    packets: u64,
    /// By interface of the file.
    dropped: BTreeMap<u32, u64>,
}

impl Capture {
    pub(super) fn run(self) -> Result<(), Failure> {
        let process = Process::find(self.target.as_ref())?;
        let is_stdout = self.output.as_os_str() == "-";
        if is_stdout && io::stdout().is_terminal() {
            let message = "writing packets to stdout: it is a terminal";
            return Err(Failure::new(Code::Usage, message).help("write a file by -o FILE, or into a pipe"));
        }
        let name = self.output.display().to_string();
        let path = self.path(process.device());
        let done = process.ask(&path, async move |mut response| {
            // Only now: what is refused leaves no file.
            let mut writer = match Writer::open(&self) {
                Ok(writer) => writer,
                Err(failure) => return Ok(Err(failure)),
            };
            let unwritten = |error: &io::Error| output::unwritten(&name, error);
            let mut signals = match Signals::register() {
                Ok(signals) => signals,
                Err(error) => return Ok(Err(Failure::of(Code::Failed, &error))),
            };
            output::say("capturing; Ctrl-C ends it");
            loop {
                let chunk = tokio::select! {
                    chunk = response.chunk() => chunk?,
                    _ = signals.recv() => break,
                };
                let Some(chunk) = chunk else { break };
                match writer.write(&chunk) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => return Ok(Err(unwritten(&error))),
                }
            }
            Ok(Ok(writer.done))
        })??;
        let dropped: u64 = done.dropped.values().sum();
        output::say(format_args!("{} captured, {dropped} dropped", counted(done.packets, "packet")));
        Ok(())
    }

    /// What is asked for, of the device that was named.
    fn path(&self, named: Option<&str>) -> String {
        let mut pairs = vec![("bytes", self.bytes.to_string())];
        pairs.extend(self.filter.as_ref().map(|filter| ("filter", filter.to_string())));
        pairs.extend(named.or(self.device.as_deref()).map(|device| ("device", device.to_owned())));
        let encode = |text: &str| {
            percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
        };
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        format!("/capture?{}", pairs.join("&"))
    }
}

/// The file, and how far it is.
struct Writer {
    to: Box<dyn Write + Send>,
    is_classic: bool,
    count: u64,
    blocks: Blocks,
    done: Done,
}

impl Writer {
    fn open(capture: &Capture) -> Result<Self, Failure> {
        let path: &Path = &capture.output;
        let to: Box<dyn Write + Send> = if path.as_os_str() == "-" {
            Box::new(io::stdout())
        } else {
            let file = File::create(path).map_err(|error| {
                let message = Message::new(format!("making the file {}: {error}", path.display()));
                Failure::of_message(
                    Code::Failed,
                    message.with_help("name one in a folder that you may write to"),
                )
            })?;
            Box::new(file)
        };
        let is_classic = path.extension().is_some_and(|end| end == "pcap");
        let count = capture.count.unwrap_or(u64::MAX);
        let mut writer = Self { to, is_classic, count, blocks: Blocks::default(), done: Done::default() };
        if is_classic {
            let head = blocks::classic_head(u32::try_from(capture.bytes).unwrap_or(u32::MAX));
            writer
                .to
                .write_all(&head)
                .map_err(|error| output::unwritten(&path.display().to_string(), &error))?;
        }
        Ok(writer)
    }

    /// Writes what is whole, in one write; false once there are as many packets as were asked for.
    fn write(&mut self, piece: &[u8]) -> io::Result<bool> {
        self.blocks.take(piece);
        let (mut out, mut is_more) = (Vec::new(), true);
        while is_more && self.done.packets < self.count {
            let (done, is_classic) = (&mut self.done, self.is_classic);
            let taken = self.blocks.next(|bytes, block| match block {
                Block::Packet(packet) if is_classic => {
                    done.packets += 1;
                    out.extend(packet.classic());
                }
                block => {
                    match block {
                        Block::Packet(_) => done.packets += 1,
                        Block::Dropped { interface, frames } => {
                            done.dropped.insert(interface, frames);
                        }
                        Block::Other => {}
                    }
                    if !is_classic {
                        out.extend_from_slice(bytes);
                    }
                }
            });
            is_more = taken.map_err(io::Error::other)?;
        }
        self.to.write_all(&out)?;
        self.to.flush()?;
        Ok(self.done.packets < self.count)
    }
}

const EXAMPLES: &str = "\
Examples:
  anywire stack capture -o all.pcapng
  anywire stack capture tap0 -o web.pcapng --filter 'tcp port 80 and host 10.0.0.1' --count 1000
  anywire stack capture 4711 -o heads.pcap --bytes 96
  anywire stack capture -o - --filter 'not arp' | tshark -r -

Exit codes: 0 ended by a signal or by --count, 1 failed, 2 bad arguments, 7 no such service, 18 the service ended before, 23 the file
could not be written.";
