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
        if trusts_as_ever && self.cert.is_none() && self.tls_min == Version::Tls12 && !self.ssl_key_log {
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
            key_log_file: self.ssl_key_log,
            dangerously_accept_any_certificate: self.insecure,
            ..ClientTlsOptions::default()
        };
        ClientTls::new(options).map(Some).map_err(|error| match error {
            TlsError::Mismatch { .. } => unusable(Code::OwnCertificate, &error),
            _ => unusable(Code::Roots, &error),
        })
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

const PIN_PREFIX: &str = "sha256//";

/// What an alert says to a call that offers another version of HTTP than the server speaks.
const NO_PROTOCOL: &str = "none of the application protocols that were offered";

const UNTRUSTED: &str =
    "if you know it, trust it or its root with --cacert FILE; --insecure believes whoever answers";
