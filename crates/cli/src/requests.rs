//! What `load` sends, from its options: one request, a list of URLs, what a browser recorded, what a document describes, or the file
//! of a script; and how a good answer looks.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anywire::Chain;
use anywire::advice::Message;
use anywire::http::{Method, StatusCode};
use anywire::load::script::{
    HarError, HarOptions, Script, ScriptFileError, Sequence, Step, Syntax, Table, Text, read_file, read_har,
    read_urls, split_url,
};
use anywire::load::{Expect, ExpectedField, Plan, Sha256, text};
use anywire::wire::Address;
use bytes::Bytes;
use clap::Args;

use crate::failure::{Code, Failure};
use crate::openapi::Described;
use crate::values::{self, FILE_BYTES_MAX, Field};

/// The requests of a load.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is sent")]
pub(crate) struct Requests {
    /// A header field, 'Name: value'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<Field>,
    /// The method [default: GET, or POST with --data]
    #[arg(short, long, value_name = "METHOD", value_parser = method)]
    method: Option<Method>,
    /// The body of each request: text, @FILE, or - for what is on stdin
    #[arg(long, value_name = "DATA", allow_hyphen_values = true)]
    data: Option<String>,
    /// Send {{...}} as it is, in the URL, the headers, the data and in --urls
    ///
    /// Without it, {{n}} is the number of the request, {{int 1 100}} a random integer, {{hex 8}} and {{text 8}} random digits
    /// and letters, {{uuid}} a UUID, {{time}} the seconds since 1970 ({{time ms}}, {{time iso}}), {{pick a b c}} one of these
    /// words, and {{row.NAME}} a column of --rows. {{{{ is two braces.
    #[arg(long)]
    no_template: bool,
    /// Rows for templates: a CSV file whose first line has names, for {{row.NAME}}; with NAME= before it for others than 'row'
    #[arg(long, value_name = "[NAME=]FILE")]
    rows: Vec<String>,
    /// A list of URLs, one a line: [METHOD] URL [WEIGHT]; sent in turn, or at random by their weights
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "data"])]
    urls: Option<String>,
    /// Requests that a browser recorded (HAR), in their order
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "data", "urls"])]
    har: Option<String>,
    /// Wait between two requests of --har as long as the user did who was recorded
    #[arg(long, requires = "har")]
    har_think: bool,
    /// The host whose requests of --har are sent [default: that of the first]
    #[arg(long, value_name = "HOST", requires = "har")]
    har_host: Option<String>,
    /// Keep the cookies that answers set, and send them with the later requests of a sequence; it begins without any
    ///
    /// Each user has its own. Those that were recorded are not sent then. A script may say it of one sequence by cookies = true.
    #[arg(long)]
    cookies: bool,
    /// Requests with weights and sequences of requests: a file in TOML, or in JSON if its name ends so
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "data", "urls", "har"])]
    script: Option<PathBuf>,
    #[command(flatten)]
    described: Described,
    /// What random values, the order of requests with weights, and the random gaps of a schedule are drawn by
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Time the events of streamed answers: how long the first one takes, and the gaps between them
    ///
    /// An event is one of text/event-stream, a line of JSON lines, or a piece of any other body as it comes. --timeout is then
    /// the longest silence, and an answer may go on to the end of the run.
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    checks: Checks,
}

/// How a good answer looks.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is expected")]
struct Checks {
    /// The only status that is good [default: any below 400]
    #[arg(long, value_name = "STATUS", value_parser = status)]
    expect_status: Option<StatusCode>,
    /// A header field that each answer must have: 'Name: value', or 'Name' for any value; may be repeated
    #[arg(long, value_name = "FIELD")]
    expect_header: Vec<ExpectedField>,
    /// A text that the body of each answer must contain; may be repeated
    #[arg(long, value_name = "TEXT")]
    expect_body: Vec<String>,
    /// The length of the body of each answer, in bytes
    #[arg(long, value_name = "N")]
    expect_bytes: Option<u64>,
    /// The SHA-256 of the body of each answer, as sha256sum prints it
    #[arg(long, value_name = "SUM")]
    expect_sha256: Option<Sha256>,
}

impl Requests {
    /// What everything random is drawn by.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The plan with these requests; and what is to be said of them, such as what is left out.
    pub(crate) fn add_to(
        &self,
        plan: Plan,
        url: Option<&str>,
        via: Option<&Address>,
    ) -> Result<(Plan, Option<String>), Failure> {
        let plan = Plan {
            headers: values::headers(&self.headers)?,
            expect: self.checks.expect(),
            events: self.events,
            seed: self.seed,
            ..plan
        };
        let (mut script, origin, left_out) = match (&self.urls, &self.har, &self.script) {
            (Some(name), ..) => {
                let list = read_urls(&text_of(name, "the URLs")?, !self.no_template);
                let list = list.map_err(|error| of_file(name, &error))?;
                (list.script, list.origin, None)
            }
            (_, Some(name), _) => self.recorded(name)?,
            _ if self.described.file().is_some() => {
                let whole = values::url(url.unwrap_or_default(), via)?;
                let (script, said) = self.described.read(&whole, &self.headers, !self.no_template)?;
                (script, None, said)
            }
            (.., Some(path)) => {
                let (script, origin) = script_of(path)?;
                (script, origin, None)
            }
            _ => {
                self.cookies_are_sent(&[])?;
                return self.one(plan, url.unwrap_or_default(), via).map(|plan| (plan, None));
            }
        };
        if self.described.file().is_none() {
            has_no_path(url)?;
        }
        self.cookies_are_sent(&script.sequences)?;
        script.sequences.iter_mut().for_each(|sequence| sequence.cookies |= self.cookies);
        script.tables.extend(self.tables()?);
        let url = match (url, origin) {
            (Some(url), _) => values::url(url, via)?,
            (None, Some(origin)) => origin,
            (None, None) => values::url("/", via)?,
        };
        Ok((Plan { script: Some(script), url, ..plan }, left_out))
    }

    /// Whether a sequence has a later request, with which a cookie that is kept would go.
    fn cookies_are_sent(&self, sequences: &[Sequence]) -> Result<(), Failure> {
        if !self.cookies || sequences.iter().any(|sequence| sequence.steps.len() > 1) {
            return Ok(());
        }
        let found = "--cookies: each request is a sequence of its own, so no cookie would be sent again";
        Err(Failure::new(Code::Usage, found)
            .help("put requests into a sequence of --script, or take a recording (--har)"))
    }

    /// One request, perhaps with values in it.
    fn one(&self, plan: Plan, url: &str, via: Option<&Address>) -> Result<Plan, Failure> {
        let body = match self.data.as_deref() {
            None => Bytes::new(),
            Some("-") => Bytes::from(read_all("-", "the data")?),
            Some(data) => values::data(data)?,
        };
        let usual = if self.data.is_some() { Method::POST } else { Method::GET };
        let method = self.method.clone().unwrap_or(usual);
        let has_value = |bytes: &[u8]| !self.no_template && bytes.windows(2).any(|pair| pair == b"{{");
        let (filled, headers): (Vec<&Field>, Vec<&Field>) =
            self.headers.iter().partition(|field| has_value(field.value.as_bytes()));
        if filled.is_empty() && !has_value(url.as_bytes()) && !has_value(&body) {
            if !self.rows.is_empty() {
                let failure =
                    Failure::new(Code::Usage, "--rows is given, and nothing of the request is a template");
                return Err(
                    failure.help("name a column in the URL, a header or the data, such as {{row.NAME}}")
                );
            }
            return Ok(Plan { method, body, url: values::url(url, via)?, ..plan });
        }
        let (url, target) = match has_value(url.as_bytes()) {
            false => {
                let (_, target) = split_url(&values::url(url, via)?);
                (values::url(url, via)?, Text::from(target))
            }
            true if url.starts_with('/') => (values::url("/", via)?, Text::template(url.to_owned())),
            true => {
                let (origin, target) = split_url(url);
                (values::url(&origin, via)?, Text::template(target))
            }
        };
        let step = Step {
            method,
            headers: filled
                .iter()
                .map(|field| (field.name.clone(), Text::template(field.value.clone())))
                .collect(),
            body: if has_value(&body) { Text::template(body) } else { Text::plain(body) },
            ..Step::get(target)
        };
        let script =
            Script { sequences: vec![Sequence::one(step)], tables: self.tables()?, ..Script::default() };
        let headers: Vec<Field> = headers.into_iter().cloned().collect();
        Ok(Plan { script: Some(script), url, headers: values::headers(&headers)?, ..plan })
    }

    /// What a browser recorded, its host, and what is left out.
    fn recorded(&self, name: &str) -> Result<(Script, Option<String>, Option<String>), Failure> {
        let options = HarOptions {
            think: self.har_think,
            cookies: self.cookies,
            host: self.har_host.clone(),
            ..HarOptions::default()
        };
        let har = read_har(open(name, "the recording")?, &options).map_err(|error| match error {
            HarError::Read(cause) => unreadable(name, "the recording", &cause),
            error => of_file(name, &error),
        })?;
        let left_out = har.left_out.total();
        let left_out = (left_out > 0).then(|| {
            let requests = text::counted(left_out, "request");
            format!("{requests} of {name} left out: {}", har.left_out)
        });
        Ok((har.script, Some(har.origin), left_out))
    }

    /// The tables of `--rows`.
    fn tables(&self) -> Result<Vec<Table>, Failure> {
        let tables = self.rows.iter().map(|option| {
            let (name, file) = match option.split_once('=') {
                Some((name, file)) if !name.contains('/') => (name, file),
                _ => ("row", option.as_str()),
            };
            Ok(Table::new(name, text_of(file, "the rows")?))
        });
        tables.collect()
    }
}

impl Checks {
    fn expect(&self) -> Expect {
        Expect {
            status: self.expect_status,
            body_bytes: self.expect_bytes,
            headers: self.expect_header.clone(),
            contains: self.expect_body.clone(),
            sha256: self.expect_sha256,
        }
    }
}

/// Whether the URL of the command line says no more than the host: the requests of a file have paths of their own.
fn has_no_path(url: Option<&str>) -> Result<(), Failure> {
    let (_, target) = url.map(split_url).unwrap_or_default();
    if target.is_empty() || target == "/" {
        return Ok(());
    }
    let message = format!("the URL has the path {target:?}, and the requests of the file have their own");
    Err(Failure::new(Code::Usage, message)
        .help("give the scheme and the host alone, such as http://localhost:8080"))
}

/// The script of a file, and the host of its URLs.
fn script_of(path: &Path) -> Result<(Script, Option<String>), Failure> {
    let name = path.display().to_string();
    let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    let syntax = if is_json { Syntax::Json } else { Syntax::Toml };
    // What the file names lies beside it.
    let folder = path.parent().unwrap_or(Path::new(""));
    let file = read_file(&text_of(&name, "the script")?, syntax, |named| {
        values::whole(File::open(folder.join(named))?, FILE_BYTES_MAX)
    });
    let file = file.map_err(|error| match error {
        ScriptFileError::File { name: named, source } => {
            unreadable(&folder.join(named).display().to_string(), "a file of the script", &source)
        }
        error => of_file(&name, &error),
    })?;
    Ok((file.script, file.origin))
}

/// A file, or stdin for `-`.
pub(crate) fn open(name: &str, what: &str) -> Result<Box<dyn Read>, Failure> {
    if name == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    match File::open(name) {
        Ok(file) => Ok(Box::new(file)),
        Err(cause) => Err(unreadable(name, what, &cause)),
    }
}

fn read_all(name: &str, what: &str) -> Result<Vec<u8>, Failure> {
    values::whole(open(name, what)?, FILE_BYTES_MAX).map_err(|cause| unreadable(name, what, &cause))
}

fn text_of(name: &str, what: &str) -> Result<String, Failure> {
    let bytes = read_all(name, what)?;
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("reading {what} of {name:?} failed: it is no text in UTF-8");
        Failure::new(Code::Read, message).help("save it as UTF-8")
    })
}

pub(crate) fn unreadable(name: &str, what: &str, cause: &io::Error) -> Failure {
    Failure::new(Code::Read, format!("reading {what} of {name:?} failed: {cause}"))
        .help("name a file that this user can read")
}

/// What is wrong in a file that was read.
pub(crate) fn of_file(name: &str, error: &dyn std::error::Error) -> Failure {
    let message = Chain(error).message();
    Failure::of_message(Code::Usage, Message { found: format!("{name}: {}", message.found), ..message })
        .or_help("'anywire load --help' shows how it is written")
}

/// A method. Who writes a time means the `-m` of curl.
pub(crate) fn method(text: &str) -> Result<Method, String> {
    if text::duration(text).is_ok() {
        return Err(
            "it is a time or a number, and -m is the method; the longest wait for an answer is --timeout, and streams are --streams".to_owned()
        );
    }
    text.parse().map_err(|_| "it is no method; write one such as POST".to_owned())
}

fn status(text: &str) -> Result<StatusCode, String> {
    text.parse().map_err(|_| "it is no status; write one such as 200".to_owned())
}
