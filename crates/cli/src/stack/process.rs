//! The process that an operator means, and what is asked of it.

use std::path::Path;
use std::time::Duration;

use anywire::advice::Message;
use anywire::client::{Limits, Response, Timeouts};
use anywire::wire::Address;
use anywire::{Client, Loops};
use serde_json::Value;

use super::offer;
use crate::failure::{Code, Failure};

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
        let at = |address| Self { client: client.clone(), address, loops: loops.clone() };
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
        let mut found = Vec::new();
        for path in sockets(&folder) {
            let process = at(address_of(&path)?);
            // One that was killed has left its socket.
            let Ok(stat) = process.json("/stat?connections=1") else { continue };
            let devices: Vec<_> = hosts(&stat).filter_map(|host| host["device"].as_str()).collect();
            if wanted.is_none_or(|wanted| devices.contains(&wanted)) {
                found.push((stat["pid"].to_string(), devices.join(", "), process));
            }
        }
        if found.len() > 1 {
            let all: Vec<_> = found.iter().map(|(pid, devices, _)| format!("{pid} ({devices})")).collect();
            let message = format!("several services are on devices: {}", all.join(", "));
            return Err(Failure::new(Code::Usage, message).help("name one by its PID"));
        }
        let what =
            wanted.map_or("any service on a device".to_owned(), |device| format!("a service on {device}"));
        found.pop().map(|(.., process)| process).ok_or_else(|| nobody(&what))
    }

    /// An answer as JSON.
    pub(super) fn json(&self, path: &str) -> Result<Value, Failure> {
        let text = self.ask(path, async |response| response.text().await)?;
        serde_json::from_str(&text).map_err(|error| {
            Failure::new(Code::Failed, format!("{} answered no JSON: {error}", self.address))
        })
    }

    /// An answer as text.
    pub(super) fn text(&self, path: &str) -> Result<String, Failure> {
        self.ask(path, async |response| response.text().await)
    }

    /// Asks, and does something with the answer on a loop.
    pub(super) fn ask<T: Send + 'static, R>(&self, path: &str, then: R) -> Result<T, Failure>
    where
        R: AsyncFnOnce(Response) -> Result<T, anywire::client::Error> + Send + 'static,
    {
        let call = self.client.get(format!("http://localhost{path}")).via(&self.address);
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
            Err(error) => Err(Failure::of(Code::Connect, &error)),
        }
    }
}

/// The hosts in an answer.
pub(super) fn hosts(stat: &Value) -> impl Iterator<Item = &Value> {
    stat["hosts"].as_array().into_iter().flatten()
}

fn sockets(folder: &Path) -> Vec<std::path::PathBuf> {
    if offer::check(folder).is_err() {
        return Vec::new();
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut sockets: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect();
    sockets.sort();
    sockets
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

/// Bytes of an answer: some 100,000 connections.
const ANSWER_BYTES_MAX: usize = 128 << 20;
