//! The same request in each version of HTTP, which has to get the same response.

use super::Served;
use super::h2::H2;

/// What both versions gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Without those of the connection and the date, in lower case.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Reply {
    /// The first value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find_map(|(key, value)| (key == name).then_some(&**value))
    }

    /// All values of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(key, _)| key == name).map(|(_, value)| &**value).collect()
    }
}

impl Served {
    /// Sends a request by each version of HTTP, on connections of their own. A field `host` names the authority.
    #[track_caller]
    pub(crate) fn alike(&self, request: &str, fields: &[(&str, &str)], body: impl AsRef<[u8]>) -> Reply {
        let (method, path) = request.split_once(' ').expect("method and path");
        let body = body.as_ref();
        let one = self.by_http1(method, path, fields, body);
        let two = self.by_http2(method, path, fields, body);
        assert_eq!(one, two, "{request} by HTTP/1 and by HTTP/2");
        one
    }

    /// `GET` without fields and body.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Reply {
        self.alike(&format!("GET {path}"), &[], "")
    }

    fn by_http1(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut request = format!("{method} {path} HTTP/1.1\r\n");
        if fields.iter().all(|(name, _)| *name != "host") {
            request.push_str("host: x\r\n");
        }
        fields.iter().for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
        if !body.is_empty() {
            request.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        let mut peer = self.connect();
        peer.send([request.as_bytes(), body].concat());
        let answer = peer.answer(method == "HEAD");
        let lines = answer.head.split("\r\n").skip(1);
        let fields = lines.filter_map(|line| line.split_once(": "));
        let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        Reply {
            status: answer.status,
            fields: end_to_end(fields),
            text: String::from_utf8_lossy(&answer.body).into(),
        }
    }

    fn by_http2(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut peer = H2::connect(self);
        let length = (!body.is_empty()).then_some(body.len() as u64);
        let id = peer.open(method, path, fields, length, body.is_empty());
        if !body.is_empty() {
            peer.body(id, body, true);
        }
        let whole = peer.answer(id);
        let fields = whole.head.headers().iter();
        let fields =
            fields.map(|(name, value)| (name.to_ascii_lowercase(), String::from_utf8_lossy(value).into()));
        let text = String::from_utf8_lossy(&whole.body).into();
        Reply { status: whole.status(), fields: end_to_end(fields), text }
    }
}

/// In an order of their own, without what one version of HTTP needs.
fn end_to_end(fields: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let framing = ["connection", "content-length", "date", "transfer-encoding"];
    let mut fields: Vec<_> = fields.filter(|(name, _)| !framing.contains(&&**name)).collect();
    // A stable sort: the order of equal names has a meaning.
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields
}
