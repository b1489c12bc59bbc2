//! `anywire load` against Debian's nginx: every answer is counted, none is an error.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::common::{anywire, has, stderr, stdout, text};

#[test]
fn load_measures_nginx() {
    if !has("nginx") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory for nginx");
    let nginx = Nginx::start(dir.path());
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

struct Nginx {
    port: u16,
    stop: Command,
}

impl Nginx {
    /// Starts one master and one worker. The command that starts them returns when they listen.
    fn start(dir: &Path) -> Self {
        let config = dir.join("nginx.conf");
        for _ in 0..5 {
            // Free now; should another program take it before nginx does, another one is tried.
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let port = free.expect("a free port").port();
            std::fs::write(&config, configuration(dir, port)).expect("the configuration can be written");
            let nginx = |more: &[&str]| {
                let mut command = Command::new("nginx");
                command
                    .args(["-p", text(dir), "-e", text(&dir.join("error.log")), "-c", text(&config)])
                    .args(more);
                command
            };
            if nginx(&[]).status().expect("nginx was found before").success() {
                return Self { port, stop: nginx(&["-s", "stop"]) };
            }
        }
        panic!("nginx did not start: {:?}", std::fs::read_to_string(dir.join("error.log")));
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let stopped = self.stop.status();
        assert!(stopped.is_ok_and(|status| status.success()), "nginx was left behind");
    }
}

fn configuration(dir: &Path, port: u16) -> String {
    let dir = text(dir);
    format!(
        "worker_processes 1;
        pid {dir}/nginx.pid;
        events {{ worker_connections 256; }}
        http {{
            access_log off;
            client_body_temp_path {dir}/body;
            proxy_temp_path {dir}/proxy;
            fastcgi_temp_path {dir}/fastcgi;
            uwsgi_temp_path {dir}/uwsgi;
            scgi_temp_path {dir}/scgi;
            keepalive_requests 1000000;
            server {{
                listen 127.0.0.1:{port};
                listen unix:{dir}/nginx.sock;
                location / {{ return 200 'Hello, World!'; }}
            }}
        }}"
    )
}
