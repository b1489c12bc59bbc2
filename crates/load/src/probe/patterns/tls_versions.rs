//! Which versions of TLS the server speaks: a first message for each of them, and the first message of its answer. No handshake is finished, so
//! no certificate is looked at.

use anywire_wire::{Address, Connection, DialError, Dialer};
use tokio::time::timeout_at;

use super::super::target::Target;

/// The versions that the server agrees to, the oldest first. `None` if they cannot be asked for: TLS is a part of the wire.
///
/// # Errors
///
/// There was no connection.
pub(crate) async fn tls_versions(target: &Target) -> Result<Option<Vec<String>>, DialError> {
    let Some(address) = &target.clear_address else { return Ok(None) };
    let mut spoken = Vec::new();
    for version in &VERSIONS {
        if version.is_spoken(target, address).await? {
            spoken.push(version.name.to_owned());
        }
    }
    Ok(Some(spoken))
}

struct Version {
    name: &'static str,
    /// Its number on the wire (RFC 8446 section 4.2.1).
    number: u16,
    /// Suites that servers of it have, with and without forward secrecy.
    suites: &'static [u16],
}

const VERSIONS: [Version; 4] = [
    Version { name: "TLSv1.0", number: 0x0301, suites: OLD },
    Version { name: "TLSv1.1", number: 0x0302, suites: OLD },
    Version { name: "TLSv1.2", number: TLS_1_2, suites: OF_1_2 },
    Version { name: "TLSv1.3", number: TLS_1_3, suites: OF_1_3 },
];

impl Version {
    async fn is_spoken(&self, target: &Target, address: &Address) -> Result<bool, DialError> {
        let mut connection = Dialer::new(target.dial_options().clone()).dial(address).await?;
        let answer = async {
            connection.write_all(&self.hello(target.server_name())).await.ok()?;
            first_message(&mut connection).await
        };
        // A server that closes, or says nothing, does not speak it.
        let answer = timeout_at(target.patience().into(), answer).await.ok().flatten();
        Ok(answer.is_some_and(|answer| self.is_agreed(&answer)))
    }

    /// A ClientHello in a record (RFC 8446 section 4.1.2, RFC 5246 section 7.4.1.2).
    fn hello(&self, server_name: &str) -> Vec<u8> {
        let mut extensions = Vec::new();
        let mut extension = |kind: u16, content: &[u8]| {
            extensions.extend_from_slice(&kind.to_be_bytes());
            with_length(&mut extensions, content);
        };
        if server_name.parse::<std::net::IpAddr>().is_err() {
            let mut name = vec![0];
            with_length(&mut name, server_name.as_bytes());
            let mut names = Vec::new();
            with_length(&mut names, &name);
            extension(SERVER_NAME, &names);
        }
        // x25519, P-256, P-384.
        extension(SUPPORTED_GROUPS, &[0, 6, 0, 29, 0, 23, 0, 24]);
        extension(POINT_FORMATS, &[1, 0]);
        if self.number >= TLS_1_2 {
            extension(SIGNATURE_ALGORITHMS, &list_of(SIGNATURES));
        }
        if self.number == TLS_1_3 {
            let [high, low] = TLS_1_3.to_be_bytes();
            extension(SUPPORTED_VERSIONS, &[2, high, low]);
            // No key: the server asks for one, which says as much.
            extension(KEY_SHARE, &[0, 0]);
        }
        // TLS 1.3 has the number of its predecessor here, and names itself in an extension.
        let mut body = self.number.min(TLS_1_2).to_be_bytes().to_vec();
        body.extend_from_slice(RANDOM);
        // No session.
        body.push(0);
        body.extend_from_slice(&list_of(self.suites));
        // No compression.
        body.extend_from_slice(&[1, 0]);
        with_length(&mut body, &extensions);
        // As long as two bytes can say.
        let mut message = vec![CLIENT_HELLO, 0];
        with_length(&mut message, &body);
        let mut record = vec![HANDSHAKE, 3, 1];
        with_length(&mut record, &message);
        record
    }

    /// Whether a message is a ServerHello of this version.
    fn is_agreed(&self, message: &[u8]) -> bool {
        let [SERVER_HELLO, _, _, _, high, low, rest @ ..] = message else { return false };
        let number = u16::from_be_bytes([*high, *low]);
        // Behind 32 random bytes and the session stands the suite, of which TLS 1.3 has its own.
        let session = usize::from(rest.get(32).copied().unwrap_or_default());
        let suite = rest.get(33 + session..35 + session).map(|suite| [suite[0], suite[1]]);
        let is_of_1_3 = suite.is_some_and(|suite| OF_1_3.contains(&u16::from_be_bytes(suite)));
        if self.number == TLS_1_3 {
            is_of_1_3
        } else {
            number == self.number && suite.is_some() && !is_of_1_3
        }
    }
}

/// The first message of the handshake, if it comes in one record. An alert is none.
async fn first_message(connection: &mut Connection) -> Option<Vec<u8>> {
    let mut came = Vec::new();
    let mut part = [0; 4096];
    loop {
        if let Some((header, rest)) = came.split_first_chunk::<RECORD_HEADER_BYTES>() {
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            if header[0] != HANDSHAKE {
                return None;
            }
            if let Some(record) = rest.get(..length) {
                return Some(record.to_vec());
            }
        }
        match connection.read(&mut part).await {
            Ok(count @ 1..) => came.extend_from_slice(&part[..count]),
            _ => return None,
        }
    }
}

/// Appends what has a length of two bytes before it.
fn with_length(out: &mut Vec<u8>, content: &[u8]) {
    // Names of hosts are short, and all else is fixed.
    out.extend_from_slice(&u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(content);
}

/// Numbers of two bytes, with their length before them.
fn list_of(numbers: &[u16]) -> Vec<u8> {
    let mut list = Vec::new();
    with_length(&mut list, &numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>());
    list
}

const TLS_1_2: u16 = 0x0303;
const TLS_1_3: u16 = 0x0304;
/// Types of records and of messages.
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const RECORD_HEADER_BYTES: usize = 5;
/// Types of extensions.
const SERVER_NAME: u16 = 0;
const SUPPORTED_GROUPS: u16 = 10;
const POINT_FORMATS: u16 = 11;
const SIGNATURE_ALGORITHMS: u16 = 13;
const SUPPORTED_VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;
/// Nothing is kept secret by it.
const RANDOM: &[u8; 32] = b"anywire probes which TLS it has.";
/// AES with CBC and SHA-1, by ECDHE or RSA; triple DES; and that renegotiation is safe (RFC 5746).
const OLD: &[u16] = &[0xc00a, 0xc014, 0xc009, 0xc013, 0x0035, 0x002f, 0x000a, 0x00ff];
/// The same with AEAD.
const OF_1_2: &[u16] = &[
    0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0x009c, 0x009d, 0xc00a, 0xc014, 0xc009, 0xc013, 0x0035,
    0x002f, 0x00ff,
];
const OF_1_3: &[u16] = &[0x1301, 0x1302, 0x1303];
/// ECDSA with P-256 and P-384, RSA-PSS, Ed25519, RSA of PKCS #1 with SHA-256, SHA-384, SHA-512 and SHA-1.
const SIGNATURES: &[u16] =
    &[0x0403, 0x0503, 0x0804, 0x0805, 0x0806, 0x0807, 0x0401, 0x0501, 0x0601, 0x0203, 0x0201];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A ServerHello with this number and suite.
    fn server_hello(number: u16, suite: u16) -> Vec<u8> {
        let [number, suite] = [number, suite].map(u16::to_be_bytes);
        [&[SERVER_HELLO, 0, 0, 70][..], &number, &[7; 32], &[4, 1, 2, 3, 4], &suite, &[0]].concat()
    }

    #[test]
    fn an_answer_is_of_one_version() {
        let spoken = |answer: &[u8]| {
            let spoken = VERSIONS.iter().filter(|version| version.is_agreed(answer));
            spoken.map(|version| version.name).collect::<Vec<_>>()
        };
        assert_eq!(spoken(&server_hello(0x0301, 0xc014)), ["TLSv1.0"]);
        assert_eq!(spoken(&server_hello(0x0302, 0x002f)), ["TLSv1.1"]);
        assert_eq!(spoken(&server_hello(0x0303, 0xc02f)), ["TLSv1.2"]);
        assert_eq!(spoken(&server_hello(0x0303, 0x1301)), ["TLSv1.3"]);
        assert!(spoken(&[]).is_empty() && spoken(&[SERVER_HELLO, 0, 0, 2, 3, 3]).is_empty());
    }

    #[test]
    fn a_hello_has_the_lengths_that_it_states() {
        for version in &VERSIONS {
            let hello = version.hello("shop.example");
            let length = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
            assert_eq!((hello[0], length(3)), (HANDSHAKE, hello.len() - 5));
            assert_eq!((hello[5], hello[6], length(7)), (CLIENT_HELLO, 0, hello.len() - 9));
            let named = hello.windows(12).any(|part| part == b"shop.example");
            assert!(named, "{}", version.name);
            assert!(!version.hello("127.0.0.1").windows(9).any(|part| part == b"127.0.0.1"));
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_of_a_version_or_of_none(answer in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(VERSIONS.iter().filter(|version| version.is_agreed(&answer)).count() <= 1);
        }
    }
}
