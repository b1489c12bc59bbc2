//! nginx as installed on this machine: one worker process, an answer from its configuration.
//!
//! The `bench serve nginx` process stays beside it (asleep) so that nginx ends when its standard input closes. What is
//! measured is the whole family: this process, nginx's master and its worker.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Announce, BACKLOG, BODY, CONTENT_TYPE, Server};
use crate::versions;

pub(super) const SERVER: Server = Server {
    name: "nginx",
    version: versions::nginx,
    settings: "worker_processes 1, return 200, access_log off, server_tokens off, reuseport, multi_accept, keepalive_requests 1e9",
    serve,
};

fn serve(announce: &Announce) -> Result<()> {
    let folder = tempfile::tempdir().context("no temporary folder for nginx")?;
    let (reservation, address) = super::reserved_port()?;
    let file = folder.path().join("nginx.conf");
    fs::write(&file, configuration(folder.path(), address))
        .context("writing nginx's configuration failed")?;
    let mut nginx = Command::new("nginx")
        .arg("-c")
        .arg(&file)
        .arg("-p")
        .arg(folder.path())
        .arg("-e")
        .arg(folder.path().join("error.log"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("starting `nginx` failed; Debian's package is named nginx-light")?;

    for _ in 0..CONNECT_TRIES {
        if TcpStream::connect(address).is_ok() {
            break;
        }
        if let Some(status) = nginx.try_wait()? {
            let log = fs::read_to_string(folder.path().join("error.log")).unwrap_or_default();
            bail!("nginx ended with {status} before it listened; its log: {}", log.trim());
        }
        thread::sleep(CONNECT_PAUSE);
    }
    ensure!(TcpStream::connect(address).is_ok(), "nginx runs and does not take connections on {address}");
    drop(reservation);

    announce.listening_until_end(address);
    // The master ends its worker by this signal; killing it hard would leave the worker behind.
    kill(Pid::from_raw(i32::try_from(nginx.id())?), Signal::SIGTERM)?;
    nginx.wait()?;
    Ok(())
}

fn configuration(folder: &Path, address: SocketAddr) -> String {
    let folder = folder.display();
    format!(
        r#"worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log crit;
worker_rlimit_nofile 20000;
events {{
    worker_connections 20000;
    multi_accept on;
}}
http {{
    access_log off;
    server_tokens off;
    default_type "{CONTENT_TYPE}";
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    tcp_nodelay on;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {address} reuseport backlog={BACKLOG};
        location / {{ return 200 "{BODY}"; }}
    }}
}}
"#
    )
}

/// How often, and how long apart, the first connection is tried: 5 s in all.
const CONNECT_TRIES: u32 = 250;
const CONNECT_PAUSE: Duration = Duration::from_millis(20);
