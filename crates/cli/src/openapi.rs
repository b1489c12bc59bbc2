//! `--openapi`: what a document of OpenAPI describes, as requests; and which of it is not sent, and why.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anywire::http::Method;
use anywire::load::script::{
    LeftOutOperation, Omission, OpenApi, OpenApiError, OpenApiOptions, Script, Text, read_openapi, split_url,
};
use clap::Args;

use crate::failure::{Code, Failure};
use crate::requests::{method, of_file, open, unreadable};
use crate::values::Field;

/// A document of OpenAPI, and what is added to it.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is sent")]
pub(crate) struct Described {
    /// A document of OpenAPI: a request for each of its operations of GET, in turn; give the URL that its paths stand below
    ///
    /// It is JSON, or YAML if this program was built with the feature yaml. Values are those that the document gives, else the
    /// simplest that its schemas allow. What cannot be sent is named on stderr with the reason.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "data", "urls", "har", "script"])]
    openapi: Option<String>,
    /// Methods whose operations of --openapi are sent: others than GET may change what they are sent to [default: GET]
    #[arg(long, value_name = "METHOD,..", requires = "openapi", value_delimiter = ',', value_parser = method)]
    openapi_methods: Vec<Method>,
    /// The value of a parameter of --openapi, perhaps with {{...}}; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "openapi", value_parser = pair)]
    openapi_value: Vec<(String, String)>,
    /// How often an operation of --openapi is sent, compared with the others: 'GET /items=8', or by its operationId; may be repeated
    #[arg(long, value_name = "OPERATION=N", requires = "openapi", value_parser = weight)]
    openapi_weight: Vec<(String, u32)>,
}

impl Described {
    /// The file that was named.
    pub(crate) fn file(&self) -> Option<&str> {
        self.openapi.as_deref()
    }

    /// The requests of the document for this URL, and what is to be said of it.
    pub(crate) fn read(
        &self,
        url: &str,
        fields: &[Field],
        has_templates: bool,
    ) -> Result<(Script, Option<String>), Failure> {
        let name = self.openapi.as_deref().unwrap_or_default();
        let (_, target) = split_url(url);
        if target.contains('?') {
            let failure =
                Failure::new(Code::Usage, format!("--openapi with the URL {url:?}: a query stands in it"));
            return Err(failure
                .help("leave the query out; a parameter of all operations is --openapi-value NAME=VALUE"));
        }
        let text =
            |value: &str| if has_templates { Text::template(value.to_owned()) } else { Text::from(value) };
        let options = OpenApiOptions {
            methods: if self.openapi_methods.is_empty() {
                vec![Method::GET]
            } else {
                self.openapi_methods.clone()
            },
            base_path: target.trim_end_matches('/').to_owned(),
            values: self.openapi_value.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            weights: self.openapi_weight.clone(),
            fields: fields.iter().map(|field| field.name.clone()).collect(),
            ..OpenApiOptions::default()
        };
        let read = read_openapi(open(name, "the document")?, &options);
        let OpenApi { script, left_out, server_path } = read.map_err(|error| match error {
            OpenApiError::Read(cause) => unreadable(name, "the document", &cause),
            error => of_file(name, &error),
        })?;
        let mut said = String::new();
        if let Some(path) = server_path.filter(|_| options.base_path.is_empty()) {
            let base = url.trim_end_matches('/');
            let _ = writeln!(
                said,
                "the paths of {name} are below {path} on its own server; if they are here, give the URL {base}{path}"
            );
        }
        if !left_out.is_empty() {
            let all = script.requests() + left_out.len();
            let _ = write!(
                said,
                "{} of {all} operations of {name} are not sent{}",
                left_out.len(),
                listed(&left_out)
            );
        }
        Ok((script, Some(said.trim_end().to_owned()).filter(|said| !said.is_empty())))
    }
}

/// Each operation that is left out with its reason; those of other methods together.
fn listed(left_out: &[LeftOutOperation]) -> String {
    let of_methods = |one: &&LeftOutOperation| matches!(one.why, Omission::Method { .. });
    let mut lines = String::new();
    let names: Vec<&str> = left_out.iter().filter(of_methods).map(|one| one.operation.as_str()).collect();
    if !names.is_empty() {
        let methods = left_out.iter().filter_map(|one| match &one.why {
            Omission::Method { method } => Some(method.as_str()),
            _ => None,
        });
        let methods: Vec<&str> = methods.collect::<BTreeSet<_>>().into_iter().collect();
        // Writing to a String cannot fail.
        let _ = write!(
            lines,
            "\n  {}: of methods that may change something; if they may, add --openapi-methods {}",
            names.join(", "),
            methods.join(",")
        );
    }
    for one in left_out.iter().filter(|one| !of_methods(one)) {
        let _ = write!(lines, "\n  {one}");
    }
    lines
}

/// `NAME=VALUE`
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("there is no name before a =; write it as NAME=VALUE, such as id=42".to_owned()),
    }
}

/// `OPERATION=N`; a path may hold a `=`.
fn weight(text: &str) -> Result<(String, u32), String> {
    let pair = text.rsplit_once('=').and_then(|(name, weight)| Some((name.to_owned(), weight.parse().ok()?)));
    pair.ok_or_else(|| "it is no operation with a weight; write one such as 'GET /items=8'".to_owned())
}
