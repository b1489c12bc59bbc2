//! nghttpd as installed on this machine: nghttp2's own server, one worker, which serves files.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Announce, CONTENT_TYPE, Http, Server, tool};
use crate::versions;

pub(super) const SERVER: Server = Server {
    name: "nghttpd",
    version: versions::nghttpd,
    settings: "one worker, files from its cache of open files, no log, 256 streams",
    protocols: &[Http::Http2],
    serve,
};

fn serve(announce: &Announce, _: Http) -> Result<()> {
    let folder = tempfile::tempdir().context("no temporary folder for nghttpd")?;
    // The name of the index is fixed.
    tool::write_files(folder.path(), "index.html")?;
    let types = folder.path().join("types");
    fs::write(&types, format!("{} html\n", CONTENT_TYPE.split(';').next().unwrap_or_default()))?;
    let address = super::free_port()?;
    let mut command = Command::new("nghttpd");
    command.arg("--no-tls").arg("--workers=1").arg("--max-concurrent-streams=256");
    command.arg(format!("--mime-types-file={}", types.display()));
    command.arg(format!("--htdocs={}", folder.path().display()));
    command.arg(format!("--address={}", address.ip())).arg(address.port().to_string());
    tool::run(&mut command, "nghttp2-server", address, &folder.path().join("log"), announce)
}
