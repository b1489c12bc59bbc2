//! From a script as data to one that can be sent: names are resolved, and all bytes that do not change are encoded.

use std::time::Duration;

use anywire_http::h1::Framing;
use anywire_http::h1::encode::{self, EncodeError};
use anywire_http::{Headers, Method};
use bytes::Bytes;

use super::check::Checks;
use super::error::ScriptError;
use super::jar::CookieSite;
use super::set::{Script, Sequence, Step, Text};
use super::table::{Order, Rows};
use super::template::{TemplateError, TemplateFault};
use super::value::{Filling, Scope};
use crate::expect::Expect;
use crate::limits::Limits;
use crate::request::asks_to_close;

/// A script that can be sent.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// The requests of all sequences, one after the other.
    pub(crate) requests: Vec<CompiledRequest>,
    pub(super) sequences: Vec<CompiledSequence>,
    /// The sums of the weights up to each sequence.
    pub(super) sums: Vec<u64>,
    pub(super) order: Order,
    pub(super) tables: Vec<Rows>,
}

/// The way of a user.
#[derive(Debug)]
pub(super) struct CompiledSequence {
    /// The number of its first request.
    pub(super) first: usize,
    pub(super) count: usize,
    /// The texts of its first variables.
    pub(super) set: Vec<Filling>,
    /// How many variables it has in all.
    pub(super) variables: usize,
    /// The tables of which it takes a row.
    pub(super) tables: Vec<usize>,
}

/// A request whose fixed bytes are encoded.
#[derive(Debug)]
pub(crate) struct CompiledRequest {
    /// Its name in results.
    pub(crate) name: String,
    pub(crate) method: Method,
    /// The host, as a request names it.
    pub(crate) host: String,
    pub(crate) checks: Checks,
    /// How long the user waits after the answer.
    pub(super) think: Duration,
    /// It says `Connection: close`.
    pub(crate) closes: bool,
    pub(super) target: Filling,
    /// The fields that are the same in each request, without the host.
    pub(super) fields: Headers,
    /// The others.
    pub(super) filled: Vec<(String, Filling)>,
    /// If the user keeps cookies; then no field `cookie` is among those above.
    pub(super) cookies: Option<CookieSite>,
    pub(super) body: Filling,
    /// What stands between the target and the filled fields in HTTP/1.
    pub(super) middle: Vec<u8>,
    /// The body, if it is the same in each request.
    pub(super) fixed_body: Option<Bytes>,
    /// The whole of it in HTTP/1, if it is the same in each request.
    pub(super) whole: Option<Vec<u8>>,
    /// The length of a request in HTTP/1, with one byte for each value.
    pub(crate) bytes: usize,
}

/// What all requests of a plan have.
pub(crate) struct Common<'p> {
    /// The host of the URL.
    pub(crate) host: &'p str,
    /// Whether the scheme of the URL is `https`.
    pub(crate) is_https: bool,
    /// The fields of the plan.
    pub(crate) headers: &'p Headers,
    pub(crate) expect: &'p Expect,
    pub(crate) limits: &'p Limits,
}

impl Compiled {
    /// Checks a script and makes it ready.
    pub(crate) fn new(script: &Script, common: &Common<'_>) -> Result<Self, ScriptError> {
        let limits = &common.limits.script;
        within("requests in the script", script.requests() as u64, limits.requests as u64)?;
        let mut names: Vec<String> = Vec::new();
        let mut tables = Vec::with_capacity(script.tables.len());
        let mut data_bytes = 0;
        for table in &script.tables {
            data_bytes += table.csv.len() as u64;
            within("bytes of data in tables", data_bytes, limits.data_bytes as u64)?;
            declare(&mut names, &table.name)?;
            let rows = table.rows();
            tables.push(rows.map_err(|source| ScriptError::Table { name: table.name.clone(), source })?);
        }
        let mut compiled = Self {
            requests: Vec::new(),
            sequences: Vec::new(),
            sums: Vec::new(),
            order: script.order,
            tables,
        };
        let mut sum: u64 = 0;
        for sequence in script.sequences.iter().filter(|one| !one.steps.is_empty()) {
            let of_sequence = compiled.sequence(sequence, common, &names)?;
            compiled.sequences.push(of_sequence);
            sum += u64::from(sequence.weight);
            compiled.sums.push(sum);
        }
        let is_drawn = if script.order == Order::Random { sum > 0 } else { !compiled.sequences.is_empty() };
        if is_drawn { Ok(compiled) } else { Err(ScriptError::Nothing) }
    }

    fn sequence(
        &mut self,
        sequence: &Sequence,
        common: &Common<'_>,
        tables: &[String],
    ) -> Result<CompiledSequence, ScriptError> {
        let first = self.requests.len();
        let mut scope = Names { tables: &self.tables, reserved: tables.to_vec(), variables: Vec::new() };
        let mut set = Vec::with_capacity(sequence.variables.len());
        for variable in &sequence.variables {
            let part = format!("variable {}", variable.name);
            let name = if sequence.name.is_empty() { "the sequence" } else { &sequence.name };
            set.push(scope.filling(&variable.text, name, &part)?);
            scope.declare(&variable.name)?;
        }
        let mut requests = Vec::with_capacity(sequence.steps.len());
        for step in &sequence.steps {
            requests.push(CompiledRequest::new(step, sequence, common, &mut scope)?);
        }
        let fillings = requests.iter().flat_map(CompiledRequest::fillings).chain(&set);
        let mut of_tables: Vec<usize> = fillings.flat_map(Filling::tables).collect();
        of_tables.sort_unstable();
        of_tables.dedup();
        let variables = scope.variables.len();
        within("variables in a sequence", variables as u64, common.limits.script.variables as u64)?;
        let count = requests.len();
        self.requests.extend(requests);
        Ok(CompiledSequence { first, count, set, variables, tables: of_tables })
    }

    /// The length of the longest request in HTTP/1, with one byte for each value.
    pub(crate) fn request_bytes(&self) -> usize {
        self.requests.iter().map(|request| request.bytes).max().unwrap_or_default()
    }

    /// The methods of its requests, each once.
    pub(crate) fn methods(&self) -> String {
        let mut methods: Vec<&str> = self.requests.iter().map(|request| request.method.as_str()).collect();
        methods.sort_unstable();
        methods.dedup();
        methods.join(", ")
    }

    /// Whether a request says that it is the last of its connection.
    pub(crate) fn closes(&self) -> bool {
        self.requests.iter().any(|request| request.closes)
    }
}

impl Script {
    /// Whether it can be sent, within the usual limits.
    ///
    /// # Errors
    ///
    /// It cannot: the error names the request and the place in it.
    pub fn check(&self) -> Result<(), ScriptError> {
        let (headers, expect, limits) = (Headers::new(), Expect::default(), Limits::default());
        let host = "localhost";
        let common = Common { host, is_https: false, headers: &headers, expect: &expect, limits: &limits };
        Compiled::new(self, &common).map(drop)
    }
}

/// The names that templates of a sequence may use so far.
struct Names<'t> {
    tables: &'t [Rows],
    reserved: Vec<String>,
    variables: Vec<String>,
}

impl Names<'_> {
    /// The number of a variable that may be known already.
    fn declare(&mut self, name: &str) -> Result<usize, ScriptError> {
        if let Some(known) = self.variables.iter().position(|known| known == name) {
            return Ok(known);
        }
        declare(&mut self.reserved, name)?;
        self.variables.push(name.to_owned());
        Ok(self.variables.len() - 1)
    }

    fn filling(&self, text: &Text, request: &str, part: &str) -> Result<Filling, ScriptError> {
        if !text.is_template() {
            return Ok(Filling::plain(text.as_bytes()));
        }
        let scope = Scope { tables: self.tables, variables: &self.variables };
        Filling::new(text.as_bytes(), &scope).map_err(|source| template(request, part, source))
    }
}

fn template(request: &str, part: &str, source: TemplateError) -> ScriptError {
    ScriptError::Template { request: request.to_owned(), part: part.to_owned(), source: source.into() }
}

/// Adds a name that templates can use.
fn declare(names: &mut Vec<String>, name: &str) -> Result<(), ScriptError> {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    let is_word = name.starts_with(char::is_alphabetic) && name.chars().all(is_letter);
    if !is_word || VALUES.contains(&name) || names.iter().any(|known| known == name) {
        return Err(ScriptError::Name { name: name.to_owned() });
    }
    names.push(name.to_owned());
    Ok(())
}

/// Names with a meaning of their own.
const VALUES: [&str; 7] = ["n", "int", "hex", "text", "uuid", "time", "pick"];

fn within(what: &'static str, found: u64, most: u64) -> Result<(), ScriptError> {
    if found <= most { Ok(()) } else { Err(ScriptError::Limit { what, found, most }) }
}

impl CompiledRequest {
    fn new(
        step: &Step,
        sequence: &Sequence,
        common: &Common<'_>,
        scope: &mut Names<'_>,
    ) -> Result<Self, ScriptError> {
        let name = step.name_in_results();
        if step.method == Method::CONNECT {
            return Err(ScriptError::Method { request: name, method: step.method.to_string() });
        }
        let target = scope.filling(&step.target, &name, "target")?;
        let body = scope.filling(&step.body, &name, "body")?;
        let mut request = Self {
            method: step.method.clone(),
            host: common.host.to_owned(),
            think: step.think,
            closes: false,
            target,
            fields: common.headers.clone(),
            filled: Vec::new(),
            cookies: None,
            body,
            middle: Vec::new(),
            fixed_body: None,
            whole: None,
            bytes: 0,
            checks: Checks::new(&name, step.expect.as_ref().unwrap_or(common.expect), &[], 0, &[])?,
            name,
        };
        request.set_fields(step, scope)?;
        if sequence.cookies {
            request.keep_cookies(common);
        }
        // A value is known to the requests behind this one.
        let numbers =
            step.keep.iter().map(|keep| scope.declare(&keep.variable)).collect::<Result<Vec<_>, _>>()?;
        let expect = step.expect.as_ref().unwrap_or(common.expect);
        let held = common.limits.script.held_body_bytes;
        request.checks = Checks::new(&request.name, expect, &step.keep, held, &numbers)?;
        request.encode().map_err(|source| ScriptError::Encode { request: request.name.clone(), source })?;
        Ok(request)
    }

    fn set_fields(&mut self, step: &Step, scope: &Names<'_>) -> Result<(), ScriptError> {
        for (field, _) in &step.headers {
            self.fields.remove(field);
        }
        for (field, text) in &step.headers {
            let filling = scope.filling(text, &self.name, &format!("header {field}"))?;
            let invalid =
                |source| ScriptError::Header { request: self.name.clone(), name: field.clone(), source };
            match filling.fixed() {
                Some(value) => self.fields.append(field, &value).map_err(invalid)?,
                None if FRAMING.iter().any(|fixed| field.eq_ignore_ascii_case(fixed)) => {
                    let source =
                        TemplateError::new(text.as_bytes(), filling.first_value(), TemplateFault::Fixed);
                    return Err(template(&self.name, &format!("header {field}"), source));
                }
                None => {
                    Headers::new().append(field, filling.sample()).map_err(invalid)?;
                    self.filled.push((field.clone(), filling));
                }
            }
        }
        if let Some(host) = self.fields.get("host") {
            self.host = host.to_owned();
        }
        self.fields.remove("host");
        self.closes = asks_to_close(&self.fields);
        Ok(())
    }

    /// Takes the request's own cookies out of its fields, so that they stand in one field with those of its user (RFC 6265bis
    /// section 5.8.1).
    fn keep_cookies(&mut self, common: &Common<'_>) {
        let mut site = CookieSite::new(common.is_https, &self.host, common.limits.script.cookies);
        site.own = self.fields.get_all("cookie").map(Filling::plain).collect();
        self.fields.remove("cookie");
        let is_cookie = |(name, _): &(String, Filling)| name.eq_ignore_ascii_case("cookie");
        let (own, filled): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.filled).into_iter().partition(is_cookie);
        site.own.extend(own.into_iter().map(|(_, own)| own));
        (self.filled, self.cookies) = (filled, Some(site));
    }

    /// Encodes what does not change, and finds out what cannot be sent.
    fn encode(&mut self) -> Result<(), EncodeError> {
        let sample = self.target.sample();
        let target = std::str::from_utf8(&sample).map_err(|_| EncodeError::Target)?;
        let mut head = Vec::new();
        encode::request_head(&mut head, &self.method, target, &self.host, &self.fields, Framing::None)?;
        let start = self.method.as_str().len() + 1 + target.len();
        // Without the empty line, before which fields and a length may come.
        self.middle = head[start..head.len() - 2].to_vec();
        let filled: usize =
            self.filled.iter().map(|(name, value)| name.len() + 4 + value.sample().len()).sum();
        let body = self.body.sample();
        self.fixed_body = self.body.fixed().map(Bytes::from);
        let cookies: usize = self.own_cookies().map(|own| own.sample().len()).sum();
        self.bytes = head.len() + filled + cookies + body.len();
        let is_fixed = self.target.fixed().is_some() && self.fixed_body.is_some() && self.filled.is_empty();
        if is_fixed && self.cookies.is_none() {
            let framing = if body.is_empty() { Framing::None } else { Framing::Length(body.len() as u64) };
            let mut whole = Vec::new();
            encode::request_head(&mut whole, &self.method, target, &self.host, &self.fields, framing)?;
            whole.extend_from_slice(&body);
            self.bytes = whole.len();
            self.whole = Some(whole);
        }
        Ok(())
    }

    fn fillings(&self) -> impl Iterator<Item = &Filling> {
        let filled = self.filled.iter().map(|(_, value)| value);
        [&self.target, &self.body].into_iter().chain(filled).chain(self.own_cookies())
    }

    fn own_cookies(&self) -> impl Iterator<Item = &Filling> {
        self.cookies.iter().flat_map(|site| &site.own)
    }
}

/// Fields that say where a message goes or ends: the same for each request.
const FRAMING: [&str; 6] = ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te"];
