//! TLS as options, for all commands that call: whom they trust, what they show, which versions they take.

use std::fmt::Write as _;
use std::path::PathBuf;

use anywire::advice::Message;
use anywire::wire::Negotiated;
use anywire::wire::tls::{
    ClientTls, ClientTlsOptions, HandshakeError, Identity, MinVersion, Roots, TlsError,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::{Args, ValueEnum};

use crate::failure::{Code, Failure};
use crate::output;

/// How TLS is spoken with `https` URLs, and over wires with TLS.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct Trust {
    /// Trust these certificates (PEM) instead of the platform's roots
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// The certificate to show if the server asks for one (PEM), then those that sign it
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Its private key (PEM) [default: it is in the file of --cert]
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Take a server only if its key is one of these, besides all other checks: 'sha256//DIGEST', with ';' between several
    #[arg(long, hide_short_help = true, value_name = "PINS", value_parser = pins)]
    pinnedpubkey: Option<Pins>,
    /// Talk to everybody, whatever certificate they show: for trials only
    #[arg(short = 'k', long)]
    insecure: bool,
    /// The oldest version that is spoken
    #[arg(long, hide_short_help = true, value_name = "VERSION", value_enum, default_value_t = Version::Tls12)]
    tls_min: Version,
    /// The cipher suites of TLS 1.2 that are offered, with ':' between them, by OpenSSL's names or those of IANA
    #[arg(long, hide_short_help = true, value_name = "SUITES", value_parser = suites_of_tls12)]
    ciphers: Option<Suites>,
    /// The cipher suites of TLS 1.3 that are offered, with ':' between them
    #[arg(long, hide_short_help = true, value_name = "SUITES", value_parser = suites_of_tls13)]
    tls13_ciphers: Option<Suites>,
    /// The name that the server has to prove, instead of the URL's host
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    servername: Option<String>,
    /// Write the keys of connections to the file that SSLKEYLOGFILE names, with which captures can be read
    #[arg(long, hide_short_help = true)]
    ssl_key_log: bool,
}

/// SHA-256 digests of public keys.
#[derive(Debug, Clone)]
struct Pins(Vec<[u8; 32]>);

/// Reads pins as curl does.
fn pins(text: &str) -> Result<Pins, String> {
    let digest = |pin: &str| -> Option<[u8; 32]> {
        BASE64_STANDARD.decode(pin.strip_prefix(PIN_PREFIX)?).ok()?.try_into().ok()
    };
    text.split(';').map(digest).collect::<Option<Vec<_>>>().map(Pins).ok_or_else(|| {
        "a pin is 'sha256//' and the SHA-256 digest of a public key in base64, 44 characters; 'anywire get -v URL' shows that of \
         a server"
            .to_owned()
    })
}

/// Names of cipher suites at IANA, the best one first.
#[derive(Debug, Clone)]
struct Suites(Vec<String>);

fn suites_of_tls12(text: &str) -> Result<Suites, String> {
    let iana = |name: &str| {
        let known = TLS12_SUITES.iter().find(|(iana, openssl)| name == *iana || name == *openssl);
        known.map(|(iana, _)| (*iana).to_owned())
    };
    suites(text, iana).ok_or_else(|| unknown_suite(&TLS12_SUITES.map(|(_, openssl)| openssl)))
}

fn suites_of_tls13(text: &str) -> Result<Suites, String> {
    let iana = |name: &str| TLS13_SUITES.contains(&name).then(|| name.to_owned());
    suites(text, iana).ok_or_else(|| unknown_suite(&TLS13_SUITES))
}

fn suites(text: &str, iana: impl Fn(&str) -> Option<String>) -> Option<Suites> {
    // As with curl, what stands between them may be a comma or a space.
    text.split([':', ',', ' ']).map(iana).collect::<Option<_>>().map(Suites)
}

fn unknown_suite(known: &[&str]) -> String {
    format!("use some of {}", known.join(":"))
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Version {
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

impl Trust {
    /// How a client speaks TLS; `None` if it is to be as the platform has it.
    pub(crate) fn client_tls(&self) -> Result<Option<ClientTls>, Failure> {
        if self.insecure {
            output::say(
                "warning: --insecure: whoever answers is believed, and could read and alter everything",
            );
        }
        if self.ssl_key_log && std::env::var_os("SSLKEYLOGFILE").is_none_or(|name| name.is_empty()) {
            let failure = Failure::new(Code::Usage, "writing keys: no file is named");
            return Err(failure.help("name one: SSLKEYLOGFILE=FILE anywire ..."));
        }
        let trusts_as_ever = self.cacert.is_none() && self.pinnedpubkey.is_none() && !self.insecure;
        let speaks_as_ever =
            self.tls_min == Version::Tls12 && self.ciphers.is_none() && self.tls13_ciphers.is_none();
        if trusts_as_ever && speaks_as_ever && self.cert.is_none() && !self.ssl_key_log {
            return Ok(None);
        }
        let roots = self.cacert.as_ref().map_or_else(|| Ok(Roots::platform()), Roots::only_file);
        let options = ClientTlsOptions {
            roots: roots.map_err(|error| unusable(Code::Roots, &error))?,
            pins: self.pinnedpubkey.as_ref().map_or_else(Vec::new, |pins| pins.0.clone()),
            identity: self.identity().map_err(|error| unusable(Code::OwnCertificate, &error))?,
            min_version: match self.tls_min {
                Version::Tls12 => MinVersion::Tls12,
                Version::Tls13 => MinVersion::Tls13,
            },
            cipher_suites: self.cipher_suites(),
            key_log_file: self.ssl_key_log,
            dangerously_accept_any_certificate: self.insecure,
            ..ClientTlsOptions::default()
        };
        ClientTls::new(options).map(Some).map_err(|error| match error {
            TlsError::Mismatch { .. } => unusable(Code::OwnCertificate, &error),
            _ => unusable(Code::Roots, &error),
        })
    }

    /// Those of both versions, or none if all are offered. What is named for one version leaves the other one as it is.
    fn cipher_suites(&self) -> Vec<String> {
        if self.ciphers.is_none() && self.tls13_ciphers.is_none() {
            return Vec::new();
        }
        let names = |suites: &Option<Suites>, all: &[&str]| match suites {
            Some(Suites(names)) => names.clone(),
            None => all.iter().map(|&name| name.to_owned()).collect(),
        };
        let mut suites = names(&self.tls13_ciphers, &TLS13_SUITES);
        suites.extend(names(&self.ciphers, &TLS12_SUITES.map(|(iana, _)| iana)));
        suites
    }

    /// Whether whoever answers is believed.
    pub(crate) fn is_insecure(&self) -> bool {
        self.insecure
    }

    fn identity(&self) -> Result<Option<Identity>, TlsError> {
        let Some(cert) = &self.cert else { return Ok(None) };
        Identity::from_files(cert, self.key.as_ref().unwrap_or(cert)).map(Some)
    }

    /// The name to ask for, if it is not the URL's host.
    pub(crate) fn server_name(&self) -> Option<&str> {
        self.servername.as_deref()
    }
}

fn unusable(code: Code, error: &TlsError) -> Failure {
    let message = Message::read(format_args!("reading certificates: {error}"));
    Failure::of_message(code, message).or_help(
        "name files in PEM that this user can read; 'openssl x509 -in FILE -noout -subject' shows one",
    )
}

/// What would help against a failed handshake, by the options of a command.
pub(crate) fn help(error: &HandshakeError) -> &'static str {
    match error {
        _ if error.is_untrusted() => UNTRUSTED,
        _ if error.is_nameless() => {
            "have it made anew with its names in it: for a trial, openssl req -addext subjectAltName=DNS:localhost"
        }
        _ if error.is_wrong_name() => {
            "call it by a name of its certificate, or name that one with --servername"
        }
        _ if error.is_out_of_date() => {
            "have the server's certificate replaced, or check this machine's clock; --insecure goes on all the same"
        }
        _ if error.is_not_pinned() => {
            "if the server's key was changed on purpose, pin the new one with --pinnedpubkey; 'get -v' shows it"
        }
        _ if error.is_clear_text() => "check the port, or call it without TLS: http://",
        _ if error.is_own_certificate() => "show a certificate that it accepts with --cert and --key",
        _ if error.to_string().contains("misses a certificate") => {
            "if it wants a certificate, show one with --cert and --key; else see the server's log"
        }
        _ if error.to_string().contains(NO_PROTOCOL) => "leave out --http1 or --http2",
        _ => error.remedy(),
    }
}

/// As [`help`], for a load, which has the words alone.
pub(crate) fn help_with(found: &str) -> Option<&'static str> {
    let known = [
        ("nobody who is trusted", UNTRUSTED),
        (
            "none of those that are pinned",
            "pin the key that it has with --pinnedpubkey; 'anywire get -v' shows that",
        ),
        ("another name", "call it by a name of its certificate, or name that one with --servername"),
        ("speaks no TLS on this port", "check the port, or load it without TLS: http://"),
        ("a certificate of this end", "show one with --cert and --key"),
        ("misses a certificate", "if it wants a certificate, show one with --cert and --key"),
        ("does not agree to HTTP/2", "leave out --http2, or let the server offer h2"),
        (
            NO_PROTOCOL,
            "let the server offer the version, or ask for the other one: load speaks HTTP/1.1 without --http2",
        ),
    ];
    known.into_iter().find(|(part, _)| found.contains(part)).map(|(_, help)| help)
}

/// What was agreed on, a line each, as curl shows it.
pub(crate) fn lines(tls: &Negotiated) -> String {
    let text = |part: &Option<String>| part.clone().unwrap_or_else(|| "unknown".to_owned());
    let resumed = if tls.is_resumed { ", resumed" } else { "" };
    let mut lines = format!("{}, {}{resumed}\n", text(&tls.version), text(&tls.cipher_suite));
    match &tls.protocol {
        Some(protocol) => lines.push_str(&format!("ALPN: {protocol}\n")),
        None => lines.push_str("ALPN: the server chose nothing\n"),
    }
    if let Some(digest) = tls.peer_key_digest() {
        lines.push_str(&format!("key: {PIN_PREFIX}{}\n", BASE64_STANDARD.encode(digest)));
    }
    for (what, who) in [("subject", tls.peer_subject()), ("issuer", tls.peer_issuer())] {
        // Writing to a string does not fail.
        let _ = who.map(|who| writeln!(lines, "{what}: {who}"));
    }
    lines
}

/// The peer's certificates, its own first: whom each names, who has signed it, and itself as PEM.
pub(crate) fn certificates(tls: &Negotiated) -> String {
    let mut all = String::new();
    for der in &tls.peer_certificates {
        let mut one = Negotiated::default();
        one.peer_certificates = vec![der.clone()];
        for (what, who) in [("Subject", one.peer_subject()), ("Issuer", one.peer_issuer())] {
            // Writing to a string does not fail.
            let _ = who.map(|who| writeln!(all, "{what}:{who}"));
        }
        all.push_str("Cert:-----BEGIN CERTIFICATE-----\n");
        let text = BASE64_STANDARD.encode(der);
        for line in text.as_bytes().chunks(PEM_LINE) {
            all.push_str(&String::from_utf8_lossy(line));
            all.push('\n');
        }
        all.push_str("-----END CERTIFICATE-----\n");
    }
    all
}

/// Letters of a line (RFC 7468 section 2).
const PEM_LINE: usize = 64;

/// Best first, as the library offers them.
const TLS13_SUITES: [&str; 3] =
    ["TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"];

/// By their names at IANA and at OpenSSL.
const TLS12_SUITES: [(&str, &str); 6] = [
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
];

const PIN_PREFIX: &str = "sha256//";

/// What an alert says to a call that offers another version of HTTP than the server speaks.
const NO_PROTOCOL: &str = "none of the application protocols that were offered";

const UNTRUSTED: &str =
    "if you know it, trust it or its root with --cacert FILE; --insecure believes whoever answers";
