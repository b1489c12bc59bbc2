//! `anywire pipe URL`: many requests at a time on each of many connections, and which of them were answered.

mod connection;
mod requests;
mod result;
mod run;

use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anywire::http::url::{UrlError, redact};
use anywire::http::{Method, Url};
use anywire::load::text;
use anywire::wire::{Address, DialOptions};
use bytes::Bytes;
use clap::Args;

use self::requests::Requests;
use self::run::Plan;
use crate::explain;
use crate::failure::{Code, Failure};
use crate::output;
use crate::reach::Reach;
use crate::values;

/// Send many requests at a time on each connection, and match the answers in order
///
/// HTTP/1.1 pipelining: all requests of a connection leave without waiting for answers, many in one write. An answer belongs to
/// the oldest request without one. What is missing at the end is told, with the reason.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pipe {
    /// The URL, such as http://localhost:8080/json; http:// may be left out, and with --via the host too
    #[arg(value_name = "URL")]
    url: String,
    /// Connections that are used side by side
    #[arg(short, long, value_name = "N", default_value_t = 100, value_parser = values::up_to(1, 100_000))]
    connections: usize,
    /// Requests of each of them [default: 100, or those of --raw]
    #[arg(short = 'n', long, value_name = "N", value_parser = values::up_to(1, u32::MAX.into()))]
    per_connection: Option<usize>,
    /// Take a new connection after so many requests
    #[arg(long, value_name = "K", value_parser = values::up_to(1, u32::MAX.into()))]
    reconnect: Option<usize>,
    /// Most requests on their way on a connection [default: all]
    #[arg(long, value_name = "N", value_parser = values::up_to(1, u32::MAX.into()))]
    depth: Option<usize>,
    /// Send the bytes of a file, which holds requests (- is stdin), over and over if it takes that
    #[arg(long, value_name = "FILE", conflicts_with_all = ["headers", "method", "data"])]
    raw: Option<PathBuf>,
    /// Write all answers to a file as they came, one connection after the other (- is stdout)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The method [default: GET, or POST with --data]
    #[arg(short, long, value_name = "METHOD")]
    method: Option<Method>,
    /// The body of each request: text, or @FILE
    #[arg(long, value_name = "DATA")]
    data: Option<String>,
    /// Event loops, each a thread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::loops())]
    loops: usize,
    /// Longest silence of the server while answers are awaited
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = text::positive_duration)]
    timeout: Duration,
    #[command(flatten)]
    reach: Reach,
}

impl Pipe {
    /// Runs it, and prints the result.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let plan = self.plan()?;
        let places = [("--output", &self.output), ("--json", &self.reach.json)];
        let places = places.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)));
        output::check_places(&places.collect::<Vec<_>>())?;
        let ended = run::run(plan, self.loops)?;
        match self.output.as_deref() {
            Some(path) if path == Path::new("-") => {
                output::print(&ended.answers)?;
                output::say(ended.result.to_string().trim_end());
            }
            Some(path) => {
                std::fs::write(path, &ended.answers)
                    .map_err(|cause| output::unwritten(&path.display().to_string(), &cause))?;
                output::table_or_json(&ended.result, self.reach.json.as_deref())?;
            }
            None => output::table_or_json(&ended.result, self.reach.json.as_deref())?,
        }
        ended.signals.check()?;
        ended.result.judge(ended.dial.as_ref())
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let text = values::url(&self.url, self.reach.via.as_ref())?;
        let url = Url::parse(&text).map_err(|source| {
            let failure = explain::bad_url(&redact(&text), &source);
            match source {
                UrlError::UserInfo => failure.help(WITHOUT_USER),
                _ => failure,
            }
        })?;
        let requests = match &self.raw {
            Some(path) => Requests::raw(&read(path)?, self.reach.heads.limits()),
            None => self.encoded(&url)?,
        };
        let mut address = match &self.reach.via {
            Some(address) => address.clone(),
            None => Address::from_host(url.host_with_zone(), url.port())
                .map_err(|error| Failure::of(Code::Usage, &error))?,
        };
        if url.is_https() {
            address = address.with_tls().ok_or_else(|| {
                let message =
                    format!("piping {url}: the scheme is https, and there is no TLS over {address}");
                Failure::new(Code::Usage, message).help("write http://, or name another wire with --via")
            })?;
        }
        let usual = if self.raw.is_some() { requests.in_a_round() } else { PER_CONNECTION };
        let per_connection = self.per_connection.unwrap_or(usual);
        self.check_last(&url, &requests, per_connection)?;
        Ok(Plan {
            url: url.to_string(),
            dial: DialOptions {
                connect_timeout: self.reach.connect_timeout,
                handshake_timeout: self.reach.connect_timeout,
                server_name: Some(self.reach.trust.server_name().unwrap_or(url.host()).to_owned()),
                protocols: vec!["http/1.1".to_owned()],
                tls: self.reach.trust.client_tls()?,
                ..DialOptions::default()
            },
            address,
            requests,
            connections: self.connections,
            per_connection: per_connection as u64,
            reconnect: self.reconnect.map(|requests| requests as u64),
            depth: self.depth.map(|requests| requests as u64),
            timeout: self.timeout,
            head: self.reach.heads.limits(),
            keeps_answers: self.output.is_some(),
        })
    }

    /// Behind a request that ends its connection nothing may be sent on it.
    fn check_last(&self, url: &Url, requests: &Requests, per_connection: usize) -> Result<(), Failure> {
        let Some(last) = requests.last() else { return Ok(()) };
        let on_one = self.reconnect.map_or(per_connection, |requests| requests.min(per_connection));
        let is_last = last == requests.in_a_round();
        if on_one == 1 || per_connection < last || (last % on_one == 0 && (is_last || per_connection == last))
        {
            return Ok(());
        }
        let message =
            format!("piping {url}: request {last} ends its connection, and others are to follow on it");
        let failure = Failure::new(Code::Usage, message);
        Err(match is_last {
            true => failure.help(format_args!(
                "take a new connection behind it with --reconnect {last}, or leave out 'Connection: close'"
            )),
            false => failure.help("let it be the last one of --raw, or leave out 'Connection: close'"),
        })
    }

    fn encoded(&self, url: &Url) -> Result<Requests, Failure> {
        let body = self.data.as_deref().map_or(Ok(Bytes::new()), values::data)?;
        let usual = if self.data.is_some() { Method::POST } else { Method::GET };
        let method = self.method.clone().unwrap_or(usual);
        if method == Method::CONNECT {
            let failure = Failure::new(Code::Usage, "CONNECT asks for a tunnel, not for an answer");
            return Err(failure.help("choose another --method"));
        }
        Requests::encode(url, method, values::headers(&self.reach.headers)?, &body)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let unread = |cause: &dyn Display| {
        Failure::new(Code::Read, format_args!("reading the requests of {}: {cause}", path.display()))
    };
    let read = match path == Path::new("-") {
        true => values::whole(std::io::stdin().lock(), values::FILE_BYTES_MAX),
        false => File::open(path).and_then(|file| values::whole(file, values::FILE_BYTES_MAX)),
    };
    let bytes =
        read.map_err(|cause| unread(&cause).help("name a file of requests that this user can read"))?;
    if bytes.is_empty() {
        let failure =
            Failure::new(Code::Read, format_args!("reading the requests of {}: it is empty", path.display()));
        return Err(failure.help("write requests into it, as they are to be sent"));
    }
    Ok(bytes)
}

const PER_CONNECTION: usize = 100;

const WITHOUT_USER: &str = "leave the user out of it, and send -H 'Authorization: Basic ...' instead";

const EXAMPLES: &str = "\
Examples:
  anywire pipe localhost:8080/json
  anywire pipe localhost:8080 --connections 10 --per-connection 1000 --reconnect 250
  anywire pipe localhost:8080 -c 1 --raw requests.http -o answers.http
  anywire pipe / --via unix:/run/app.sock --depth 16 --json -
  printf 'GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n' | anywire pipe localhost:8080 -c 1 --raw - -o -

Exit codes: 0 each request has its answer, whatever its status. 2 bad arguments. 7 no connection. 18
an answer is missing; the result is printed. 23 result not written. 26 requests not read. 56 more
came than was asked for. 130 and 143 ended by SIGINT and SIGTERM, with the result so far.";
