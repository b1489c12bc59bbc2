//! curl gets the same answers from `anywire serve` over TCP, a socket file and an abstract socket.

use crate::common::{Served, has, run, text};

#[test]
fn serve_answers_curl_on_every_wire() {
    if !has("curl") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory for the socket");
    let path = dir.path().join("app.sock");
    let name = format!("anywire-test-{}", std::process::id());
    let (file, nameless) = (format!("unix:{}?mode=600", text(&path)), format!("unix:@{name}"));
    let served = Served::on(&["tcp:127.0.0.1:0", &file, &nameless], &[]);

    let wires = [
        vec!["--connect-to".to_owned(), format!("localhost:80:{}", served.authority())],
        vec!["--unix-socket".to_owned(), text(&path).to_owned()],
        vec!["--abstract-unix-socket".to_owned(), name],
    ];
    for wire in &wires {
        let curl = |args: &[&str]| {
            let wire = wire.iter().map(String::as_str);
            run("curl", &["-sS"].into_iter().chain(wire).chain(args.iter().copied()).collect::<Vec<_>>())
        };
        assert_eq!(curl(&["http://localhost/"]), "Hello, World!");
        let json: serde_json::Value = serde_json::from_str(&curl(&["http://localhost/json"])).expect("JSON");
        assert_eq!(json["message"], "Hello, World!");
        assert_eq!(curl(&["http://localhost/echo", "-d", "there and back"]), "there and back");
        assert_eq!(curl(&["http://localhost/bytes/100000"]).len(), 100_000);
        assert_eq!(curl(&["http://localhost/delay/1"]), "waited 1 ms");
        let status = ["-o", "/dev/null", "-w", "%{http_code} %{size_download}"];
        assert_eq!(curl(&[&status[..], &["-I", "http://localhost/bytes/7"]].concat()), "200 0");
        assert_eq!(
            curl(&[&status[..2], &["-w", "%{http_code}", "http://localhost/nowhere"]].concat()),
            "404"
        );
        assert_eq!(curl(&[&status[..2], &["-w", "%{http_code}", "http://localhost/echo"]].concat()), "405");
        let beyond = "http://localhost/bytes/10737418241";
        assert_eq!(curl(&[&status[..2], &["-w", "%{http_code}", beyond]].concat()), "400");
    }
    let mode = std::fs::metadata(&path).expect("the socket is there").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
}
