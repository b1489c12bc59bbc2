//! Debian's nginx, which answers each request alike.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::common::text;

/// A master with one worker, stopped at the end of the test.
pub(crate) struct Nginx {
    pub(crate) port: u16,
    stop: Command,
}

impl Nginx {
    /// Answers so many requests on each connection. The command that starts it returns when it listens.
    pub(crate) fn start(dir: &Path, requests: usize) -> Self {
        let config = dir.join("nginx.conf");
        for _ in 0..5 {
            // Free now; should another program take it before nginx does, another one is tried.
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let port = free.expect("a free port").port();
            std::fs::write(&config, configuration(dir, port, requests))
                .expect("the configuration can be written");
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

fn configuration(dir: &Path, port: u16, requests: usize) -> String {
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
            keepalive_requests {requests};
            server {{
                listen 127.0.0.1:{port};
                listen unix:{dir}/nginx.sock;
                location / {{ return 200 'Hello, World!'; }}
            }}
        }}"
    )
}
