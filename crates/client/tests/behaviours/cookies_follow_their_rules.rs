//! A jar takes, keeps, sends and throws out cookies as RFC 6265bis says, within its limits, and survives being written and read.

use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anywire_client::cookies::{Cookie, CookieFileError, CookieJar, CookieLimits, CookieRefused};
use anywire_http::{SameSite, Url};
use proptest::prelude::*;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

fn later(seconds: u64) -> SystemTime {
    now() + Duration::from_secs(seconds)
}

fn url(text: &str) -> Url {
    Url::parse(text).expect(text)
}

fn receive(jar: &CookieJar, from: &str, line: &str) -> Result<(), CookieRefused> {
    jar.receive(&url(from), line.as_bytes(), now())
}

fn sent(jar: &CookieJar, to: &str) -> String {
    jar.header(&url(to), now()).unwrap_or_default()
}

#[test]
fn a_cookie_goes_to_its_host_and_with_a_domain_to_those_below() {
    let jar = CookieJar::new();
    receive(&jar, "http://a.shop.example/", "host=1").expect("a cookie");
    receive(&jar, "http://a.shop.example/", "site=2; Domain=.Shop.Example").expect("a cookie");
    assert_eq!(sent(&jar, "http://a.shop.example/"), "host=1; site=2");
    assert_eq!(sent(&jar, "http://b.shop.example:8080/"), "site=2");
    assert_eq!(sent(&jar, "http://shop.example/"), "site=2");
    assert_eq!(sent(&jar, "http://c.a.shop.example/"), "site=2");
    for other in ["http://example/", "http://myshop.example/", "http://a.shop.example.org/"] {
        assert_eq!(sent(&jar, other), "", "{other}");
    }
    let others = ["other.example", "b.shop.example", "c.a.shop.example", "op.example"];
    for domain in others {
        let refused = receive(&jar, "http://a.shop.example/", &format!("x=1; Domain={domain}"));
        assert_eq!(refused, Err(CookieRefused::OtherDomain), "{domain}");
    }
}

#[test]
fn nobody_sets_cookies_for_a_public_suffix() {
    let jar = CookieJar::new();
    for (host, suffix) in [("a.co.uk", "co.uk"), ("a.example", "example"), ("me.github.io", "github.io")] {
        let refused = receive(&jar, &format!("https://{host}/"), &format!("x=1; Domain={suffix}"));
        assert_eq!(refused, Err(CookieRefused::PublicSuffix), "{suffix}");
    }
    // A suffix that is a host itself has cookies of its own.
    for (own, below) in
        [("github.io", "me.github.io"), ("localhost", "a.localhost"), ("127.0.0.1", "1.127.0.0.1")]
    {
        receive(&jar, &format!("https://{own}/"), &format!("x=1; Domain={own}")).expect("for itself");
        assert_eq!(sent(&jar, &format!("https://{own}/")), "x=1");
        if let Ok(below) = Url::parse(&format!("https://{below}/")) {
            assert_eq!(jar.header(&below, now()), None, "{below}");
        }
    }
    assert_eq!(jar.counters().refused, 3);
}

#[test]
fn what_is_for_tls_neither_comes_nor_goes_in_clear_text() {
    let jar = CookieJar::new();
    assert_eq!(receive(&jar, "http://a.example.com/", "id=0; Secure"), Err(CookieRefused::ClearText));
    receive(&jar, "https://a.example.com/shop/", "id=1; Secure; Domain=example.com").expect("over TLS");
    assert_eq!(sent(&jar, "http://a.example.com/shop/"), "");
    assert_eq!(sent(&jar, "https://a.example.com/shop/"), "id=1");
    // Nothing that came in clear text hides it, from its own host, from above, or from below.
    for from in ["http://a.example.com/shop/", "http://example.com/shop/x", "http://b.a.example.com/shop/"] {
        assert_eq!(receive(&jar, from, "id=2"), Err(CookieRefused::HidesSecure), "{from}");
    }
    receive(&jar, "http://a.example.com/", "id=3; Path=/").expect("its path is another one");
    receive(&jar, "http://a.example.com/shop/", "other=4").expect("its name is another one");
    assert_eq!(sent(&jar, "https://a.example.com/shop/"), "id=1; other=4; id=3");
}

#[test]
fn prefixes_and_same_site_none_are_promises() {
    let jar = CookieJar::new();
    let from = "https://a.example.com/x/y";
    for wrong in [
        "__Secure-a=1",
        "__secure-a=1; Path=/",
        "__Host-a=1; Secure",
        "__Host-a=1; Path=/",
        "__HOST-a=1; Secure; Path=/; Domain=example.com",
        "__Host-a=1; Secure; Path=/x",
        "__Host-a; Secure; Path=/",
        "a=1; SameSite=None",
    ] {
        assert_eq!(receive(&jar, from, wrong), Err(CookieRefused::Prefix), "{wrong}");
    }
    // Sent without its name, it would be read as one with a name.
    assert_eq!(receive(&jar, from, "=__Secure-a=1; Secure"), Err(CookieRefused::Malformed));
    receive(&jar, from, "__Secure-a=1; Secure; Domain=example.com").expect("secure");
    receive(&jar, from, "__Host-a=2; Secure; Path=/").expect("of this host");
    receive(&jar, from, "b=3; Secure; SameSite=None").expect("secure");
    assert_eq!(sent(&jar, from), "__Secure-a=1; b=3; __Host-a=2");
}

#[test]
fn paths_bound_and_order_cookies() {
    let jar = CookieJar::new();
    receive(&jar, "http://h.example/a/b", "root=1; Path=/").expect("a cookie");
    receive(&jar, "http://h.example/a/b?x=/c/", "default=2").expect("a cookie");
    receive(&jar, "http://h.example/a/b", "deep=3; Path=/a/b").expect("a cookie");
    receive(&jar, "http://h.example/a/b", "odd=4; Path=a").expect("a cookie");
    // Replaced, it keeps its place.
    receive(&jar, "http://h.example/a/b", "default=5").expect("a cookie");
    assert_eq!(sent(&jar, "http://h.example/a/b/c"), "deep=3; default=5; odd=4; root=1");
    assert_eq!(sent(&jar, "http://h.example/a/bc?q"), "default=5; odd=4; root=1");
    assert_eq!(sent(&jar, "http://h.example/ab"), "root=1");
}

#[test]
fn cookies_end() {
    let jar = CookieJar::new();
    let from = "http://h.example/";
    receive(&jar, from, "short=1; Max-Age=60").expect("a cookie");
    receive(&jar, from, "long=2; Max-Age=9999999999").expect("a cookie");
    receive(&jar, from, "session=3").expect("a cookie");
    receive(&jar, from, "gone=4").expect("a cookie");
    assert_eq!(receive(&jar, from, "gone=; Max-Age=0"), Err(CookieRefused::Ended));
    assert_eq!(
        receive(&jar, from, "never=5; Expires=Thu, 01 Jan 1970 00:00:00 GMT"),
        Err(CookieRefused::Ended)
    );
    let at = |time| jar.header(&url(from), time).unwrap_or_default();
    assert_eq!(at(later(59)), "short=1; long=2; session=3");
    assert_eq!(at(later(60)), "long=2; session=3");
    assert_eq!(at(later(400 * 86_400)), "session=3");
    assert_eq!(jar.end_session(), 1);
    assert_eq!((at(later(0)), jar.counters().refused), ("short=1; long=2".to_owned(), 0));
}

#[test]
fn a_program_may_look_at_cookies_add_and_remove_them() {
    let jar = CookieJar::new();
    let mut cookie = Cookie::new("h.example", "id", "secret");
    cookie.path = "/x".to_owned();
    jar.insert(cookie, now()).expect("a cookie");
    jar.insert(Cookie::new("h.example", "other", "1"), now()).expect("a cookie");
    assert_eq!(sent(&jar, "http://h.example/x"), "id=secret; other=1");
    assert!(!format!("{jar:?} {:?}", jar.cookies(now())).contains("secret"));
    assert_eq!(jar.remove("h.example", "id"), 1);
    assert_eq!(sent(&jar, "http://h.example/x"), "other=1");
    for (name, value) in [("", ""), ("a;", "1"), ("a", "1\r\nx: y"), ("a=b", "1"), ("a", " 1"), ("", "a=b")] {
        let refused = jar.insert(Cookie::new("h.example", name, value), now());
        assert_eq!(refused, Err(CookieRefused::Malformed), "{name:?} {value:?}");
    }
    for host in ["", ".h.example", "H.example", "h example", "h.example/", "h\r\n"] {
        let refused = jar.insert(Cookie::new(host, "a", "1"), now());
        assert_eq!(refused, Err(CookieRefused::Malformed), "{host:?}");
    }
    let mut of_all = Cookie::new("com", "a", "1");
    of_all.is_host_only = false;
    assert_eq!(jar.insert(of_all, now()), Err(CookieRefused::PublicSuffix));
    jar.clear();
    assert_eq!((jar.counters().cookies, jar.counters().bytes), (0, 0));
}

#[test]
fn a_callers_own_pairs_count_more() {
    let jar = CookieJar::new();
    receive(&jar, "http://h.example/", "a=1").expect("a cookie");
    receive(&jar, "http://h.example/", "b=2").expect("a cookie");
    let to = url("http://h.example/");
    assert_eq!(jar.header_beside(&to, "a=9; c=3", now()).as_deref(), Some("a=9; c=3; b=2"));
    assert_eq!(jar.header_beside(&to, "a=9; b=3", now()), None);
}

#[test]
fn a_full_domain_loses_what_is_not_secure_and_was_not_sent_for_longest() {
    let jar = CookieJar::with_limits(CookieLimits { per_domain: 3, ..CookieLimits::default() });
    let from = "https://h.example/";
    for line in ["a=1; Secure", "b=2; Path=/b", "c=3"] {
        receive(&jar, from, line).expect("a cookie");
    }
    // Now `c` was sent later than `b`.
    assert_eq!(sent(&jar, from), "a=1; c=3");
    receive(&jar, from, "d=4").expect("a cookie");
    assert_eq!(sent(&jar, "https://h.example/b"), "a=1; c=3; d=4");
    for line in ["e=5; Secure", "f=6; Secure"] {
        receive(&jar, from, line).expect("a cookie");
    }
    assert_eq!(sent(&jar, from), "a=1; e=5; f=6");
    assert_eq!(receive(&jar, from, "g=7"), Err(CookieRefused::NoRoom));
    assert_eq!(sent(&jar, from), "a=1; e=5; f=6");
    receive(&jar, "https://other.example/", "g=7").expect("another domain has room");
    assert_eq!((jar.counters().cookies, jar.counters().evicted), (4, 4));
}

#[test]
fn a_full_jar_loses_what_has_ended_and_then_what_was_not_sent_for_longest() {
    let jar = CookieJar::with_limits(CookieLimits { cookies: 3, ..CookieLimits::default() });
    for (host, line) in [("a", "a=1"), ("b", "b=2; Max-Age=10"), ("c", "c=3")] {
        receive(&jar, &format!("http://{host}.example/"), line).expect("a cookie");
    }
    jar.receive(&url("http://d.example/"), b"d=4", later(10))
        .expect("in the place of the one that has ended");
    let names = |jar: &CookieJar| jar.cookies(later(10)).into_iter().map(|it| it.name).collect::<String>();
    assert_eq!(names(&jar), "acd");
    assert_eq!(sent(&jar, "http://a.example/"), "a=1");
    jar.receive(&url("http://e.example/"), b"e=5", later(10)).expect("a cookie");
    assert_eq!(names(&jar), "ade");

    let jar = CookieJar::with_limits(CookieLimits { bytes: 40, ..CookieLimits::default() });
    receive(&jar, "http://a.example/", "a=12345678901234567890").expect("31 bytes");
    receive(&jar, "http://b.example/", "b=1").expect("12 bytes");
    assert_eq!((jar.counters().cookies, jar.counters().bytes), (1, 12));
    let large = format!("a={}", "x".repeat(40));
    assert_eq!(receive(&jar, "http://a.example/", &large), Err(CookieRefused::NoRoom));
    assert_eq!(jar.counters().cookies, 1);
}

#[test]
fn files_that_are_wrong_say_where() {
    let jar = CookieJar::new();
    assert!(matches!(jar.read_json("{}", now()), Err(CookieFileError::Json(_))));
    let good = "h.example\tFALSE\t/\tFALSE\t0\ta\t1\n";
    for wrong in [
        "h.example",
        "h.example\tFALSE\t/\tFALSE\t0",
        "h.example\tmaybe\t/\tFALSE\t0\ta\t1",
        "h.example\tFALSE\t/\tFALSE\tsoon\ta\t1",
        "h.example\tFALSE\t/\tFALSE\t0\ta\t1\t2",
    ] {
        let error = jar.read_netscape(&format!("{good}{wrong}\n"), now()).expect_err(wrong);
        assert!(matches!(error, CookieFileError::Line { line: 2 }), "{wrong:?}: {error:?}");
    }
    assert_eq!(jar.counters().cookies, 0);
    // What is well-formed and against the rules is left out.
    let odd = "# a comment\n\n.com\tTRUE\t/\tFALSE\t0\ta\t1\nh.example\tFALSE\tx\tFALSE\t0\ta\t1\nold.example\tFALSE\t/\tFALSE\t9\ta\t1\n";
    assert_eq!(
        jar.read_netscape(&format!("{odd}{good}h.example\tFALSE\t/\tFALSE\t-1\tempty\r\n"), now()).ok(),
        Some(2)
    );
    assert_eq!(sent(&jar, "http://h.example/"), "a=1; empty=");
}

/// What curl reads of a file of ours, and what we read of one of curl's.
#[test]
fn curl_reads_and_writes_the_same_file() {
    let jar = CookieJar::new();
    let future = SystemTime::now() + Duration::from_secs(86_400);
    for (host, line) in [
        ("a.example.com", "host=1"),
        ("a.example.com", "site=2; Domain=example.com; Path=/x; Secure; HttpOnly; Max-Age=3600"),
        ("a.example.com", "empty=; Max-Age=60"),
        ("127.0.0.1", "ip=3"),
    ] {
        jar.receive(&url(&format!("https://{host}/")), line.as_bytes(), future).expect("a cookie");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [ours, theirs] = ["ours", "theirs"].map(|name| folder.path().join(name));
    std::fs::write(&ours, jar.to_netscape(future)).expect("written");
    let run = Command::new("curl")
        .arg("-sS")
        .arg("-b")
        .arg(&ours)
        .arg("-c")
        .arg(&theirs)
        .arg("file:///dev/null")
        .status();
    if run.as_ref().is_err_and(|_| std::env::var_os("CI").is_none()) {
        println!("skipped: there is no curl");
        return;
    }
    assert!(run.expect("curl runs").success());
    let read = CookieJar::new();
    let text = std::fs::read_to_string(&theirs).expect("curl has written it");
    assert_eq!(read.read_netscape(&text, future).ok(), Some(4), "{text}");
    let sorted = |jar: &CookieJar| {
        let mut lines: Vec<_> = jar.to_netscape(future).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&read), sorted(&jar));
}

/// Where, with what, and whether it was taken: by the value of the cookie, which nothing else has.
#[derive(Debug, Clone)]
struct Step {
    host: usize,
    https: bool,
    path: usize,
    name: usize,
    domain: Option<usize>,
    attribute_path: Option<usize>,
    secure: bool,
    age: Option<u64>,
    same_site: Option<SameSite>,
}

const HOSTS: [&str; 6] = ["shop.co.uk", "a.shop.co.uk", "b.a.shop.co.uk", "co.uk", "other.co.uk", "10.0.0.1"];
const PATHS: [&str; 5] = ["/", "/a", "/a/b", "/ab", "/a/b/c"];

fn step() -> impl Strategy<Value = Step> {
    let same_site = prop_oneof![Just(None), Just(Some(SameSite::Lax)), Just(Some(SameSite::Strict))];
    let place = (0..HOSTS.len(), any::<bool>(), 0..PATHS.len(), 0..3usize);
    let scope = (proptest::option::of(0..HOSTS.len()), proptest::option::of(0..PATHS.len()));
    (place, scope, any::<bool>(), proptest::option::of(0..100u64), same_site).prop_map(
        |((host, https, path, name), (domain, attribute_path), secure, age, same_site)| Step {
            host,
            https,
            path,
            name,
            domain,
            attribute_path,
            secure,
            age,
            same_site,
        },
    )
}

fn urls() -> impl Iterator<Item = Url> {
    HOSTS.iter().flat_map(|host| {
        PATHS
            .iter()
            .flat_map(move |path| ["http", "https"].map(|scheme| url(&format!("{scheme}://{host}{path}"))))
    })
}

proptest! {
    #[test]
    fn no_cookie_goes_where_it_does_not_belong(
        steps in proptest::collection::vec(step(), 1..40),
        per_domain in 1..6usize,
        cookies in 1..12usize,
        wait in 0..100u64,
    ) {
        let limits = CookieLimits { per_domain, cookies, bytes: 200 };
        let jar = CookieJar::with_limits(limits.clone());
        let mut taken: HashMap<String, Step> = HashMap::new();
        for (number, step) in steps.iter().enumerate() {
            let scheme = if step.https { "https" } else { "http" };
            let from = url(&format!("{scheme}://{}{}", HOSTS[step.host], PATHS[step.path]));
            let mut line = format!("n{}=v{number}", step.name);
            for attribute in [
                step.domain.map(|domain| format!("Domain={}", HOSTS[domain])),
                step.attribute_path.map(|path| format!("Path={}", PATHS[path])),
                step.secure.then(|| "Secure".to_owned()),
                step.age.map(|age| format!("Max-Age={age}")),
                step.same_site.map(|site| format!("SameSite={site:?}")),
            ].into_iter().flatten() {
                line = format!("{line}; {attribute}");
            }
            if jar.receive(&from, line.as_bytes(), now()).is_ok() {
                prop_assert!(!step.secure || step.https);
                taken.insert(format!("v{number}"), step.clone());
            }
            let counters = jar.counters();
            prop_assert!(counters.cookies <= limits.cookies && counters.bytes <= limits.bytes);
        }
        for to in urls() {
            let header = jar.header(&to, later(wait)).unwrap_or_default();
            for (_, value) in anywire_http::cookie::pairs(&header) {
                let step = &taken[value];
                let host = HOSTS[step.host];
                match step.domain.map(|domain| HOSTS[domain]) {
                    Some(domain) if domain != "co.uk" && domain != "10.0.0.1" => {
                        let below = [".", domain].concat();
                        prop_assert!(to.host() == domain || to.host().ends_with(&below));
                    }
                    _ => prop_assert_eq!(to.host(), host),
                }
                prop_assert!(!step.secure || to.is_https());
                prop_assert!(step.age.is_none_or(|age| age > wait));
                if let Some(path) = step.attribute_path.map(|path| PATHS[path]) {
                    let below = [path.trim_end_matches('/'), "/"].concat();
                    prop_assert!(to.path_and_query() == path || to.path_and_query().starts_with(&below));
                }
            }
        }
        // Whatever it holds, a copy by way of a text sends the same.
        let [by_json, by_netscape] = [(); 2].map(|()| CookieJar::with_limits(limits.clone()));
        by_json.read_json(&jar.to_json(now()), now()).expect("its own text");
        by_netscape.read_netscape(&jar.to_netscape(now()), now()).expect("its own text");
        prop_assert_eq!(by_json.cookies(now()), jar.cookies(now()));
        for to in urls() {
            let header = jar.header(&to, later(wait));
            prop_assert_eq!(&by_json.header(&to, later(wait)), &header);
            prop_assert_eq!(&by_netscape.header(&to, later(wait)), &header);
        }
    }
}

#[test]
fn a_cookie_that_has_ended_stands_in_no_other_ones_way() {
    let jar = CookieJar::new();
    receive(&jar, "https://h.example/", "id=1; Secure; Max-Age=1").expect("a cookie");
    let (http, https) = (url("http://h.example/"), url("https://h.example/"));
    let refused = jar.receive(&http, b"id=2", now());
    assert_eq!(refused, Err(CookieRefused::HidesSecure));
    jar.receive(&http, b"id=2", later(10)).expect("the other one has ended");
    assert_eq!(jar.header(&http, later(10)).as_deref(), Some("id=2"));
    // Nor does it give its turn to a later one with its name.
    let jar = CookieJar::new();
    receive(&jar, "https://h.example/", "a=1; Max-Age=1").expect("a cookie");
    receive(&jar, "https://h.example/", "b=1").expect("a cookie");
    jar.receive(&https, b"a=2", later(10)).expect("a cookie");
    assert_eq!(jar.header(&https, later(10)).as_deref(), Some("b=1; a=2"));
}
