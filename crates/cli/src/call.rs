//! `anywire get` and `anywire post`: one call, in the manner of curl, over any wire.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use anywire::client::{Client, Limits, Phase, Response, Timeouts};
use anywire::http::h1::{Framing, encode};
use anywire::http::{Body, Headers, Method, Url, Version};
use anywire::load::text;
use anywire::loops::{Loops, block_on};
use anywire::wire::Address;
use clap::Args;

use crate::blocks::Blocks;
use crate::explain;
use crate::failure::{Code, Failure};
use crate::heads::HeadLimits;
use crate::output;
use crate::trust::{self, Trust};
use crate::values::{self, Field};
use crate::versions::Versions;

/// Get a URL and print the answer's body
#[derive(Debug, Args)]
#[command(after_help = format!("{GET_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Get {
    /// Ask with HEAD, and print the status line and the header fields alone
    #[arg(short = 'I', long, conflicts_with_all = ["data", "method"])]
    head: bool,
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
    pub(crate) fn run(mut self, verbose: bool) -> Result<(), Failure> {
        if self.head {
            self.call.include = true;
            return self.call.run(Method::HEAD, verbose);
        }
        self.call.run(Method::GET, verbose)
    }
}

impl Post {
    /// Calls with POST, unless another method was given.
    pub(crate) fn run(self, verbose: bool) -> Result<(), Failure> {
        self.call.run(Method::POST, verbose)
    }
}

/// What both have.
#[derive(Debug, Args)]
struct Call {
    /// The URL, such as https://example.com/; http:// may be left out, and with --via the host too
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
    #[arg(short = 'm', long, value_name = "TIME", value_parser = text::positive_duration)]
    timeout: Option<Duration>,
    /// How long connecting may take, and as long again the handshake of TLS
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = text::positive_duration)]
    connect_timeout: Duration,
    #[command(flatten)]
    versions: Versions,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    heads: HeadLimits,
}

impl Call {
    fn run(self, method: Method, verbose: bool) -> Result<(), Failure> {
        let failed = |error: &dyn std::error::Error| Failure::of(Code::Failed, error);
        let url = values::url(&self.url, self.via.as_ref())?;
        self.check_output()?;
        let loops = Loops::start(1).map_err(|error| failed(&error))?;
        let limits = Limits { head: self.heads.limits(), ..Limits::default() };
        let mut client = Client::builder().on(&loops).limits(limits).timeouts(self.timeouts());
        if let Some(tls) = self.trust.client_tls()? {
            client = client.tls(tls);
        }
        if let Some(name) = self.trust.server_name() {
            client = client.server_name(name);
        }
        let client = self.versions.apply(client).build();
        let method = self.method.clone().unwrap_or(method);
        let Some(limit) = self.timeout else {
            return block_on(self.exchange(&client, &url, method, verbose, &SoFar::default()));
        };
        let so_far = Arc::new(SoFar::default());
        let (watched, called) = (so_far.clone(), (client.clone(), url.clone()));
        // The call has a thread of its own, because opening and writing may block: a pipe waits for its other end, and no
        // timer of that thread would fire. The process ends with the other one.
        let (running, ended) = mpsc::channel::<()>();
        let call = thread::Builder::new().name("call".to_owned()).spawn(move || {
            let _held = (loops, running);
            let (client, url) = called;
            block_on(self.exchange(&client, &url, method, verbose, &so_far))
        });
        let call = call.map_err(|error| failed(&error))?;
        match ended.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => Err(watched.late(&url, limit, &client)),
            _ => call.join().unwrap_or_else(|panic| resume_unwind(panic)),
        }
    }

    /// Looks before the call whether its answer can be written: the server acts on a request only once, and the data are read
    /// while the answer comes.
    fn check_output(&self) -> Result<(), Failure> {
        let Some(path) = self.output.as_deref().filter(|path| *path != Path::new("-")) else { return Ok(()) };
        let data = match self.data.as_deref().and_then(|data| data.strip_prefix('@')) {
            Some("-") => {
                io::stdin().as_fd().try_clone_to_owned().and_then(|stdin| File::from(stdin).metadata())
            }
            Some(name) => fs::metadata(name),
            None => return output::check(path),
        };
        // Whether the data can be read is said later.
        let (Ok(data), Ok(output)) = (data, fs::metadata(path)) else { return output::check(path) };
        if data.is_file() && output::is_one_file(&data, &output) {
            let message = format!("writing {}: the data are read from it", path.display());
            return Err(Failure::new(Code::Usage, message).help("give the answer a file of its own"));
        }
        output::check(path)
    }

    /// A person waits as long as the person likes: only connecting has a limit of its own.
    fn timeouts(&self) -> Timeouts {
        let day = Duration::from_secs(24 * 60 * 60);
        let connect = self.connect_timeout;
        Timeouts { connect, handshake: connect, read: day, write: day, total: day, ..Timeouts::default() }
    }

    async fn exchange(
        &self,
        client: &Client,
        url: &str,
        method: Method,
        verbose: bool,
        so_far: &SoFar,
    ) -> Result<(), Failure> {
        let failed = |error: anywire::client::Error| explain::call(url, &error);
        let mut headers = values::headers(&self.headers)?;
        if !headers.contains("user-agent") {
            headers.append("user-agent", AGENT).map_err(|error| Failure::of(Code::Usage, &error))?;
        }
        let body = match &self.data {
            Some(data) => {
                // What a form sends, as with curl, unless a field says otherwise.
                if !headers.contains("content-type") {
                    headers.append("content-type", FORM).map_err(|error| Failure::of(Code::Usage, &error))?;
                }
                body(data, so_far)?
            }
            None => Body::empty(),
        };
        so_far.reaches(Stage::Call);
        let sent = request_head(&method, url, &headers, &body).filter(|_| verbose);
        let show_sent =
            |version: &str| sent.iter().try_for_each(|sent| show(b"> ", &in_version(sent, version)));
        // The handshake of TLS has to agree on the version first.
        let is_agreed_on = url.starts_with("https:") || self.via.as_ref().is_some_and(Address::has_tls);
        let mut call = client.request(method, url);
        for (name, value) in headers.iter() {
            call = call.header(name, value);
        }
        call = call.body(body);
        if let Some(via) = &self.via {
            call = call.via(via);
        }
        if !is_agreed_on {
            show_sent(self.versions.name())?;
        }
        let answer = call.send().await.map_err(failed)?;
        so_far.reaches(Stage::Answer);
        if verbose {
            if let Some(tls) = answer.tls() {
                show(b"* ", trust::lines(tls).as_bytes())?;
            }
            if is_agreed_on {
                show_sent(if answer.version() == Version::HTTP_2 { "HTTP/2" } else { "HTTP/1.1" })?;
            }
            show(b"< ", &head(&answer))?;
        }
        let status = answer.status();
        let is_failure = self.fail && status.as_u16() >= 400;
        if !is_failure || self.include {
            self.print(url, answer, !is_failure, so_far).await?;
        }
        if is_failure {
            let found = format!("calling {url}: the status of the answer is {status}");
            let failure = Failure::new(Code::Status, found);
            return Err(failure.help("leave out --fail to see what the server says"));
        }
        Ok(())
    }

    /// Writes the answer while it comes, its body only if that is wanted.
    async fn print(
        &self,
        url: &str,
        mut answer: Response,
        wants_body: bool,
        so_far: &SoFar,
    ) -> Result<(), Failure> {
        so_far.reaches(Stage::Output);
        let (mut to, place) = destination(self.output.as_deref())?;
        let is_terminal = to.is_terminal();
        let mut write = |bytes: &[u8]| {
            so_far.reaches(Stage::Output);
            to.write_all(bytes).map_err(|cause| output::unwritten(&place, &cause))?;
            so_far.reaches(Stage::Answer);
            Ok(())
        };
        if self.include {
            let head = head(&answer);
            write(if is_terminal { for_terminal(&head) } else { head.into() }.as_ref())?;
        }
        so_far.reaches(Stage::Answer);
        while wants_body
            && let Some(chunk) = answer.chunk().await.map_err(|error| explain::call(url, &error))?
        {
            write(&chunk)?;
        }
        to.flush().map_err(|cause| output::unwritten(&place, &cause))
    }
}

/// How far a call has come, for the thread that watches its time.
#[derive(Default)]
struct SoFar {
    stage: Mutex<Stage>,
    /// Ends with the last block of a body that is read while it is sent.
    unsent: Mutex<Weak<()>>,
}

/// What a call is about.
#[derive(Debug, Clone, Copy, Default)]
enum Stage {
    /// Its data are opened.
    #[default]
    Data,
    /// The client calls.
    Call,
    /// There is an answer, and more of its body is awaited.
    Answer,
    /// What has come of it is written.
    Output,
}

impl SoFar {
    fn reaches(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    /// What is said of a call that took too long.
    fn late(&self, url: &str, limit: Duration, client: &Client) -> Failure {
        let stage = *self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let (doing, help) = match stage {
            Stage::Data => ("opening the data".to_owned(), "see that something writes to what --data names"),
            Stage::Call => (self.phase(client).to_string(), "see what the server does"),
            Stage::Answer => (Phase::Body.to_string(), "see what the server does"),
            Stage::Output => ("writing it".to_owned(), "see that something takes what is written"),
        };
        let message =
            format!("calling {url}: the answer was not whole after {limit:?}, which ended while {doing}");
        Failure::new(Code::Timeout, message).help(format_args!("{help}, or raise --timeout"))
    }

    /// The phase of a call that has no answer yet.
    fn phase(&self, client: &Client) -> Phase {
        let unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        match client.counters().total().active {
            0 => Phase::Connect,
            _ if unsent.strong_count() > 0 => Phase::Write,
            _ => Phase::Read,
        }
    }

    /// A body whose end is noticed.
    fn sends(&self, blocks: Blocks) -> Body {
        let unsent = Arc::new(());
        *self.unsent.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&unsent);
        blocks.holding(unsent).into_body()
    }
}

/// Where the answer goes, and what that is called.
fn destination(output: Option<&Path>) -> Result<(File, String), Failure> {
    let Some(path) = output.filter(|path| *path != Path::new("-")) else {
        let place = "stdout".to_owned();
        // Past the buffer for lines: what has come is seen at once, and whatever ends the command.
        let stdout = output::stdout()?.as_fd().try_clone_to_owned();
        let stdout = stdout.map_err(|cause| output::unwritten(&place, &cause))?;
        return Ok((File::from(stdout), place));
    };
    let place = path.display().to_string();
    let file = File::create(path).map_err(|cause| output::unwritten(&place, &cause))?;
    Ok((file, place))
}

/// The body that `--data` asks for; a file and stdin are read while they are sent.
fn body(data: &str, so_far: &SoFar) -> Result<Body, Failure> {
    let Some(name) = data.strip_prefix('@') else { return Ok(data.to_owned().into()) };
    let unread = |cause: io::Error| {
        let message = format!("reading the data of {name:?} failed: {cause}");
        Failure::new(Code::Read, message).help("name a file that this user can read, or write '@-' for stdin")
    };
    if name == "-" {
        let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(unread)?;
        return Ok(so_far.sends(Blocks::of(stdin.into(), None, "stdin")));
    }
    let file = File::open(name).map_err(unread)?;
    let metadata = file.metadata().map_err(unread)?;
    if metadata.is_dir() {
        return Err(unread(io::ErrorKind::IsADirectory.into()));
    }
    // A pipe or a device has no length that would be known. Nor has a file of the kernel, whose size is said to be 0.
    let size = Some(metadata.len()).filter(|size| metadata.is_file() && *size > 0);
    Ok(so_far.sends(Blocks::of(file, size, name)))
}

/// Who asks, unless the user says so (RFC 9110 section 10.1.5).
const AGENT: &str = concat!("anywire/", env!("CARGO_PKG_VERSION"));

/// The head of the request as the client's encoder writes it; `None` where the URL or a field is wrong, which the call
/// itself then says.
fn request_head(method: &Method, url: &str, headers: &Headers, body: &Body) -> Option<Vec<u8>> {
    let url = Url::parse(url).ok()?;
    let framing = Framing::of_request(method, body);
    let mut head = Vec::new();
    encode::request_head(&mut head, method, url.path_and_query(), url.authority(), headers, framing).ok()?;
    Some(head)
}

/// The head with another version in its first line. Over HTTP/2 the line is in pseudo-header fields, which say the same.
fn in_version(head: &[u8], version: &str) -> Vec<u8> {
    String::from_utf8_lossy(head).replacen("HTTP/1.1", version, 1).into_bytes()
}

/// The head of an answer as it came, up to the empty line at its end.
fn head(answer: &Response) -> Vec<u8> {
    let status = answer.status().as_u16();
    let mut head = match answer.version() {
        // It has no reason, and no minor version (RFC 9113 section 8.3.2).
        Version::HTTP_2 => format!("HTTP/2 {status}").into_bytes(),
        version => [format!("{version:?} {status} ").as_bytes(), answer.head().reason_bytes()].concat(),
    };
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(answer.headers().wire_bytes());
    head.extend_from_slice(b"\r\n");
    head
}

/// Shows a head on stderr, each line behind `mark`, as curl does.
fn show(mark: &[u8], head: &[u8]) -> Result<(), Failure> {
    let head = if io::stderr().is_terminal() { for_terminal(head) } else { head.into() };
    let mut shown = Vec::new();
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        shown.extend_from_slice(mark);
        shown.extend_from_slice(line.trim_ascii_end());
        shown.push(b'\n');
    }
    io::stderr().write_all(&shown).map_err(|cause| output::unwritten("stderr", &cause))
}

/// The same without what a terminal acts on: a reason and the values of fields may hold the control characters beyond ASCII
/// (`obs-text`, RFC 9110 section 5.5). What is no UTF-8 is shown as such.
fn for_terminal(head: &[u8]) -> Cow<'_, [u8]> {
    if head.is_ascii() {
        return head.into();
    }
    let mut shown = String::with_capacity(head.len());
    for letter in String::from_utf8_lossy(head).chars() {
        match letter {
            letter if letter.is_control() && !letter.is_ascii() => shown.extend(letter.escape_default()),
            letter => shown.push(letter),
        }
    }
    shown.into_bytes().into()
}

const FORM: &str = "application/x-www-form-urlencoded";

const GET_EXAMPLES: &str = "\
Examples:
  anywire get localhost:8080/json
  anywire get -I localhost:8080             the head alone
  anywire get -v localhost:8080             both heads on stderr
  anywire get -i /json --via unix:/run/app.sock
  anywire get --http2 localhost:8080        HTTP/2 without TLS
  anywire get -v https://localhost:8443/ --cacert root.pem
  anywire get http://127.0.0.1:8080/bytes/1000000 -o file --timeout 5s
  anywire get -f -H 'Authorization: Bearer 7' http://127.0.0.1:8080/";

const POST_EXAMPLES: &str = "\
Examples:
  anywire post localhost:8080/echo -d 'any text'
  anywire post localhost:8080/echo -d @file.json -H 'Content-Type: application/json'
  tar c . | anywire post /echo --via unix:/run/app.sock -d @- -o copy.tar";

const EXIT_CODES: &str = "\
Exit codes: 0 answered, 1 could not call, 2 bad arguments, 6 host not resolved, 7 not connected,
22 a status of 400 or more with --fail, 23 answer not written, 26 data not read, 28 too late,
35 the TLS handshake failed, 56 the connection broke, or the answer is no good: not HTTP, cut
short, over a limit on heads, or interim answers (1xx) and no final one, 58 --cert or --key is no
good, 60 the server's certificate is not acceptable, 77 --cacert is no good, 90 its key is not
pinned.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_characters() {
        let shown = |head: &[u8]| String::from_utf8(for_terminal(head).into_owned()).expect("UTF-8");
        assert_eq!(shown(b"HTTP/1.1 200 OK\r\na: b\r\n\r\n"), "HTTP/1.1 200 OK\r\na: b\r\n\r\n");
        assert_eq!(
            shown("HTTP/1.1 200 D\u{e1}ccord \u{4f60}\r\n".as_bytes()),
            "HTTP/1.1 200 D\u{e1}ccord \u{4f60}\r\n"
        );
        // The start of an escape sequence, in Latin-1 and in UTF-8.
        assert_eq!(shown(b"HTTP/1.1 200 \x9b2J\xc2\x9b2J\r\n"), "HTTP/1.1 200 \u{fffd}2J\\u{9b}2J\r\n");
    }
}
