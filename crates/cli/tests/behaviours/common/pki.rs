//! An authority that signs certificates for one run of a test, and files of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// Signs certificates. Its folder goes with it.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
    /// The file of its own certificate, which is to be trusted.
    pub(crate) root: PathBuf,
}

/// The files of a certificate.
#[derive(Clone)]
pub(crate) struct Signed {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = params(&[], name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = folder.path().join("root.pem");
        write(&root, &params.self_signed(&key).expect("a certificate").pem());
        Self { issuer: Issuer::new(params, key), folder, root }
    }

    /// A certificate for these names, as files `NAME.pem` and `NAME.key`.
    pub(crate) fn signs(&self, file: &str, names: &[&str]) -> Signed {
        self.signs_until(file, names, SystemTime::now() + DAY)
    }

    pub(crate) fn signs_until(&self, file: &str, names: &[&str], end: SystemTime) -> Signed {
        let mut params = params(names, file);
        params.not_before = (end - 2 * DAY).into();
        params.not_after = end.into();
        let key = KeyPair::generate().expect("a key");
        let signed =
            Signed { cert: self.file(&format!("{file}.pem")), key: self.file(&format!("{file}.key")) };
        write(&signed.cert, &params.signed_by(&key, &self.issuer).expect("a certificate").pem());
        write(&signed.key, &key.serialize_pem());
        signed
    }

    /// A file in its folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn params(names: &[&str], subject: &str) -> CertificateParams {
    let names = names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let mut params = CertificateParams::new(names).expect("names that a certificate can have");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, subject);
    params
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("the folder can be written");
}

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
