//! A message as signatures see it, and what is signed of it: the signature base (RFC 9421 section 2.5).

use std::borrow::Cow;
use std::fmt::Write as _;

use http::{Method, StatusCode};
use url::form_urlencoded;

use super::structured::BASE64;
use super::{Component, SignatureError};
use crate::{Headers, RequestHead, Url};
use base64::Engine;

/// A message as signatures see it.
#[derive(Debug, Clone, Copy)]
pub struct Message<'m> {
    start: Start<'m>,
    headers: &'m Headers,
    request: Option<&'m Self>,
}

#[derive(Debug, Clone, Copy)]
enum Start<'m> {
    Request { method: &'m Method, scheme: &'m str, authority: &'m str, target: &'m str },
    Response(StatusCode),
}

impl<'m> Message<'m> {
    /// A request, as its client has it. A field `host` takes the place of the URL's.
    pub fn request(method: &'m Method, url: &'m Url, headers: &'m Headers) -> Self {
        let authority = headers.get("host").unwrap_or_else(|| url.authority());
        let start = Start::Request { method, scheme: url.scheme(), authority, target: url.path_and_query() };
        Self { start, headers, request: None }
    }

    /// A request, as its server has it: which scheme it came by, a server has to know.
    pub fn of_head(head: &'m RequestHead, scheme: &'m str) -> Self {
        let authority = head.authority().or_else(|| head.host()).unwrap_or_default();
        let target = head.path_and_query();
        let start = Start::Request { method: head.method(), scheme, authority, target };
        Self { start, headers: head.headers(), request: None }
    }

    /// A response.
    pub fn response(status: StatusCode, headers: &'m Headers) -> Self {
        Self { start: Start::Response(status), headers, request: None }
    }

    /// The request that this response is for, from which components with `;req` are taken.
    pub fn to(self, request: &'m Self) -> Self {
        Self { request: Some(request), ..self }
    }

    pub(super) fn headers(&self) -> &'m Headers {
        self.headers
    }

    /// What is signed: a line for each component, and the one of the parameters.
    pub(super) fn base(&self, components: &[Component], parameters: &str) -> Result<String, SignatureError> {
        let mut base = String::new();
        for component in components {
            let value =
                self.value(component).filter(|value| value.is_ascii() && !value.contains(['\r', '\n']));
            let value = value.ok_or_else(|| SignatureError::Missing { component: component.to_string() })?;
            // Writing to a String does not fail.
            let _ = writeln!(base, "{component}: {value}");
        }
        let _ = write!(base, "\"@signature-params\": {parameters}");
        Ok(base)
    }

    fn value(&self, component: &Component) -> Option<Cow<'m, str>> {
        if component.has("req") {
            let own = component.parameters.iter().filter(|(name, _)| name != "req").cloned().collect();
            return self.request?.value(&Component { name: component.name.clone(), parameters: own });
        }
        if !component.name.starts_with('@') {
            return self.field(&component.name, component.has("bs")).map(Cow::Owned);
        }
        let (method, scheme, authority, target) = match self.start {
            Start::Response(status) => {
                return (component.name == "@status").then(|| status.as_str().to_owned().into());
            }
            Start::Request { method, scheme, authority, target } => (method, scheme, authority, target),
        };
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, query),
            None => (target, ""),
        };
        Some(match &*component.name {
            "@method" => method.as_str().into(),
            "@scheme" => scheme.to_ascii_lowercase().into(),
            "@authority" => normal_authority(authority, scheme).into(),
            "@target-uri" => {
                let scheme = scheme.to_ascii_lowercase();
                let authority = normal_authority(authority, &scheme);
                format!("{scheme}://{authority}{}", if target == "*" { "" } else { target }).into()
            }
            "@request-target" => target.into(),
            "@path" if path.is_empty() => "/".into(),
            "@path" => path.into(),
            "@query" => format!("?{query}").into(),
            "@query-param" => query_param(query, component.query_name()?)?.into(),
            _ => return None,
        })
    }

    fn field(&self, name: &str, as_bytes: bool) -> Option<String> {
        let mut values = Vec::new();
        for value in self.headers.get_all(name) {
            values.push(match as_bytes {
                true => format!(":{}:", BASE64.encode(value)),
                false => str::from_utf8(value).ok()?.to_owned(),
            });
        }
        (!values.is_empty()).then(|| values.join(", "))
    }
}

/// In lower case, and without the port of the scheme (RFC 9421 section 2.2.3).
fn normal_authority(authority: &str, scheme: &str) -> String {
    let authority = authority.to_ascii_lowercase();
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    authority.strip_suffix(port).map(str::to_owned).unwrap_or(authority)
}

/// The one value of a parameter, encoded anew (RFC 9421 section 2.2.8).
fn query_param(query: &str, wanted: &str) -> Option<String> {
    let encode =
        |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    let mut values = form_urlencoded::parse(query.as_bytes())
        .filter(|(name, _)| encode(name) == wanted)
        .map(|(_, value)| encode(&value));
    let value = values.next()?;
    // Which of several is meant, nobody knows.
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(url: &str, component: &str) -> Option<String> {
        let (url, headers) = (Url::parse(url).expect(url), Headers::new());
        let component = Component::parse(component).expect(component);
        Message::request(&Method::GET, &url, &headers).value(&component).map(Cow::into_owned)
    }

    #[test]
    fn parts_of_the_target_are_as_the_rfc_has_them() {
        let url = "https://www.Example.com:443/path?param=value&foo=bar%20baz&x&a+b=c+d&twice=1&twice=2";
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(value(url, "@authority"), text("www.example.com"));
        assert_eq!(value(url, "@scheme"), text("https"));
        assert_eq!(value(url, "@path"), text("/path"));
        assert_eq!(value("http://h?a=1", "@target-uri"), text("http://h/?a=1"));
        assert_eq!(value("http://h", "@query"), text("?"));
        assert_eq!(value("http://h?a=1", "@query"), text("?a=1"));
        assert_eq!(value("http://h:8080/x", "@authority"), text("h:8080"));
        assert_eq!(value(url, "@query-param;name=\"foo\""), text("bar%20baz"));
        assert_eq!(value(url, "@query-param;name=\"x\""), text(""));
        assert_eq!(value(url, "@query-param;name=\"a%20b\""), text("c%20d"));
        assert_eq!(value(url, "@query-param;name=\"twice\""), None);
        assert_eq!(value(url, "@query-param;name=\"none\""), None);
        assert_eq!(value(url, "@status"), None);
        assert_eq!(value(url, "@method;req"), None);
    }

    #[test]
    fn fields_are_joined_or_taken_apart() {
        let mut headers = Headers::new();
        for (name, field) in [("a", "1"), ("A", " 2 , 3 "), ("b", "\u{e4}"), ("empty", "")] {
            headers.append(name, field).expect("a field");
        }
        let message = Message::response(StatusCode::OK, &headers);
        let base = |component: &str| message.base(&[Component::parse(component).expect(component)], "()");
        let tail = "\n\"@signature-params\": ()";
        assert_eq!(base("a").as_deref(), Ok(&*format!("\"a\": 1, 2 , 3{tail}")));
        assert_eq!(base("a;bs").as_deref(), Ok(&*format!("\"a\";bs: :MQ==:, :MiAsIDM=:{tail}")));
        assert_eq!(base("empty").as_deref(), Ok(&*format!("\"empty\": {tail}")));
        assert_eq!(base("@status").as_deref(), Ok(&*format!("\"@status\": 200{tail}")));
        assert!(base("b").is_err() && base("b;bs").is_ok() && base("none").is_err());
    }

    #[test]
    fn what_is_no_component_is_an_error() {
        for wrong in [
            "",
            "@",
            "@odd",
            "a b",
            "a;sf",
            "a;key=\"x\"",
            "a;tr",
            "a;bs=1",
            "a;name=\"x\"",
            "@query-param",
            "@method;bs",
            "@query-param;name=1",
            "@status;req",
            "a;",
            "a;b=\"",
        ] {
            assert!(Component::parse(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(Component::parse("Content-Type;REQ").ok(), None);
        assert_eq!(Component::parse("Content-Type;req").expect("one").to_string(), "\"content-type\";req");
    }
}
