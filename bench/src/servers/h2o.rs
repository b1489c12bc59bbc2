//! h2o as installed on this machine: one process of one thread, which serves files.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Announce, CONTENT_TYPE, Http, Server, tool};
use crate::versions;

pub(super) const SERVER: Server = Server {
    name: "h2o",
    version: versions::h2o,
    settings: "num-threads 1, files from its cache of open files, no etag, no server header, no access log, 256 streams",
    protocols: &[Http::Http2],
    serve,
};

fn serve(announce: &Announce, _: Http) -> Result<()> {
    run(announce, "")
}

/// Runs it, with these lines of its address: those of TLS.
pub(crate) fn run(announce: &Announce, lines: &str) -> Result<()> {
    let folder = tempfile::tempdir().context("no temporary folder for h2o")?;
    // As root it becomes another user, who must be able to read them.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    let files = folder.path().join("files");
    fs::create_dir(&files)?;
    tool::write_files(&files, "index.txt")?;
    let address = super::free_port()?;
    let file = folder.path().join("h2o.conf");
    fs::write(&file, configuration(folder.path(), address, lines))
        .context("writing h2o's configuration failed")?;
    let mut command = Command::new("h2o");
    command.arg("-c").arg(&file).arg("-m").arg("worker");
    tool::run(&mut command, "h2o", address, &folder.path().join("error.log"), announce)
}

fn configuration(folder: &Path, address: SocketAddr, lines: &str) -> String {
    let folder = folder.display();
    let (host, port) = (address.ip(), address.port());
    format!(
        r#"num-threads: 1
max-connections: 20000
tcp-fastopen: 0
server-name: ""
http2-max-concurrent-requests-per-connection: 256
http2-idle-timeout: 3600
num-name-resolution-threads: 1
listen:
  host: {host}
  port: {port}
{lines}
hosts:
  default:
    paths:
      "/":
        file.dir: {folder}/files
        file.index: ["index.txt"]
        file.etag: OFF
        file.send-compressed: OFF
        file.mime.setdefaulttype: "{CONTENT_TYPE}"
        file.mime.addtypes:
          "{CONTENT_TYPE}": ".txt"
"#
    )
}
