//! The file of a script (TOML, or JSON of the same shape): requests, sequences and data, as a person writes them.
//!
//! ```toml
//! [data.users]
//! file = "users.csv"
//!
//! [[request]]
//! weight = 8
//! url = "/items/{{int 1 500}}"
//!
//! [[sequence]]
//! weight = 2
//! cookies = true
//! set = { id = "{{uuid}}" }
//!
//! [[sequence.request]]
//! name = "log in"
//! method = "POST"
//! url = "/login"
//! header = { content-type = "application/json" }
//! body = '{"user": "{{users.name | json}}"}'
//! keep = { token = { json = "/token" } }
//! think = "200ms"
//!
//! [[sequence.request]]
//! url = "/orders/{{id}}"
//! header = { authorization = "Bearer {{token}}" }
//! expect = { status = 200, contains = "ok" }
//! ```

use std::collections::BTreeMap;
use std::io;

use anywire_http::{Method, StatusCode};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::set::{Keep, Origin, Script, Sequence, Step, Text, Variable};
use super::table::{Order, Table};
use super::target::{Origins, TargetError};
use crate::expect::{Expect, ExpectedField, Sha256};
use crate::text;

/// What the file of a script says.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptFile {
    /// What is sent.
    pub script: Script,
    /// Scheme and host of the URLs; `None` if all of them are paths.
    pub origin: Option<String>,
}

/// How the file of a script is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

/// The file of a script that cannot be used (the caller's fault).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptFileError {
    /// It is not written as its syntax has it, or has a key that means nothing.
    #[error("line {line}, column {column}: {found}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
        /// What is wrong there.
        found: String,
    },
    /// A file that it names cannot be read.
    #[error("the file {name:?}, which it names, cannot be read")]
    File {
        /// The name of the file.
        name: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A URL of it is none, or of another host than those before it.
    #[error("{request}")]
    Url {
        /// The request: its name, or its number.
        request: String,
        /// What is wrong.
        #[source]
        source: TargetError,
    },
    /// A value is none that can stand there.
    #[error("{request}: {found}")]
    Value {
        /// The request: its name, or its number.
        request: String,
        /// What is wrong.
        found: String,
    },
}

/// Reads the file of a script; `open` gives the contents of a file that it names.
///
/// ```
/// use anywire_load::script::{Syntax, read_file};
///
/// let text = "[[request]]\nurl = \"/items/{{n}}\"\n";
/// let file = read_file(text, Syntax::Toml, |name| std::fs::read(name))?;
/// assert_eq!(file.script.requests(), 1);
/// # Ok::<(), anywire_load::script::ScriptFileError>(())
/// ```
///
/// # Errors
///
/// It is not written as a script is, or a file that it names cannot be read. Templates are looked at when the run starts.
pub fn read_file(
    text: &str,
    syntax: Syntax,
    open: impl FnMut(&str) -> io::Result<Vec<u8>>,
) -> Result<ScriptFile, ScriptFileError> {
    let file: File = parse(text, syntax)?;
    let mut reader = Reader { open, origins: Origins::default(), number: 0 };
    let mut tables = Vec::with_capacity(file.data.len());
    for (name, Data { file, order }) in file.data {
        let csv = String::from_utf8(reader.file(&file)?).map_err(|_| ScriptFileError::Value {
            request: format!("the data {name:?}"),
            found: format!("the file {file:?} is no text in UTF-8"),
        })?;
        tables.push(Table { name, csv, order });
    }
    let mut sequences = Vec::with_capacity(file.request.len() + file.sequence.len());
    for WeightedRequest { weight, request } in file.request {
        sequences.push(Sequence { weight, ..Sequence::one(reader.step(request)?) });
    }
    for SequenceTable { name, weight, cookies, set, request } in file.sequence {
        if request.iter().any(|request| request.weight.is_some()) {
            let found =
                "a request of a sequence has a weight; write it beside the sequence's name".to_owned();
            return Err(ScriptFileError::Value { request: format!("the sequence {name:?}"), found });
        }
        let steps = request.into_iter().map(|request| reader.step(request)).collect::<Result<_, _>>()?;
        let variables =
            set.into_iter().map(|(name, text)| Variable { name, text: Text::template(text) }).collect();
        sequences.push(Sequence { name, weight, cookies, variables, steps });
    }
    Ok(ScriptFile { script: Script { sequences, tables, order: file.order }, origin: reader.origins.origin })
}

fn parse<T: DeserializeOwned>(text: &str, syntax: Syntax) -> Result<T, ScriptFileError> {
    match syntax {
        Syntax::Toml => toml::from_str(text).map_err(|error| {
            let before = &text[..error.span().map_or(0, |span| span.start).min(text.len())];
            let line_begins = before.rfind('\n').map_or(0, |newline| newline + 1);
            ScriptFileError::Syntax {
                line: before.matches('\n').count() + 1,
                column: before[line_begins..].chars().count() + 1,
                found: error.message().to_owned(),
            }
        }),
        Syntax::Json => serde_json::from_str(text).map_err(|error| {
            let found = error.to_string();
            // Its place stands apart.
            let found = found.rsplit_once(" at line ").map_or(found.as_str(), |(found, _)| found).to_owned();
            ScriptFileError::Syntax { line: error.line(), column: error.column(), found }
        }),
    }
}

struct Reader<F> {
    open: F,
    origins: Origins,
    /// Requests so far.
    number: usize,
}

impl<F: FnMut(&str) -> io::Result<Vec<u8>>> Reader<F> {
    fn file(&mut self, name: &str) -> Result<Vec<u8>, ScriptFileError> {
        (self.open)(name).map_err(|source| ScriptFileError::File { name: name.to_owned(), source })
    }

    fn step(&mut self, table: RequestTable) -> Result<Step, ScriptFileError> {
        self.number += 1;
        let request = match &table.name {
            Some(name) => format!("the request {name:?}"),
            None => format!("request {}", self.number),
        };
        let wrong = |found: String| ScriptFileError::Value { request: request.clone(), found };
        let is_template = !table.plain;
        let text = |text: String| if is_template { Text::template(text) } else { Text::from(text) };
        let target = self.origins.target(&table.url, is_template);
        let target = target.map_err(|source| ScriptFileError::Url { request: request.clone(), source })?;
        let body = match (table.body, table.body_file) {
            (Some(_), Some(_)) => {
                return Err(wrong("it has a body and a body-file; write one of them".to_owned()));
            }
            (Some(body), None) => text(body),
            (None, Some(name)) => {
                let bytes = Bytes::from(self.file(&name)?);
                if is_template { Text::template(bytes) } else { Text::plain(bytes) }
            }
            (None, None) => Text::default(),
        };
        let usual = if body.is_empty() { Method::GET } else { Method::POST };
        let method = match table.method {
            None => usual,
            Some(method) => method
                .parse()
                .map_err(|_| wrong(format!("{method:?} is no method; write one such as POST")))?,
        };
        let think = match table.think {
            None => std::time::Duration::ZERO,
            Some(time) => {
                text::duration(&time).map_err(|found| wrong(format!("think = {time:?}: {found}")))?
            }
        };
        Ok(Step {
            name: table.name.unwrap_or_default(),
            method,
            target,
            headers: table.header.into_iter().map(|(name, value)| (name, text(value))).collect(),
            body,
            think,
            expect: table.expect.map(|expect| expect.expect()).transpose().map_err(wrong)?,
            keep: table
                .keep
                .into_iter()
                .map(|(name, keep)| keep.keep(name))
                .collect::<Result<_, _>>()
                .map_err(wrong)?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "random")]
    order: Order,
    #[serde(default)]
    data: BTreeMap<String, Data>,
    #[serde(default)]
    request: Vec<WeightedRequest>,
    #[serde(default)]
    sequence: Vec<SequenceTable>,
}

fn random() -> Order {
    Order::Random
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    file: String,
    #[serde(default)]
    order: Order,
}

/// A request alone.
struct WeightedRequest {
    weight: u32,
    request: RequestTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceTable {
    #[serde(default)]
    name: String,
    #[serde(default = "one")]
    weight: u32,
    #[serde(default)]
    cookies: bool,
    #[serde(default)]
    set: BTreeMap<String, String>,
    request: Vec<RequestTable>,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RequestTable {
    name: Option<String>,
    #[serde(default)]
    weight: Option<u32>,
    method: Option<String>,
    url: String,
    #[serde(default)]
    header: BTreeMap<String, String>,
    body: Option<String>,
    body_file: Option<String>,
    /// `{{` means nothing in it.
    #[serde(default)]
    plain: bool,
    think: Option<String>,
    expect: Option<ExpectTable>,
    #[serde(default)]
    keep: BTreeMap<String, KeepTable>,
}

/// With the weight taken out: `flatten` would lose the places of errors.
impl<'de> Deserialize<'de> for WeightedRequest {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let request = RequestTable::deserialize(from)?;
        Ok(Self { weight: request.weight.unwrap_or(1), request })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectTable {
    status: Option<u16>,
    #[serde(default)]
    header: BTreeMap<String, Field>,
    contains: Option<Texts>,
    bytes: Option<u64>,
    sha256: Option<String>,
}

/// The value of a field that must be there, or `true` for any.
#[derive(Deserialize)]
#[serde(untagged)]
enum Field {
    Any(bool),
    Value(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

impl ExpectTable {
    fn expect(self) -> Result<Expect, String> {
        let status = self.status.map(StatusCode::from_u16).transpose();
        let headers = self.header.into_iter().map(|(name, value)| match value {
            Field::Any(true) => name.parse::<ExpectedField>(),
            Field::Any(false) => {
                Err(format!("the header {name} cannot be expected to be absent; write true, or its value"))
            }
            Field::Value(value) => format!("{name}: {value}").parse(),
        });
        Ok(Expect {
            status: status
                .map_err(|_| "the expected status is none; write one from 100 to 999".to_owned())?,
            body_bytes: self.bytes,
            headers: headers.collect::<Result<_, _>>()?,
            contains: match self.contains {
                None => Vec::new(),
                Some(Texts::One(text)) => vec![text],
                Some(Texts::Several(texts)) => texts,
            },
            sha256: self
                .sha256
                .map(|text| text.parse::<Sha256>())
                .transpose()
                .map_err(|error| error.to_string())?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeepTable {
    json: Option<String>,
    header: Option<String>,
    regex: Option<String>,
}

impl KeepTable {
    fn keep(self, variable: String) -> Result<Keep, String> {
        let from = match (self.json, self.header, self.regex) {
            (Some(pointer), None, None) => Origin::Json(pointer),
            (None, Some(name), regex) => Origin::Header { name, regex },
            (None, None, Some(regex)) => Origin::Regex(regex),
            _ => {
                return Err(format!(
                    "keep.{variable} names no one place; write json, header, regex, or header with regex"
                ));
            }
        };
        Ok(Keep { variable, from })
    }
}

#[cfg(test)]
mod tests {
    use anywire_advice::Chain;

    use super::*;

    fn open(name: &str) -> io::Result<Vec<u8>> {
        match name {
            "users.csv" => Ok(b"name\nann\n".to_vec()),
            "bytes" => Ok(vec![0xff]),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn read(text: &str) -> ScriptFile {
        read_file(text, Syntax::Toml, open).unwrap_or_else(|error| panic!("{}", Chain(&error)))
    }

    fn fault(text: &str) -> String {
        Chain(&read_file(text, Syntax::Toml, open).unwrap_err()).to_string()
    }

    const ALL: &str = r#"
        [data.users]
        file = "users.csv"
        order = "random"

        [[request]]
        weight = 8
        url = "http://h/items/{{n}}"

        [[sequence]]
        name = "order"
        weight = 2
        cookies = true
        set = { id = "{{uuid}}" }

        [[sequence.request]]
        name = "log in"
        method = "PUT"
        url = "/login"
        header = { content-type = "application/json" }
        body = '{"user": "{{users.name | json}}"}'
        expect = { status = 201, header = { etag = true, x-a = "1" }, contains = ["a", "b"], bytes = 7 }
        keep = { token = { json = "/token" }, sid = { header = "set-cookie", regex = "sid=([^;]+)" } }
        think = "200ms"

        [[sequence.request]]
        url = "/raw"
        plain = true
        body-file = "bytes"
    "#;

    #[test]
    fn all_that_a_file_may_hold_is_read() {
        let ScriptFile { script, origin } = read(ALL);
        assert_eq!(origin.as_deref(), Some("http://h"));
        assert_eq!((script.tables[0].csv.as_str(), script.tables[0].order), ("name\nann\n", Order::Random));
        assert_eq!((script.order, script.sequences.len(), script.requests()), (Order::Random, 2, 3));
        assert_eq!((script.sequences[0].weight, &script.sequences[0].steps[0].method), (8, &Method::GET));
        let order = &script.sequences[1];
        assert_eq!((order.weight, order.cookies, order.variables[0].name.as_str()), (2, true, "id"));
        assert!(!script.sequences[0].cookies);
        let [login, raw] = &order.steps[..] else { panic!("{order:?}") };
        assert_eq!(
            (login.name.as_str(), &login.method, login.think.as_millis()),
            ("log in", &Method::PUT, 200)
        );
        let expect = login.expect.as_ref().unwrap();
        assert_eq!(
            (expect.status.unwrap().as_u16(), expect.body_bytes, expect.contains.len()),
            (201, Some(7), 2)
        );
        assert_eq!(expect.headers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["etag", "x-a: 1"]);
        assert_eq!(login.keep.len(), 2);
        assert_eq!(
            (&raw.method, raw.body.as_bytes(), raw.body.is_template()),
            (&Method::POST, &[0xff][..], false)
        );
    }

    #[test]
    fn a_script_is_data_that_goes_through_json() {
        let script = read(ALL).script;
        let json = serde_json::to_string(&script).unwrap();
        assert_eq!(serde_json::from_str::<Script>(&json).unwrap(), script);
    }

    #[test]
    fn json_of_the_same_shape_is_read_too() {
        let text = "{\"request\": [{\"url\": \"/a\"}]}";
        assert_eq!(read_file(text, Syntax::Json, open).unwrap().script.requests(), 1);
        let said = Chain(&read_file("{\n \"requests\": []}", Syntax::Json, open).unwrap_err()).to_string();
        assert!(said.starts_with("line 2, column ") && said.contains("unknown field `requests`"), "{said}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, found) in [
            ("[[request]]\nurl = \"/a\"\nmetod = \"GET\"\n", "line 3, column 1: unknown field `metod`"),
            ("[[request]]\nurl = 7\n", "line 2, column 7"),
            ("[[request\n", "line 1"),
            ("[[request]]\nname = \"x\"\n", "missing field `url`"),
            (
                "[[request]]\nurl = \"/\"\nbody-file = \"gone\"\n",
                "the file \"gone\", which it names, cannot be read",
            ),
            ("[data.d]\nfile = \"bytes\"\n", "the file \"bytes\" is no text in UTF-8"),
            ("[[request]]\nurl = \"/\"\nmethod = \"a b\"\n", "request 1: \"a b\" is no method"),
            ("[[request]]\nurl = \"/\"\nthink = \"soon\"\n", "think = \"soon\""),
            (
                "[[request]]\nname = \"buy\"\nurl = \"/\"\nexpect = { status = 1 }\n",
                "the request \"buy\": the expected status",
            ),
            ("[[request]]\nurl = \"/\"\nkeep = { a = {} }\n", "keep.a names no one place"),
            ("[[request]]\nurl = \"/\"\nexpect = { sha256 = \"1\" }\n", "sha256sum"),
            (
                "[[request]]\nurl = \"http://a/\"\n[[request]]\nurl = \"http://b/\"\n",
                "request 2: \"http://b/\" is not of http://a",
            ),
            ("[[request]]\nurl = \"/\"\nbody = \"a\"\nbody-file = \"bytes\"\n", "a body and a body-file"),
        ] {
            let said = fault(text);
            assert!(said.contains(found), "{text}\n{said}");
        }
    }
}
