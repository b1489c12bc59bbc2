//! The process that an operator means, and what is asked of it.

use std::path::Path;
use std::time::Duration;

use anywire::advice::{Chain, Message};
use anywire::client::{Call, Error, Limits, Response, Timeouts};
use anywire::wire::Address;
use anywire::{Client, Loops};
use serde_json::Value;

use super::offer;
use crate::failure::{Code, Failure};
use crate::output;

/// How an operator names a service: by the number of its process, by a device, or by the address of its routes.
#[derive(Debug, Clone)]
pub(super) enum Target {
    Pid(u32),
    Device(String),
    Address(Address),
}

impl Target {
    /// Reads it as it was typed.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(pid) = text.parse() {
            return Ok(Self::Pid(pid));
        }
        match text.split_once(':') {
            // Devices, as they are in addresses of the wire.
            None | Some(("xdp" | "tap", _)) => {
                Ok(Self::Device(text.strip_prefix("tap:").unwrap_or(text).to_owned()))
            }
            Some(_) => text
                .parse()
                .map(Self::Address)
                .map_err(|error: anywire::wire::AddressError| error.to_string()),
        }
    }
}

/// A service that was found.
pub(super) struct Process {
    client: Client,
    address: Address,
    loops: Loops,
    /// The device that is meant, as the service names it.
    device: Option<String>,
}

impl Process {
    /// The service that is meant, or the only one there is.
    pub(super) fn find(target: Option<&Target>) -> Result<Self, Failure> {
        let loops = Loops::start(1).map_err(|error| Failure::of(Code::Failed, &error))?;
        let limits = Limits { body_bytes: ANSWER_BYTES_MAX, ..Limits::default() };
        // A capture lasts as long as the person likes.
        let day = Duration::from_secs(24 * 60 * 60);
        let timeouts = Timeouts { read: day, total: day, ..Timeouts::default() };
        let client = Client::builder().on(&loops).limits(limits).timeouts(timeouts).build();
        let at = |address| Self { client: client.clone(), address, loops: loops.clone(), device: None };
        if let Some(Target::Address(address)) = target {
            return Ok(at(address.clone()));
        }
        let folder = offer::folder();
        if let Some(Target::Pid(pid)) = target {
            let path = offer::socket(&folder, *pid);
            return if path.exists() {
                Ok(at(address_of(&path)?))
            } else {
                Err(nobody(&format!("process {pid}")))
            };
        }
        let wanted = if let Some(Target::Device(device)) = target { Some(device.as_str()) } else { None };
        let (mut found, mut others) = (Vec::new(), Vec::new());
        for path in offer::sockets(&folder) {
            let mut process = at(address_of(&path)?);
            let stat = match process.json("/stat?connections=0") {
                Ok(stat) => stat,
                Err(silent) if silent.code() == Code::Timeout => {
                    output::say(silent.message());
                    continue;
                }
                // One that was killed has left its socket.
                Err(_) => continue,
            };
            let mut devices: Vec<_> = hosts(&stat).filter_map(|host| host["device"].as_str()).collect();
            devices.dedup();
            process.device = wanted
                .and_then(|wanted| devices.iter().find(|name| is_named(name, wanted)))
                .map(|name| (*name).to_owned());
            let is_meant = wanted.is_none() || process.device.is_some();
            let name = format!("{} ({})", stat["pid"], devices.join(", "));
            if is_meant { found.push((name, process)) } else { others.push(name) }
        }
        if found.len() > 1 {
            let all: Vec<_> = found.into_iter().map(|(name, _)| name).collect();
            let message = format!("several services are on devices: {}", all.join(", "));
            return Err(Failure::new(Code::Usage, message).help("name one by its PID"));
        }
        let what =
            wanted.map_or("any service on a device".to_owned(), |device| format!("a service on {device}"));
        let failure = nobody(&what);
        found.pop().map(|(_, process)| process).ok_or_else(|| {
            if others.is_empty() {
                failure
            } else {
                failure.help(format_args!("name one of those that run: {}", others.join(", ")))
            }
        })
    }

    /// The device that is meant, as the service names it; `None` if all are.
    pub(super) fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// An answer as JSON.
    pub(super) fn json(&self, path: &str) -> Result<Value, Failure> {
        let text = self.text(path)?;
        serde_json::from_str(&text).map_err(|error| {
            Failure::new(Code::Failed, format!("{} answered no JSON: {error}", self.address))
        })
    }

    /// An answer as text.
    pub(super) fn text(&self, path: &str) -> Result<String, Failure> {
        let call = self.call(path).total_timeout(PATIENCE);
        self.asked(call, async |response| response.text().await)
    }

    /// Asks, and does something with the answer on a loop, for as long as that takes.
    pub(super) fn ask<T: Send + 'static, R>(&self, path: &str, then: R) -> Result<T, Failure>
    where
        R: AsyncFnOnce(Response) -> Result<T, Error> + Send + 'static,
    {
        self.asked(self.call(path), then)
    }

    fn call(&self, path: &str) -> Call {
        self.client.get(format!("http://localhost{path}")).via(&self.address)
    }

    fn asked<T: Send + 'static, R>(&self, call: Call, then: R) -> Result<T, Failure>
    where
        R: AsyncFnOnce(Response) -> Result<T, Error> + Send + 'static,
    {
        let asked = self.loops.get(0).spawn(move || async move {
            let response = call.send().await?;
            if response.status().is_success() {
                return then(response).await.map(Ok);
            }
            Ok(Err(response.text().await?))
        });
        match asked.wait().map_err(|error| Failure::of(Code::Failed, &error))? {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(refusal)) => Err(Failure::new(Code::Failed, refusal)),
            Err(error) if error.is_timeout() => {
                let message = format!("{} has not answered within {PATIENCE:?}", self.address);
                Err(Failure::new(Code::Timeout, message).help(
                    "see whether its process is stopped (`ps -o pid,stat,args`), or something holds it up",
                ))
            }
            Err(error) if error.is_connect() => Err(Failure::of(Code::Connect, &error)),
            Err(error) => {
                let message = format!("{} ended before its answer did: {}", self.address, Chain(&error));
                Err(Failure::new(Code::Partial, message).help("see why its process ended"))
            }
        }
    }
}

/// Whether a device is meant by a name: an interface may be named without the kind of device that it is.
fn is_named(device: &str, name: &str) -> bool {
    device == name || device.strip_prefix("xdp:") == Some(name)
}

/// The hosts in an answer.
pub(super) fn hosts(stat: &Value) -> impl Iterator<Item = &Value> {
    stat["hosts"].as_array().into_iter().flatten()
}

fn address_of(path: &Path) -> Result<Address, Failure> {
    format!("unix:{}", path.display())
        .parse()
        .map_err(|error: anywire::wire::AddressError| Failure::of(Code::Failed, &error))
}

fn nobody(what: &str) -> Failure {
    let message = Message::new(format!("{what} is not found in {}", offer::folder().display()));
    Failure::of_message(
        Code::Connect,
        message.with_help(
            "start one, such as 'anywire serve --listen stack:tap0/10.0.0.2:80', as the same user",
        ),
    )
}

/// The service gives each of its loops 2 s.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of an answer: some 100,000 connections.
const ANSWER_BYTES_MAX: usize = 128 << 20;
