//! Fields `set-cookie` and files of any bytes: a jar stays within its limits, and a copy by way of its files sends the same.

#![no_main]

use std::time::{Duration, UNIX_EPOCH};

use anywire_client::cookies::{CookieJar, CookieLimits};
use anywire_http::{Headers, Url};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let limits = CookieLimits { per_domain: 4, cookies: 8, bytes: 1000 };
    let urls =
        ["http://a.shop.co.uk/a/b", "https://a.shop.co.uk/", "https://shop.co.uk/a", "http://10.0.0.1/"];
    let urls = urls.map(|url| Url::parse(url).expect("a URL"));
    let jar = CookieJar::with_limits(limits.clone());
    for (line, url) in data.split(|byte| *byte == b'\n').zip(urls.iter().cycle()) {
        let _ = jar.receive(url, line, now);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = jar.read_netscape(text, now);
        let _ = jar.read_json(text, now);
    }
    let counters = jar.counters();
    assert!(counters.cookies <= limits.cookies && counters.bytes <= limits.bytes);
    let copy = CookieJar::with_limits(limits.clone());
    copy.read_json(&jar.to_json(now), now).expect("its own text");
    assert_eq!(copy.cookies(now), jar.cookies(now));
    CookieJar::with_limits(limits).read_netscape(&jar.to_netscape(now), now).expect("its own text");
    for url in &urls {
        let header = jar.header(url, now);
        assert_eq!(copy.header(url, now), header);
        if let Some(header) = header {
            Headers::new().append("cookie", header).expect("it can stand in a field");
        }
    }
});
