//! `anywire load` against Debian's nginx: every answer is counted, none is an error.

use crate::common::{anywire, has, stderr, stdout, text};
use crate::nginx::Nginx;

#[test]
fn load_measures_nginx() {
    if !has("nginx") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory for nginx");
    let nginx = Nginx::start(dir.path(), 1_000_000);
    let page = dir.path().join("load.html");
    let url = format!("http://127.0.0.1:{}/", nginx.port);
    let args = ["load", &url, "-c", "8", "-n", "20000", "--depth", "4", "--warm-up", "100ms", "--loops", "1"];
    let output = anywire(&[&args[..], &["--json", "-", "--html", text(&page)]].concat());
    assert!(output.status.success(), "{}", stderr(&output));

    let outcome: serde_json::Value =
        serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_eq!(outcome["schema"], "anywire.load/1");
    assert_eq!(outcome["totals"]["answered"], 20_000, "{outcome}");
    assert_eq!(outcome["totals"]["statuses"]["200"], 20_000, "{outcome}");
    assert_eq!(outcome["plan"]["depth"], 4);
    assert!(outcome["rate"]["achieved"].as_f64() > Some(0.0), "{outcome}");
    let page = std::fs::read_to_string(page).expect("the page was written");
    assert!(page.contains("<svg"), "there is no chart in the page");

    // Over its socket file, as a table.
    let via = format!("unix:{}", text(&dir.path().join("nginx.sock")));
    let output =
        anywire(&["load", "http://localhost/", "--via", &via, "-n", "1000", "--warm-up", "0", "-c", "2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("1,000") || stdout(&output).contains("1 000"), "{}", stdout(&output));
}
