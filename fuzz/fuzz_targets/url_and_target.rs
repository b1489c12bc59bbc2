//! The parsers of URLs and of request targets panic on no text. An accepted URL is in normal form: it parses to itself,
//! its parts make up the whole, and a request head can be written from it.

#![no_main]

use anywire_http::h1::{Framing, encode};
use anywire_http::url::{Url, redact};
use anywire_http::{Headers, Method, RequestHead};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = redact(text);
    if let Ok(url) = Url::parse(text) {
        check_url(&url);
        if let Some(joined) = url.join(text) {
            let head =
                RequestHead::new(Method::GET, joined.path_and_query()).expect("a joined URL has a target");
            assert_eq!(head.path_and_query(), joined.path_and_query());
        }
    }
    for method in [Method::GET, Method::OPTIONS, Method::CONNECT] {
        let Ok(head) = RequestHead::new(method.clone(), text) else { continue };
        let again = RequestHead::new(method, &head.target()).expect("what parsed is a target");
        let parts = |head: &RequestHead| {
            let part = |part: Option<&str>| part.map(str::to_owned);
            (
                part(head.scheme()),
                part(head.authority()),
                head.path_and_query().to_owned(),
                head.target().into_owned(),
            )
        };
        assert_eq!(parts(&again), parts(&head));
        let query = head.query().map_or(String::new(), |query| format!("?{query}"));
        assert_eq!(format!("{}{query}", head.path()), head.path_and_query());
    }
});

fn check_url(url: &Url) {
    assert_eq!(Url::parse(url.as_str()).as_ref(), Ok(url));
    assert_eq!(url.to_string(), [url.origin(), url.path_and_query()].concat());
    assert_eq!(url.origin(), format!("{}://{}", url.scheme(), url.authority()));
    assert!(url.path_and_query().starts_with('/') && !url.host().is_empty());
    let default = if url.is_https() { 443 } else { 80 };
    assert!(url.authority().ends_with(&format!(":{}", url.port())) || url.port() == default);
    let (host, target) = (url.authority(), url.path_and_query());
    let written =
        encode::request_head(&mut Vec::new(), &Method::GET, target, host, &Headers::new(), Framing::None);
    assert_eq!(written, Ok(()));
    assert_eq!(redact(url.as_str()), url.as_str());
}
