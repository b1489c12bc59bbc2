//! Scripts and lists of URLs of any bytes: no text makes their readers panic, and what is read can be written down and read again.

#![no_main]

use anywire_load::script::{Script, Syntax, read_file, read_urls};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(list) = read_urls(text, true) {
        check(&list.script);
    }
    for syntax in [Syntax::Toml, Syntax::Json] {
        if let Ok(file) = read_file(text, syntax, |_| Ok(b"a,b\n1,2\n".to_vec())) {
            check(&file.script);
        }
    }
});

fn check(script: &Script) {
    let json = serde_json::to_string(script).expect("a script is data");
    let read: Script = serde_json::from_str(&json).expect("what was written is read");
    assert_eq!(read, *script);
    // No template makes this panic.
    let _ = script.check();
}
