//! `anywire get` and `anywire post`: one call, in the manner of curl, over any wire.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anywire::client::{Client, Error, Fault, Response, Timeouts};
use anywire::http::{Body, Method};
use anywire::loops::Loops;
use anywire::wire::{Address, DialError};
use clap::Args;

use crate::blocks::Blocks;
use crate::failure::{Code, Failure};
use crate::output;
use crate::values::{self, Field};

/// Get a URL and print the answer's body
#[derive(Debug, Args)]
#[command(after_help = format!("{GET_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Get {
    #[command(flatten)]
    call: Call,
}

/// Post data to a URL and print the answer's body
#[derive(Debug, Args)]
#[command(after_help = format!("{POST_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Post {
    #[command(flatten)]
    call: Call,
}

impl Get {
    /// Calls with GET, unless another method was given.
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.call.run(Method::GET)
    }
}

impl Post {
    /// Calls with POST, unless another method was given.
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.call.run(Method::POST)
    }
}

/// What both have.
#[derive(Debug, Args)]
struct Call {
    /// The URL, such as http://localhost:8080/json
    #[arg(value_name = "URL")]
    url: String,
    /// The wire to go by instead of the URL's host and port, WIRE:WHERE
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    via: Option<Address>,
    /// A header field, 'Name: value'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<Field>,
    /// The body to send: text, @FILE, or @- for stdin
    #[arg(short, long, value_name = "DATA")]
    data: Option<String>,
    /// Another method
    #[arg(short = 'X', long = "request", value_name = "METHOD")]
    method: Option<Method>,
    /// Print the status line and the header fields, too
    #[arg(short, long)]
    include: bool,
    /// Write the answer to a file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Take a status of 400 or more for a failure: print no body, exit with 22
    #[arg(short, long)]
    fail: bool,
    /// How long the whole call may take [default: as long as it takes]
    #[arg(short = 'm', long, value_name = "TIME", value_parser = values::positive_duration)]
    timeout: Option<Duration>,
    /// How long connecting may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::positive_duration)]
    connect_timeout: Duration,
}

impl Call {
    fn run(&self, method: Method) -> Result<(), Failure> {
        let failed = |error: &dyn std::error::Error| Failure::of(Code::Failed, error);
        let loops = Loops::start(1).map_err(|error| failed(&error))?;
        let client = Client::builder().loops(&loops).timeouts(self.timeouts()).build();
        let client = client.map_err(|error| failed(&error))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        runtime.block_on(async {
            let exchange = self.exchange(&client, self.method.clone().unwrap_or(method));
            let Some(limit) = self.timeout else { return exchange.await };
            tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| {
                let message = format!("calling {}: the answer was not whole after {limit:?}", self.url);
                Err(Failure::new(Code::Timeout, message).help("see what the server does, or raise --timeout"))
            })
        })
    }

    /// A person waits as long as the person likes: only connecting has a limit of its own.
    fn timeouts(&self) -> Timeouts {
        let day = Duration::from_secs(24 * 60 * 60);
        Timeouts {
            connect: self.connect_timeout,
            acquire: day,
            read: day,
            write: day,
            total: day,
            ..Timeouts::default()
        }
    }

    async fn exchange(&self, client: &Client, method: Method) -> Result<(), Failure> {
        let mut call = client.request(method, &self.url);
        for Field { name, value } in &self.headers {
            call = call.header(name, value).map_err(|error| failure(&error))?;
        }
        if let Some(data) = &self.data {
            // What a form sends, as with curl, unless a field says otherwise.
            if !self.headers.iter().any(|field| field.name.eq_ignore_ascii_case("content-type")) {
                call = call.header("content-type", FORM).map_err(|error| failure(&error))?;
            }
            call = call.body(body(data)?);
        }
        if let Some(via) = &self.via {
            call = call.via(via);
        }
        let answer = call.send().await.map_err(|error| failure(&error))?;
        let status = answer.status();
        if self.fail && status.as_u16() >= 400 {
            let found = format!("calling {}: the status of the answer is {status}", self.url);
            return Err(
                Failure::new(Code::Status, found).help("leave out --fail to see what the server says")
            );
        }
        self.print(answer).await
    }

    /// Writes the answer while it comes.
    async fn print(&self, mut answer: Response) -> Result<(), Failure> {
        let (mut to, place) = destination(self.output.as_deref())?;
        let mut write = |bytes: &[u8]| to.write_all(bytes).map_err(|cause| output::unwritten(&place, &cause));
        if self.include {
            write(format!("{:?} {}\r\n", answer.version(), answer.status()).as_bytes())?;
            write(answer.headers().wire_bytes())?;
            write(b"\r\n")?;
        }
        while let Some(chunk) = answer.chunk().await.map_err(|error| failure(&error))? {
            write(&chunk)?;
        }
        to.flush().map_err(|cause| output::unwritten(&place, &cause))
    }
}

/// Where the answer goes, and what that is called.
fn destination(output: Option<&Path>) -> Result<(Box<dyn Write>, String), Failure> {
    let Some(path) = output.filter(|path| *path != Path::new("-")) else {
        return Ok((Box::new(io::stdout().lock()), "stdout".to_owned()));
    };
    let place = path.display().to_string();
    let file = File::create(path).map_err(|cause| output::unwritten(&place, &cause))?;
    Ok((Box::new(file), place))
}

/// The body that `--data` asks for; a file and stdin are read while they are sent.
fn body(data: &str) -> Result<Body, Failure> {
    let Some(name) = data.strip_prefix('@') else { return Ok(data.to_owned().into()) };
    let unread = |cause: io::Error| {
        let message = format!("reading the data of {name:?} failed: {cause}");
        Failure::new(Code::Read, message).help("name a file that this user can read, or write '@-' for stdin")
    };
    if name == "-" {
        let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(unread)?;
        return Ok(Blocks::body(stdin.into(), None));
    }
    let file = File::open(name).map_err(unread)?;
    let metadata = file.metadata().map_err(unread)?;
    if metadata.is_dir() {
        return Err(unread(io::ErrorKind::IsADirectory.into()));
    }
    // A pipe or a device has no length that would be known.
    Ok(Blocks::body(file, metadata.is_file().then_some(metadata.len())))
}

/// What to say of a failed call, with the exit code that curl has for it.
fn failure(error: &Error) -> Failure {
    let code = match error {
        _ if error.is_timeout() => Code::Timeout,
        Error::Connect { source: DialError::Resolve { .. }, .. } => Code::Resolve,
        Error::Connect { .. } => Code::Connect,
        Error::RequestBody { .. } => Code::Read,
        Error::ClosedByPeer { .. } | Error::Io { .. } | Error::Answer { .. } | Error::Body(_) => Code::Answer,
        _ if error.fault() == Fault::Caller => Code::Usage,
        _ => Code::Failed,
    };
    Failure::of(code, error)
}

const FORM: &str = "application/x-www-form-urlencoded";

const GET_EXAMPLES: &str = "\
Examples:
  anywire get http://127.0.0.1:8080/json
  anywire get -i http://localhost/ --via unix:/run/app.sock
  anywire get http://127.0.0.1:8080/bytes/1000000 -o file --timeout 5s
  anywire get -f -H 'Authorization: Bearer 7' http://127.0.0.1:8080/";

const POST_EXAMPLES: &str = "\
Examples:
  anywire post http://127.0.0.1:8080/echo -d 'any text'
  anywire post http://127.0.0.1:8080/echo -d @file.json -H 'Content-Type: application/json'
  tar c . | anywire post http://localhost/echo --via unix:/run/app.sock -d @- -o copy.tar";

const EXIT_CODES: &str = "\
Exit codes: 0 answered, 1 could not call, 2 bad arguments, 6 host not resolved, 7 not connected,
22 a status of 400 or more with --fail, 23 answer not written, 26 data not read, 28 too late,
56 the connection broke or the answer is not HTTP.";
