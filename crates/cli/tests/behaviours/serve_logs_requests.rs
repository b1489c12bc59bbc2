//! `serve -v` logs each request once its response has left; without it there is no line for one.

use std::fs::{self, File};

use crate::common::{Served, anywire, eventually, text};

#[test]
fn serve_logs_requests_if_it_is_verbose() {
    let dir = tempfile::tempdir().expect("a directory for logs");
    for (name, options, is_logged) in [("verbose", &["-v"][..], true), ("quiet", &[], false)] {
        let path = dir.path().join(name);
        let log = File::create(text(&path)).expect("a file of the test's own");
        let served = Served::logging(&["tcp:127.0.0.1:0"], options, log);
        let output = anywire(&["get", &served.url("/json")]);
        assert!(output.status.success());
        let logged = || fs::read_to_string(&path).expect("the log");
        if is_logged {
            let line =
                |line: &str| line.contains("route=\"/json\" status=200") && line.contains("end=\"complete\"");
            eventually("the request is logged", || logged().lines().any(line));
        }
        // It has logged all that it will once it has ended.
        drop(served);
        assert_eq!(logged().contains("status=200"), is_logged, "{}", logged());
    }
}
