//! `--rules`: calls go where the rules of a file send them, and a faulty file is named with its place.

use std::fs;

use crate::common::{anywire, assert_refused, stderr, text};
use crate::recorder::Recorder;

#[test]
fn a_file_sends_calls_elsewhere() {
    let (recorder, dir) = (Recorder::start(), tempfile::tempdir().expect("a folder"));
    let file = dir.path().join("rules.toml");
    let place = recorder.url("");
    let place = place.trim_start_matches("http://").trim_end_matches('/');
    let rules = format!(
        "[[rule]]\nwhen.authority.exact = 'shop.test'\n\
         to = [{{ authority = '{place}', path = {{ prefix = '/old', with = '/json' }} }}]\n"
    );
    fs::write(&file, rules).expect("the folder can be written");
    let called = anywire(&["get", "-u", "ada:x", "--rules", text(&file), "http://shop.test/old"]);
    assert!(called.status.success(), "{}", stderr(&called));
    let request = recorder.take().pop().expect("it was asked");
    assert!(!request.fields.iter().any(|field| field.starts_with("authorization")), "{:?}", request.fields);

    fs::write(&file, "[[rule]]\nto = [{ authority = 'a/b' }]").expect("the folder can be written");
    let refused = |found: &str| {
        assert_refused(&anywire(&["get", "--rules", text(&file), &recorder.url("/")]), 2, found);
    };
    refused("rule 1: to[0].authority");
    fs::write(&file, "[[rule]]\nwen = 1").expect("the folder can be written");
    refused("line 2, column 1");
    fs::remove_file(&file).expect("it is there");
    assert_refused(&anywire(&["get", "--rules", text(&file), &recorder.url("/")]), 26, "reading the rules");
    assert!(recorder.take().is_empty());
}
