//! The certificates of `anywire serve`: from files, which SIGHUP reads again, or made for a trial.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anywire::Chain;
use anywire::wire::Address;
use anywire::wire::tls::{ClientCertificates, Identity, MinVersion, ServerTls, ServerTlsOptions, TlsError};
use clap::{Args, ValueEnum};
use rcgen::{CertificateParams, DnType, KeyPair};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Code, Failure};

/// How a service proves itself, and whom it serves.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS, for addresses such as tls:0.0.0.0:8443")]
pub(crate) struct Certificates {
    /// Show this certificate with its chain (PEM); repeat --cert and --key for other names. SIGHUP reads the files again
    #[arg(long, value_name = "FILE")]
    cert: Vec<PathBuf>,
    /// The private key of each --cert, in the same order (PEM)
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// For a trial: make a certificate for localhost, this host's name and the addresses, and say how to trust it
    #[arg(long, conflicts_with_all = ["cert", "key"])]
    tls_self_signed: bool,
    /// Serve only clients that show a certificate which one of these has signed (PEM)
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Serve clients that show no certificate, too
    #[arg(long, requires = "client_ca")]
    client_ca_optional: bool,
    /// Serve clear text on the same ports, too
    #[arg(long)]
    tls_and_clear_text: bool,
    /// The oldest version of TLS that is spoken
    #[arg(long, value_enum, value_name = "VERSION", default_value_t)]
    tls_min: Oldest,
    /// Write the keys of connections to the file that SSLKEYLOGFILE names, to read captures with
    #[arg(long)]
    ssl_key_log: bool,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Oldest {
    #[default]
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

/// The certificates of a service that runs.
pub(crate) struct Loaded {
    pub(crate) tls: ServerTls,
    made: Option<Made>,
}

/// A certificate for a trial, in a file for those who are to trust it. The file goes with the service.
struct Made {
    identity: Identity,
    file: PathBuf,
}

impl Certificates {
    /// Whether a certificate was given, or is to be made.
    pub(crate) fn are_given(&self) -> bool {
        self.tls_self_signed || !self.cert.is_empty() || !self.key.is_empty()
    }

    /// Loads or makes them for a service at these addresses; `None` if none of the addresses speaks TLS.
    pub(crate) fn load(&self, addresses: &[Address]) -> Result<Option<Loaded>, Failure> {
        let secure = addresses.iter().find(|address| speaks_tls(address));
        match secure {
            None if self.are_given() || self.client_ca.is_some() => {
                let message = "serving with TLS: none of the addresses speaks it";
                Err(Failure::new(Code::Usage, message)
                    .help("listen where TLS is spoken: --listen tls:0.0.0.0:8443"))
            }
            None => Ok(None),
            Some(address) if !self.are_given() => {
                let message = format_args!("listening on {address}: TLS needs a certificate");
                let help = "give --cert FILE and --key FILE, or --tls-self-signed for a trial";
                Err(Failure::new(Code::Usage, message).help(help))
            }
            Some(_) if self.cert.len() != self.key.len() => {
                let (certs, keys) = (self.cert.len(), self.key.len());
                let message = format_args!("loading certificates: there are {certs} --cert and {keys} --key");
                Err(Failure::new(Code::Usage, message)
                    .help("give each --cert FILE its --key FILE, in the same order"))
            }
            Some(_) if self.ssl_key_log && std::env::var_os("SSLKEYLOGFILE").is_none() => {
                let message = "writing the keys of connections: SSLKEYLOGFILE names no file";
                Err(Failure::new(Code::Usage, message)
                    .help("set it: SSLKEYLOGFILE=keys.txt anywire serve .."))
            }
            Some(_) => {
                let made = if self.tls_self_signed { Some(Made::new(addresses)?) } else { None };
                let help = "check the files of --cert, --key and --client-ca";
                let refused = |error: TlsError| Failure::of(Code::Failed, &error).or_help(help);
                let tls = ServerTls::new(self.options(made.as_ref()).map_err(refused)?).map_err(refused)?;
                Ok(Some(Loaded { tls, made }))
            }
        }
    }

    /// Reads all files.
    fn options(&self, made: Option<&Made>) -> Result<ServerTlsOptions, TlsError> {
        let files = self.cert.iter().zip(&self.key);
        let identities: Result<Vec<_>, _> = match made {
            Some(made) => Ok(vec![made.identity.clone()]),
            None => files.clone().map(|(cert, key)| Identity::from_files(cert, key)).collect(),
        };
        let identities = identities?;
        for (identity, (cert, _)) in identities.iter().zip(files) {
            tell(identity, cert);
        }
        let clients = match &self.client_ca {
            None => ClientCertificates::ignored(),
            Some(roots) => {
                let required = ClientCertificates::required_file(roots)?;
                if self.client_ca_optional { required.or_none() } else { required }
            }
        };
        Ok(ServerTlsOptions {
            identities,
            clients,
            min_version: match self.tls_min {
                Oldest::Tls12 => MinVersion::Tls12,
                Oldest::Tls13 => MinVersion::Tls13,
            },
            takes_clear_text: self.tls_and_clear_text,
            key_log_file: self.ssl_key_log,
        })
    }

    /// From now on SIGHUP reads the files again. A mistake in them is logged, and what was loaded before is used further.
    pub(crate) fn reload_on_signal(self, loaded: &Loaded) -> Result<(), Failure> {
        if loaded.made.is_some() {
            return Ok(());
        }
        let unwatched = |cause: io::Error| {
            let message = format_args!("watching for SIGHUP failed: {cause}");
            Failure::new(Code::Failed, message).help("a higher limit on open files may help")
        };
        // A thread of its own: files block.
        let runtime = Builder::new_current_thread().enable_io().build().map_err(unwatched)?;
        let mut hangups = {
            let _context = runtime.enter();
            signal(SignalKind::hangup()).map_err(unwatched)?
        };
        let tls = loaded.tls.clone();
        let watch = move || {
            while runtime.block_on(hangups.recv()).is_some() {
                match self.options(None).and_then(|options| tls.replace(options)) {
                    Ok(()) => tracing::info!("new connections are shown these certificates"),
                    Err(error) => tracing::error!(
                        "reading the certificates again failed, those of before are used further: {}",
                        Chain(&error)
                    ),
                }
            }
        };
        std::thread::Builder::new().name("certificates".to_owned()).spawn(watch).map_err(unwatched)?;
        Ok(())
    }
}

impl Loaded {
    /// How to trust a certificate that was made for a trial, once it is known where the service listens: by the first address
    /// that curl reaches, else by the first with TLS.
    pub(crate) fn how_to_trust(&self, addresses: &[&Address]) -> Option<String> {
        let file = self.made.as_ref()?.file.display();
        let get = format!("anywire get --cacert {file}");
        let curl = format!("curl --cacert {file}");
        let by_url = |address: &&Address| {
            let url = url(address)?;
            Some(format!("one of\n  {get} {url}\n  {curl} {url}"))
        };
        let by_path = |address: &&Address| {
            let path = address.location();
            let is_path = address.scheme() == "tls+unix" && path.starts_with('/');
            is_path.then(|| {
                format!("one of\n  {get} --via {address} {SELF}\n  {curl} --unix-socket {path} {SELF}",)
            })
        };
        let by_wire =
            |address: &&Address| speaks_tls(address).then(|| format!("\n  {get} --via {address} {SELF}"));
        let all = addresses.iter();
        let ways = all.clone().find_map(by_url).or_else(|| all.clone().find_map(by_path));
        let ways = ways.or_else(|| all.clone().find_map(by_wire))?;
        let days = VALID_FOR.as_secs() / (24 * 3600);
        Some(format!(
            "for {days} days and as long as this runs, its certificate is in {file}; trust it with {ways}"
        ))
    }
}

impl Made {
    /// For this machine's names, and for the addresses that are listened at.
    fn new(addresses: &[Address]) -> Result<Self, Failure> {
        let failed = |cause: rcgen::Error| {
            Failure::new(Code::Failed, format_args!("making a certificate failed: {cause}"))
        };
        let mut names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        names.extend(host_name());
        let hosts = addresses.iter().filter_map(host).map(|host| host.trim_matches(['[', ']']));
        let listened: Vec<IpAddr> = hosts.filter_map(|host| host.parse().ok()).collect();
        names.extend(
            listened
                .into_iter()
                .filter(|ip| !ip.is_unspecified() && !ip.is_loopback())
                .map(|ip| ip.to_string()),
        );
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, "anywire serve --tls-self-signed");
        let now = SystemTime::now();
        // Clocks differ.
        params.not_before = (now - Duration::from_secs(3600)).into();
        params.not_after = (now + VALID_FOR).into();
        let chain = params.self_signed(&key).map_err(failed)?.pem();
        let identity = Identity::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes());
        let identity = identity.map_err(|error| Failure::of(Code::Failed, &error))?;
        let file = write(&chain).map_err(|cause| {
            let folder = std::env::temp_dir();
            let message = format_args!("writing a certificate to {} failed: {cause}", folder.display());
            Failure::new(Code::Failed, message).help("set TMPDIR to a folder that can be written")
        })?;
        Ok(Self { identity, file })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // It is of no use any more, and its key is gone.
        let _ = fs::remove_file(&self.file);
    }
}

/// Whether this is an address of a wire with TLS.
pub(crate) fn speaks_tls(address: &Address) -> bool {
    address.scheme().split('+').next() == Some("tls")
}

/// The URL of a service on a wire without hosts: a name that its certificate has.
const SELF: &str = "https://localhost/";

/// The URL at which a service on an address with TLS is called from this machine, on wires that have hosts and ports.
pub(crate) fn url(address: &Address) -> Option<String> {
    let port = address.port().filter(|_| speaks_tls(address))?;
    let host = match address.ip() {
        Some(ip) if ip.is_unspecified() || ip.is_loopback() => "localhost".to_owned(),
        // A zone of IPv6 as URLs have it.
        _ => host(address)?.replace('%', "%25"),
    };
    Some(format!("https://{host}:{port}/"))
}

/// The host of an address, without the device that it may be on.
fn host(address: &Address) -> Option<&str> {
    let (host, _) = address.location().rsplit_once(':')?;
    Some(host.rsplit_once('/').map_or(host, |(_, host)| host))
}

/// Logs what a file has.
fn tell(identity: &Identity, file: &Path) {
    let (file, names) = (file.display(), identity.names().join(", "));
    let expires = identity.expires().map(httpdate::fmt_http_date).unwrap_or_default();
    if identity.expires().is_some_and(|expires| expires < SystemTime::now()) {
        tracing::warn!(%file, names, expires, "this certificate has expired; clients will refuse it");
    } else {
        tracing::info!(%file, names, expires, "certificate");
    }
}

/// The name of this host, if a certificate can have it.
fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim().to_ascii_lowercase();
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || ".-".contains(letter);
    (!name.is_empty() && name != "localhost" && name.chars().all(is_of_name)).then_some(name)
}

/// Writes to a new file in the folder for such.
fn write(certificate: &str) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let name = format!("anywire-self-signed-{}-{number}.pem", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Never through a link that another user has put there.
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => return file.write_all(certificate.as_bytes()).map(|()| path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// A trial is over then.
const VALID_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
