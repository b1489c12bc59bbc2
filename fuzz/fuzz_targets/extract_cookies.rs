//! Fields `cookie` of any bytes: each cookie that is read stands in them, without what would end it, and there are only so many.

#![no_main]

use anywire_http::Request;
use anywire_server::{Cookies, FromRequestParts, Languages, Limits, Request as Asked};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut request = Request::get("/");
    for field in data.split(|byte| *byte == b'\n') {
        // What no head may hold reaches no extractor.
        let _ = request.head.headers_mut().append("cookie", field);
        let _ = request.head.headers_mut().append("accept-language", field);
    }
    let Ok(mut request) = Asked::try_from(request) else { return };
    let languages = Languages::of(&request);
    let best = languages.best(&["en", "de-CH", "de"]);
    assert!(best.is_none() || data.windows(1).any(|byte| b"ed*ED".contains(&byte[0])));

    let cookies = anywire_loops::block_on(async { Cookies::from_request_parts(&mut request).await });
    let separators = data.iter().filter(|byte| b";\n".contains(byte)).count();
    let Ok(cookies) = cookies else {
        assert!(separators >= Limits::default().form_fields);
        return;
    };
    assert!(cookies.iter().count() <= separators + 1);
    for (name, value) in cookies.iter() {
        assert!(!name.is_empty() && !name.contains([';', '=', '\n']) && !value.contains([';', '\n']));
        for part in [name, value] {
            assert!(part.is_empty() || data.windows(part.len()).any(|window| window == part.as_bytes()));
        }
        assert!(cookies.get_all(name).any(|found| found == value));
    }
});
