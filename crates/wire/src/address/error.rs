//! Why a text is not an address.

use anywire_advice::Advice;

use crate::wires::wires;

/// Why a text is not an address. The fault is in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// There is no `WIRE:` in front.
    #[error(
        "{text:?} is no address: it names no wire{help}",
        help = Advice(format_args!("write WIRE:WHERE, such as tcp:{text} ({})", known()))
    )]
    NoWire {
        /// The text that was parsed.
        text: String,
    },
    /// This build has no such wire.
    #[error("{text:?} is no address: there is no wire {wire:?}{help}", help = Advice(format_args!("{}known are {}", meant(wire), known())))]
    UnknownWire {
        /// The text that was parsed.
        text: String,
        /// The part before the colon.
        wire: String,
    },
    /// This build has no such wire, because the Cargo feature for it is off.
    #[error(
        "{text:?} is no address: this build has no wire {wire:?}{help}",
        help = Advice(format_args!("build it with {features}"))
    )]
    Feature {
        /// The text that was parsed.
        text: String,
        /// The part before the colon.
        wire: String,
        /// What is to be switched on, in words.
        features: &'static str,
    },
    /// Datagrams are received and sent at addresses of their own.
    #[cfg(feature = "udp")]
    #[error(
        "{text:?} is no address for datagrams{help}",
        help = Advice("write udp:HOST:PORT, such as udp:127.0.0.1:53, or unixgram:PATH")
    )]
    NoDatagrams {
        /// The text that was parsed.
        text: String,
    },
    /// An option is unknown to the wire, stands twice, or has a bad value.
    #[error("{text:?} is no address: {wrong} (a literal \"?\" is written %3F)")]
    Option {
        /// The text that was parsed.
        text: String,
        /// The option that is wrong, and how.
        wrong: String,
    },
    /// The part behind the colon is not in the form of this wire.
    #[error("{text:?} is no address: {wrong}{help}", help = Advice(format_args!("expected {expected}")))]
    Location {
        /// The text that was parsed.
        text: String,
        /// The part that is wrong, and how.
        wrong: String,
        /// The form that the wire expects.
        expected: &'static str,
    },
}

impl AddressError {
    /// For a text whose wire this build does not have.
    pub(super) fn of_unknown(text: &str, wire: &str) -> Self {
        let (text, of_feature) = (text.to_owned(), features(wire));
        let wire = wire.to_owned();
        match of_feature {
            Some(features) => Self::Feature { text, wire, features },
            None => Self::UnknownWire { text, wire },
        }
    }

    /// The text that was parsed.
    pub fn text(&self) -> &str {
        match self {
            Self::NoWire { text }
            | Self::UnknownWire { text, .. }
            | Self::Feature { text, .. }
            | Self::Option { text, .. }
            | Self::Location { text, .. } => text,
            #[cfg(feature = "udp")]
            Self::NoDatagrams { text } => text,
        }
    }
}

/// The features that a wire needs which is not in this build, if it is one of this crate's.
fn features(wire: &str) -> Option<&'static str> {
    let (stack, shm) = (cfg!(feature = "stack"), cfg!(feature = "shm"));
    Some(match wire {
        "stack" => "the feature `stack`",
        "shm" => "the feature `shm`",
        "tls" | "tls+unix" | "tls+memory" => "the feature `tls`",
        "tls+stack" if stack => "the feature `tls`",
        "tls+shm" if shm => "the feature `tls`",
        "tls+stack" if cfg!(feature = "tls") => "the feature `stack`",
        "tls+shm" if cfg!(feature = "tls") => "the feature `shm`",
        "tls+stack" => "the features `tls` and `stack`",
        "tls+shm" => "the features `tls` and `shm`",
        _ => return None,
    })
}

/// A question after the known wire whose name is nearest to this one, if one is near.
fn meant(wire: &str) -> String {
    let near = |known: &&str| strsim::normalized_damerau_levenshtein(known, wire);
    let nearest = wires().map(|wire| wire.scheme()).max_by(|one, other| near(one).total_cmp(&near(other)));
    nearest
        .filter(|known| near(known) >= NEAR)
        .map(|known| format!("did you mean {known}:? "))
        .unwrap_or_default()
}

fn known() -> String {
    wires().map(|wire| format!("{}:", wire.scheme())).collect::<Vec<_>>().join(", ")
}

/// Two names are near if about two of three letters are the same: `http` is no misspelt `tcp`.
const NEAR: f64 = 0.6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    #[test]
    fn a_wire_that_is_switched_off_is_said_with_its_features() {
        for (text, features) in [
            ("stack:switch/10.0.0.2:80", ["stack", "stack"]),
            ("shm:/run/app.shm", ["shm", "shm"]),
            ("tls:h:443", ["tls", "tls"]),
            ("tls+unix:/run/app.sock", ["tls", "tls"]),
            ("tls+memory:app", ["tls", "tls"]),
            ("tls+stack:switch/10.0.0.2:80", ["tls", "stack"]),
            ("tls+shm:/run/app.shm", ["tls", "shm"]),
        ] {
            let is_on = |feature| match feature {
                "stack" => cfg!(feature = "stack"),
                "shm" => cfg!(feature = "shm"),
                _ => cfg!(feature = "tls"),
            };
            let parsed = text.parse::<Address>();
            let Err(error) = parsed else {
                assert!(features.into_iter().all(is_on), "{text}");
                continue;
            };
            assert!(matches!(error, AddressError::Feature { .. }), "{error}");
            for feature in features {
                assert_eq!(error.to_string().contains(&format!("`{feature}`")), !is_on(feature), "{error}");
            }
        }
        assert!(matches!("tls+x:h:1".parse::<Address>(), Err(AddressError::UnknownWire { .. })));
    }

    #[test]
    fn a_misspelt_wire_gets_the_nearest_name() {
        for (text, meant) in [("tpc:h:80", "tcp"), ("unxi:/run/app.sock", "unix"), ("memry:app", "memory")] {
            let said = text.parse::<Address>().expect_err(text).to_string();
            assert!(said.contains(&format!("did you mean {meant}:? known are ")), "{said}");
        }
        if cfg!(feature = "stack") {
            let said = "stak:tap0/10.0.0.2:80".parse::<Address>().expect_err("no wire").to_string();
            assert!(said.contains("did you mean stack:?"), "{said}");
        }
        for text in ["http:h:80", "quic:h:80", ":h:80", "xx:h:80"] {
            let said = text.parse::<Address>().expect_err(text).to_string();
            assert!(!said.contains("did you mean"), "{said}");
        }
    }
}
