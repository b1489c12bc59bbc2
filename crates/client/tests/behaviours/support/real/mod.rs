//! Servers of other projects that speak HTTP/2 in clear text, as far as they are installed.

#[path = "../../../../../sys/tests/behaviours/skipped/mod.rs"]
pub mod skipped;

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::HANG;

/// A server, until it is dropped. It serves the files of its folder.
pub struct Real {
    pub name: &'static str,
    /// Whether POST gets its body back.
    pub echoes: bool,
    /// Whether the trailers of that come back, too.
    pub echoes_trailers: bool,
    port: u16,
    child: Child,
    _folder: TempDir,
}

/// The servers that are installed, each with a file `small`, and what `more` puts into its folder.
pub fn real_servers(more: impl Fn(&Path)) -> impl Iterator<Item = Real> {
    let start: [(&str, Start); 5] =
        [("nghttpd", nghttpd), ("nginx", nginx), ("h2o", h2o), ("go", go), ("node", node)];
    start.into_iter().filter_map(move |(name, start)| {
        if program(name).is_none() || (name == "go" && is_old_go()) {
            assert!(std::env::var_os("CI").is_none(), "this test needs {name}, or a newer one; install it");
            skipped::say(format_args!("{name} is not installed, or too old"));
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("small"), "small").expect("a file");
        more(folder.path());
        println!("with {name}");
        Some(start(folder))
    })
}

/// Starts a server with its folder.
type Start = fn(TempDir) -> Real;

impl Real {
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Starts what listens on a port that it is told.
    fn on_port(name: &'static str, folder: TempDir, command: impl Fn(u16, &Path) -> Command) -> Self {
        for _ in 0..5 {
            // Free now; should another program take it before the server does, another one is tried.
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let port = free.expect("a free port").port();
            let mut command = command(port, folder.path());
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
            let hang = Instant::now() + HANG;
            while child.try_wait().expect("a child").is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Self {
                        name,
                        echoes: false,
                        echoes_trailers: false,
                        port,
                        child,
                        _folder: folder,
                    };
                }
                assert!(Instant::now() < hang, "{name} does not listen");
                thread::sleep(Duration::from_millis(1));
            }
        }
        panic!("{name} found no free port");
    }

    /// Starts what says on which port it listens, and echoes.
    fn that_says_its_port(name: &'static str, folder: TempDir, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line with its port");
        let port = line.trim().parse().unwrap_or_else(|_| panic!("{name} says {line:?}"));
        Self { name, echoes: true, echoes_trailers: true, port, child, _folder: folder }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn nghttpd(folder: TempDir) -> Real {
    let mut real = Real::on_port("nghttpd", folder, |port, folder| {
        let mut command = Command::new("nghttpd");
        command.args(["--no-tls", "--echo-upload", "--address=127.0.0.1", "--htdocs"]);
        command.arg(folder).arg(port.to_string());
        command
    });
    real.echoes = true;
    real
}

fn nginx(folder: TempDir) -> Real {
    Real::on_port("nginx", folder, |port, folder| {
        let config = folder.join("nginx.conf");
        let text = folder.display();
        let content = format!(
            "daemon off; master_process off; pid {text}/pid; error_log {text}/log; events {{}}
             http {{
                 access_log off; client_body_temp_path {text}/body; proxy_temp_path {text}/proxy;
                 fastcgi_temp_path {text}/fastcgi; uwsgi_temp_path {text}/uwsgi; scgi_temp_path {text}/scgi;
                 keepalive_requests 40;
                 server {{ listen 127.0.0.1:{port} http2; root {text}; }}
             }}"
        );
        std::fs::write(&config, content).expect("a file");
        let mut command = Command::new("nginx");
        command.arg("-e").arg(folder.join("log")).arg("-p").arg(folder).arg("-c").arg(config);
        command
    })
}

fn h2o(folder: TempDir) -> Real {
    // As root it becomes another user, who must be able to read the files.
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody).expect("it is ours");
    Real::on_port("h2o", folder, |port, folder| {
        let config = folder.join("h2o.conf");
        let text = folder.display();
        let content = format!(
            "num-threads: 1\nlisten:\n  host: 127.0.0.1\n  port: {port}\nhosts:\n  default:\n    paths:\n      /:\n        \
             file.dir: {text}\n"
        );
        std::fs::write(&config, content).expect("a file");
        let mut command = Command::new("h2o");
        command.args(["-m", "worker", "-c"]).arg(config);
        command
    })
}

fn go(folder: TempDir) -> Real {
    let binary = folder.path().join("server");
    let mut build = Command::new(program("go").expect("it is installed"));
    build.arg("build").arg("-o").arg(&binary).arg(source("server.go"));
    assert!(build.status().expect("it runs").success(), "the Go program does not build");
    let mut command = Command::new(binary);
    command.arg(folder.path());
    Real::that_says_its_port("go", folder, command)
}

/// Before 1.24 its own library has no HTTP/2 in clear text.
fn is_old_go() -> bool {
    let go = program("go").expect("it is installed");
    let said = Command::new(go).args(["env", "GOVERSION"]).output().expect("it runs").stdout;
    let minor = String::from_utf8_lossy(&said).trim().split('.').nth(1).and_then(|minor| minor.parse().ok());
    minor.is_none_or(|minor: u32| minor < 24)
}

fn node(folder: TempDir) -> Real {
    let mut command = Command::new("node");
    command.arg(source("server.js")).arg(folder.path());
    Real::that_says_its_port("node", folder, command)
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/behaviours/support/real").join(name)
}

/// Where a program is.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Where Go's own installer puts it.
    let folders = std::env::split_paths(&path).chain(["/usr/local/go/bin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}
