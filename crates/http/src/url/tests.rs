//! URLs that are read, and those that are refused.

use proptest::prelude::*;

use super::*;

fn parts(url: &str) -> (String, String) {
    let url = Url::parse(url).expect("a good URL");
    (url.origin().to_owned(), url.path_and_query().to_owned())
}

#[test]
fn normal_and_odd_urls_give_origin_and_path() {
    let both = |origin: &str, path: &str| (origin.to_owned(), path.to_owned());
    assert_eq!(parts("http://a.example:8080/x?y=1"), both("http://a.example:8080", "/x?y=1"));
    assert_eq!(parts("http://a.example"), both("http://a.example", "/"));
    assert_eq!(parts("http://a.example?y"), both("http://a.example", "/?y"));
    assert_eq!(parts("HTTP://A.Example:80/x/../y#z"), both("http://a.example", "/y"));
    assert_eq!(parts("http://[::1]:81/"), both("http://[::1]:81", "/"));
    assert_eq!(parts("http://a.example:80/"), both("http://a.example", "/"));
    assert_eq!(parts("http://h/x/%2e%2E/y"), both("http://h", "/y"));
    assert_eq!(parts("http://127.1/a b"), both("http://127.0.0.1", "/a%20b"));
    assert_eq!(parts("https://a.example"), both("https://a.example", "/"));
    assert_eq!(parts("HTTPS://A.Example:443/x"), both("https://a.example", "/x"));
    assert_eq!(parts("https://a.example:443/x"), both("https://a.example", "/x"));
    assert_eq!(parts("https://a.example:80/x"), both("https://a.example:80", "/x"));
    assert_eq!(parts("http://a.example:443/x"), both("http://a.example:443", "/x"));
}

#[test]
fn authorities_split_into_host_and_port() {
    let split = |url: &str| {
        let url = Url::parse(url).expect("a good URL");
        (url.host().to_owned(), url.port(), url.authority().to_owned())
    };
    let parts = |host: &str, port, authority: &str| (host.to_owned(), port, authority.to_owned());
    assert_eq!(split("http://[::1]:81"), parts("::1", 81, "[::1]:81"));
    assert_eq!(split("http://[::1]"), parts("::1", 80, "[::1]"));
    assert_eq!(split("http://a.example"), parts("a.example", 80, "a.example"));
    assert_eq!(split("http://10.0.0.1:8080"), parts("10.0.0.1", 8080, "10.0.0.1:8080"));
    assert_eq!(split("https://[::1]"), parts("::1", 443, "[::1]"));
    assert_eq!(split("https://a.example"), parts("a.example", 443, "a.example"));
    assert_eq!(split("https://a.example:80"), parts("a.example", 80, "a.example:80"));
}

#[test]
fn a_zone_is_of_the_origin_and_not_of_the_authority() {
    for text in [
        "http://[fe80::1%25eth0]:81/a?b",
        "http://[fe80::1%eth0]:81/a?b",
        "HTTP://[FE80:0::1%25eth0]:81/x/../a?b#c",
    ] {
        let url = Url::parse(text).expect("a good URL");
        assert_eq!(url.as_str(), "http://[fe80::1%25eth0]:81/a?b");
        assert_eq!(Url::parse(url.as_str()).as_ref(), Ok(&url));
        assert_eq!((url.scheme(), url.origin()), ("http", "http://[fe80::1%25eth0]:81"));
        assert_eq!((url.authority(), url.host(), url.port()), ("[fe80::1]:81", "fe80::1", 81));
        assert_eq!((url.host_with_zone(), url.path_and_query()), ("fe80::1%25eth0", "/a?b"));
        let mut joined = url.join("/c").expect("a path");
        joined.push_query("d=e");
        assert_eq!(joined.to_string(), "http://[fe80::1%25eth0]:81/a/c?d=e");
        assert_eq!((joined.authority(), joined.is_https()), ("[fe80::1]:81", false));
    }
    let plain = |text| Url::parse(text).expect("a good URL");
    assert!(plain("https://[fe80::1%2]").is_https());
    assert_eq!(plain("https://[fe80::1%2]:443").authority(), "[fe80::1]");
    // A number may look like an escape.
    assert_eq!(plain("http://[fe80::1%25]").host_with_zone(), "fe80::1%2525");
    assert_eq!(plain("http://[fe80::1%2525]").host_with_zone(), "fe80::1%2525");
    for other in ["http://[::1]", "http://h/[%25a]", "http://h?[::1%25a]"] {
        let url = plain(other);
        assert_eq!(url.host_with_zone(), url.host());
    }
    for wrong in ["http://[fe80::1%]/", "http://[fe80::1%25a%20b]/", "http://[fe80::1%a:b]/"] {
        assert_eq!(Url::parse(wrong), Err(UrlError::Zone), "{wrong}");
    }
    assert!(Url::parse("http://h%25eth0/").is_err() && Url::parse("http://[h%25eth0]/").is_err());
    assert_eq!(Url::parse("http://u:p@[fe80::1%25eth0]/"), Err(UrlError::UserInfo));
}

#[test]
fn the_scheme_stays_with_what_is_joined() {
    let schemes = ["http", "https"].map(|scheme| {
        let url = Url::parse(&format!("{scheme}://h/base")).expect("a good URL");
        let joined = url.join("/x").expect("a path");
        assert_eq!((joined.scheme(), joined.is_https()), (scheme, scheme == "https"));
        joined.to_string()
    });
    assert_eq!(schemes, ["http://h/base/x", "https://h/base/x"]);
}

#[test]
fn the_query_grows_at_its_end() {
    let grown = |url: &str| {
        let mut url = Url::parse(url).expect("a good URL");
        url.push_query("b=2");
        url.push_query("");
        url.path_and_query().to_owned()
    };
    assert_eq!(grown("http://h/x"), "/x?b=2");
    assert_eq!(grown("http://h/x?"), "/x?b=2");
    assert_eq!(grown("http://h/x?a=1"), "/x?a=1&b=2");
}

#[test]
fn a_path_is_joined_to_the_path_of_its_base() {
    let base = Url::parse("http://h:81/base/?a=1").expect("a good URL");
    let joined = |path| base.join(path).map(|url| url.to_string());
    assert_eq!(joined("/x?b=2").as_deref(), Some("http://h:81/base/x?b=2"));
    for wrong in ["x", "", "http://other/", "/x y", "/x\n"] {
        assert_eq!(joined(wrong), None, "{wrong:?}");
    }
}

#[test]
fn hosts_beyond_ascii_become_what_dns_knows() {
    for (url, host) in [
        ("http://bücher.example/", "xn--bcher-kva.example"),
        ("http://B\u{dc}CHER.example/", "xn--bcher-kva.example"),
        ("http://faß.example/", "xn--fa-hia.example"),
        ("http://例え.テスト/", "xn--r8jz45g.xn--zckzah"),
        ("http://ｅxample\u{3002}com/", "example.com"),
    ] {
        assert_eq!(Url::parse(url).expect(url).host(), host);
    }
    // Right to left and left to right in one label (RFC 5893).
    assert!(Url::parse("http://\u{5d0}a.example/").is_err());
}

#[test]
fn bad_urls_name_what_is_wrong() {
    let fault = |url: &str| Url::parse(url).expect_err(url);
    assert!(matches!(fault("/path"), UrlError::Syntax(_)));
    assert!(matches!(fault("http://h:99999/"), UrlError::Syntax(_)));
    assert!(matches!(fault("http://xn--a/"), UrlError::Syntax(_)));
    assert_eq!(fault("ftp://h/"), UrlError::Scheme);
    assert_eq!(fault("https://user@h/"), UrlError::UserInfo);
    assert_eq!(fault("http://user:secret@h/"), UrlError::UserInfo);
    assert_eq!(fault("http://user@h/"), UrlError::UserInfo);
    assert_eq!(fault("http://:secret@h/"), UrlError::UserInfo);
    assert_eq!(fault("http://a\"b/"), UrlError::Host);
}

#[test]
fn no_password_is_shown() {
    for url in ["http://user:se@cret@h/@", "ftp://user:se@cret@h/@", "http://user:se@cret@h:x/@"] {
        let shown = redact(url);
        assert!(!shown.contains("user") && !shown.contains("cret"), "{shown}");
        assert!(shown.contains("://...@h") && shown.contains("/@"), "{shown}");
    }
    for url in ["http://h/@", "http://h\\@", "http://h?@", "http://h#@"] {
        assert_eq!(redact(url), url);
    }
}

proptest! {
    #[test]
    fn the_short_way_agrees_with_the_general_one(
        scheme in prop_oneof![Just("http"), Just("https")],
        host in prop_oneof!["[a-z0-9._-]{1,12}", "([0-9]{1,3}[.]){3}[0-9]{1,3}", "[a-z]{1,3}[.]?xn--[a-z]{1,3}", "[0-9x.]{1,9}"],
        port in prop_oneof![Just(String::new()), ":[0-9]{1,5}"],
        path in prop_oneof![Just(String::new()), "/[a-z0-9./?%&=+~:@!$,;'|^-]{0,20}"],
    ) {
        let url = format!("{scheme}://{host}{port}{path}");
        if let Some(short) = Url::parse_normal(&url) {
            let general = Url::parse_general(&url).expect("what the short way takes is a URL");
            prop_assert_eq!(short, general);
        }
    }

    #[test]
    fn the_short_way_takes_addresses_and_names(
        host in prop_oneof![
            any::<std::net::Ipv4Addr>().prop_map(|address| address.to_string()),
            "[a-z]{1,5}([.][a-z][a-z0-9]{0,4}){0,3}",
        ],
        port in prop_oneof![Just(String::new()), (1_u16..).prop_map(|port| format!(":{port}"))],
    ) {
        let url = format!("http://{host}{port}/a?b=c");
        prop_assert!(Url::parse_normal(&url).is_some() || port == ":80", "{}", url);
    }
}
