//! nginx as installed on this machine: one worker process, an answer from its configuration.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Announce, BACKLOG, BODY, CONTENT_TYPE, Http, Server, tool};
use crate::versions;

pub(super) const SERVER: Server = Server {
    name: "nginx",
    version: versions::nginx,
    settings: "worker_processes 1, return 200, access_log off, server_tokens off, reuseport, multi_accept, keepalive_requests 1e9; HTTP/2: 256 streams, chunks of 16 KiB, a large file without sendfile from its cache of open files",
    protocols: &[Http::Http1, Http::Http2],
    serve,
};

fn serve(announce: &Announce, http: Http) -> Result<()> {
    run(announce, http, "", "")
}

/// Runs it, with these options of its address and these lines of its server: those of TLS.
pub(crate) fn run(announce: &Announce, http: Http, options: &str, lines: &str) -> Result<()> {
    let folder = tempfile::tempdir().context("no temporary folder for nginx")?;
    tool::write_files(folder.path(), "index")?;
    let (reservation, address) = super::reserved_port()?;
    let (file, log) = (folder.path().join("nginx.conf"), folder.path().join("error.log"));
    fs::write(&file, configuration(folder.path(), address, http, options, lines))
        .context("writing nginx's configuration failed")?;
    let mut command = Command::new("nginx");
    command.arg("-c").arg(&file).arg("-p").arg(folder.path()).arg("-e").arg(&log);
    let run = tool::run(&mut command, "nginx-light", address, &log, announce);
    drop(reservation);
    run
}

fn configuration(folder: &Path, address: SocketAddr, http: Http, options: &str, lines: &str) -> String {
    let http2 = if http == Http::Http2 { " http2" } else { "" };
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
        listen {address} reuseport backlog={BACKLOG}{http2}{options};
        {lines}
        http2_max_concurrent_streams 256;
        http2_chunk_size 16k;
        location / {{ return 200 "{BODY}"; }}
        location /large {{
            root {folder};
            sendfile off;
            output_buffers 2 512k;
            open_file_cache max=10 inactive=1h;
        }}
    }}
}}
"#
    )
}
