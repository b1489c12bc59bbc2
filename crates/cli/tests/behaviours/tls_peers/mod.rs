//! Certificates of every sort, and servers of other projects that show them.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// A root, and certificates in files: `NAME.pem` with `NAME.key`.
pub(crate) struct Certificates {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Certificates {
    /// The root `root.pem`, and signed by it `good`, `expired`, `future`, `other` (another name), `nameless` and `client`;
    /// signed by themselves `alone`, `authority` (as `openssl req -x509` makes one) and `stranger`.
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let params = authority("the root");
        let dir = tempfile::tempdir().expect("a directory");
        let root = params.self_signed(&key).expect("it can be signed");
        std::fs::write(dir.path().join("root.pem"), root.pem()).expect("a file");
        let made = Self { dir, issuer: Issuer::new(params, key) };
        made.sign("good", &named("localhost"));
        let mut expired = named("localhost");
        (expired.not_before, expired.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        made.sign("expired", &expired);
        let mut future = named("localhost");
        future.not_before = date_time_ymd(2090, 1, 1);
        made.sign("future", &future);
        made.sign("other", &named("other.example"));
        let mut nameless = named("localhost");
        nameless.subject_alt_names.clear();
        made.sign("nameless", &nameless);
        made.sign("client", &named("client"));
        made.sign_itself("alone", &named("localhost"));
        let mut both = authority("localhost");
        both.subject_alt_names = named("localhost").subject_alt_names;
        made.sign_itself("authority", &both);
        made.sign_itself("stranger", &named("stranger"));
        made
    }

    fn sign(&self, name: &str, params: &CertificateParams) {
        let key = KeyPair::generate().expect("a key");
        self.write(name, &params.signed_by(&key, &self.issuer).expect("it can be signed").pem(), &key);
    }

    fn sign_itself(&self, name: &str, params: &CertificateParams) {
        let key = KeyPair::generate().expect("a key");
        self.write(name, &params.self_signed(&key).expect("it can be signed").pem(), &key);
    }

    fn write(&self, name: &str, certificate: &str, key: &KeyPair) {
        std::fs::write(self.path(&format!("{name}.pem")), certificate).expect("a file");
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).expect("a file");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The certificate of this name, and its key.
    pub(crate) fn pair(&self, name: &str) -> [String; 2] {
        [format!("{name}.pem"), format!("{name}.key")].map(|file| self.text(&file))
    }
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a good name");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A server, until it is dropped.
pub(crate) struct Server {
    child: Child,
    port: u16,
    /// Held open: it must not find its stdout closed.
    stdout: Option<BufReader<ChildStdout>>,
}

impl Server {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    pub(crate) fn plain_url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }

    /// `openssl s_server`, which answers each request with a page about its connection.
    pub(crate) fn openssl(certificates: &Certificates, name: &str, more: &[&str]) -> Self {
        let [cert, key] = certificates.pair(name);
        let mut command = Command::new("openssl");
        command.args(["s_server", "-accept", "127.0.0.1:0", "-www", "-cert", &cert, "-key", &key]).args(more);
        Self::that_says_its_port(command)
    }

    /// nginx, with HTTP/2.
    pub(crate) fn nginx(certificates: &Certificates, dir: &Path) -> Self {
        let [cert, key] = certificates.pair("good");
        std::fs::write(dir.join("page"), "a page").expect("a file");
        for _ in 0..5 {
            // Free now; should another program take it before the server does, another one is tried.
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let port = free.expect("a free port").port();
            let (text, config) = (dir.display(), dir.join("nginx.conf"));
            let content = format!(
                "daemon off; master_process off; pid {text}/pid; error_log {text}/log; events {{}}
                 http {{
                     access_log off; client_body_temp_path {text}/body; proxy_temp_path {text}/proxy;
                     fastcgi_temp_path {text}/fastcgi; uwsgi_temp_path {text}/uwsgi; scgi_temp_path {text}/scgi;
                     server {{
                         listen 127.0.0.1:{port} ssl http2; root {text};
                         ssl_certificate {cert}; ssl_certificate_key {key};
                     }}
                 }}"
            );
            std::fs::write(&config, content).expect("a file");
            let mut command = Command::new("nginx");
            command.arg("-e").arg(dir.join("log")).arg("-p").arg(dir).arg("-c").arg(config);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
            let hang = Instant::now() + Duration::from_secs(60);
            while child.try_wait().expect("a child").is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Self { child, port, stdout: None };
                }
                assert!(Instant::now() < hang, "nginx does not listen");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        panic!("nginx found no free port");
    }

    /// Python's own: answers `/whole` with a body until the end of the stream, and `/cut` with one that is cut.
    pub(crate) fn python(certificates: &Certificates) -> Self {
        let mut command = Command::new("python3");
        command.arg(source("server.py")).args(certificates.pair("good"));
        Self::that_says_its_port(command)
    }

    /// Go's own, which says under `/version` by which version it was asked.
    pub(crate) fn go(certificates: &Certificates, go: &Path) -> Self {
        let binary = certificates.path("server");
        let mut build = Command::new(go);
        build
            .arg("build")
            .arg("-o")
            .arg(&binary)
            .arg(source("../../../../client/tests/behaviours/support/real/server.go"));
        assert!(build.status().expect("it runs").success(), "the Go program does not build");
        let mut command = Command::new(binary);
        command.arg(certificates.dir.path()).args(certificates.pair("good"));
        Self::that_says_its_port(command)
    }

    /// Starts what says on which port it listens: the last number of a line.
    fn that_says_its_port(mut command: Command) -> Self {
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut server = Self { child: started.expect("it starts"), port: 0, stdout: None };
        let mut stdout = BufReader::new(server.child.stdout.take().expect("its output"));
        while server.port == 0 {
            let mut line = String::new();
            let read = stdout.read_line(&mut line).expect("text");
            assert!(read > 0, "it ended, and did not say where it listens");
            server.port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(0);
        }
        server.stdout = Some(stdout);
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where Go is, if it is installed.
pub(crate) fn go() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Where Go's own installer puts it.
    let folders = std::env::split_paths(&path).chain(["/usr/local/go/bin".into()]);
    let found = folders.map(|folder| folder.join("go")).find(|file| file.is_file());
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "this test needs go; install it");
    if found.is_none() {
        crate::skipped::say("go is not installed");
    }
    found
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/behaviours/tls_peers").join(name)
}
