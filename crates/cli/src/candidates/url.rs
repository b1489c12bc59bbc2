//! Servers that are not ours as candidates: `NAME=URL#PID`, of which the URL alone is needed.

use std::str::FromStr;

use anywire::load::Protocol;
use anywire::load::compare::{Candidate, RunningServer};
use anywire::load::rounds::ServerThreads;
use anywire::wire::tls::ClientTls;
use anywire::wire::{self, Address};

use super::service;
use crate::values;

/// A server that runs by itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    name: String,
    url: String,
    via: Option<Address>,
    /// Its process on this machine.
    pid: Option<i32>,
}

impl Target {
    /// It as a candidate that is loaded by this protocol.
    pub(crate) fn candidate(&self, protocol: Protocol, tls: Option<&ClientTls>) -> Candidate {
        let suffix = if protocol == Protocol::Http2 { "/h2" } else { "" };
        let (url, via, pid, tls) = (self.url.clone(), self.via.clone(), self.pid, tls.cloned());
        let scheme =
            via.as_ref().map_or(if url.starts_with("https:") { "tls" } else { "tcp" }, Address::scheme);
        let unknown = "server us is unknown: its process was not named, as in URL#PID";
        Candidate {
            name: format!("{}{suffix}", self.name),
            wire: scheme.to_owned(),
            protocol,
            note: if pid.is_none() { unknown.to_owned() } else { String::new() },
            is_limit: false,
            runs_by_itself: true,
            start: Box::new(move |_| {
                Ok(RunningServer {
                    url: url.clone(),
                    via: via.clone(),
                    tls: tls.clone(),
                    threads: pid.map_or(ServerThreads::Unknown, ServerThreads::Of),
                    remark: Box::new(|| None),
                })
            }),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            !name.is_empty() && name.chars().all(fits)
        };
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if is_name(name) => (Some(name), rest),
            _ => (None, text),
        };
        let (place, pid) = match rest.rsplit_once('#') {
            Some((place, pid)) => (place, Some(pid)),
            None => (rest, None),
        };
        let pid = pid
            .map(|pid| match pid.parse::<i32>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!(
                    "{pid:?} is no number of a process; write one behind '#', as in localhost:8080#4711"
                )),
            })
            .transpose()?;
        let is_address = wire::wires().any(|wire| place.starts_with(&format!("{}:", wire.scheme())));
        let (url, via) = if is_address {
            (service::URL.to_owned(), Some(values::address(place)?))
        } else {
            (values::url(place, None).map_err(|failure| failure.message().to_owned())?, None)
        };
        let name = name.map_or_else(|| place.trim_start_matches("http://").to_owned(), str::to_owned);
        Ok(Self { name, url, via, pid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, String, Option<String>, Option<i32>) {
        let Target { name, url, via, pid } = text.parse().expect("a server");
        (name, url, via.map(|via| via.to_string()), pid)
    }

    #[test]
    fn names_and_processes_may_be_left_out() {
        let parts = |name: &str, url: &str, via: Option<&str>, pid| {
            (name.to_owned(), url.to_owned(), via.map(str::to_owned), pid)
        };
        for (text, expected) in [
            ("localhost:8080", parts("localhost:8080", "http://localhost:8080", None, None)),
            ("nginx=localhost:8080/a#12", parts("nginx", "http://localhost:8080/a", None, Some(12))),
            ("https://h/x?y=z#7", parts("https://h/x?y=z", "https://h/x?y=z", None, Some(7))),
            ("h:80/?a=b", parts("h:80/?a=b", "http://h:80/?a=b", None, None)),
            ("old=unix:/run/old.sock#3", parts("old", service::URL, Some("unix:/run/old.sock"), Some(3))),
            ("tcp:127.0.0.1:80", parts("tcp:127.0.0.1:80", service::URL, Some("tcp:127.0.0.1:80"), None)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for wrong in
            ["localhost#", "localhost#0", "localhost#-1", "localhost#nginx", "/path", "a b", "memory:x"]
        {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
