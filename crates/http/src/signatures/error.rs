//! Why a message cannot be signed, or its signature is not one to trust.

use anywire_advice::Advice;

/// Why a message cannot be signed or checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The component is none, or has a parameter that is not known here (`sf`, `key`, `tr`).
    #[error("cannot sign or check by the component {component}: it is not one that is known here")]
    Component {
        /// The component as it was written.
        component: String,
    },
    /// The message has no such part, or several where there may be one, or one that is not ASCII.
    #[error(
        "the component {component} cannot be taken from the message{help}",
        help = Advice("add the field, or leave the component out; use `;bs` for a field that is not ASCII")
    )]
    Missing {
        /// The component as it was written.
        component: String,
    },
    /// A field `signature-input` or `signature` is malformed.
    #[error("the field {field} is malformed")]
    Malformed {
        /// Its name.
        field: &'static str,
    },
    /// There is no signature, or none with the label or tag that is wanted.
    #[error("the message has no signature of the kind that is wanted")]
    Unsigned,
    /// There are more signatures than are looked at.
    #[error("the message has more than {max} signatures")]
    TooMany {
        /// So many are looked at.
        max: usize,
    },
    /// A signature covers more components than are looked at.
    #[error("a signature covers more than {max} components")]
    TooManyComponents {
        /// So many are looked at.
        max: usize,
    },
    /// Nobody knows the key.
    #[error("the key {key_id:?} is not known")]
    UnknownKey {
        /// Its name, if the signature has one.
        key_id: Option<String>,
    },
    /// It says that it was made by another algorithm than that of its key.
    #[error("the signature is said to be by {said:?}, and its key is for {key}")]
    Algorithm {
        /// What the signature says.
        said: String,
        /// That of the key.
        key: &'static str,
    },
    /// It does not cover what it has to.
    #[error("the signature does not cover {component}")]
    NotCovered {
        /// The component.
        component: String,
    },
    /// It says no time, is from the future, has ended, or is older than is allowed.
    #[error(
        "the signature is not of this time{help}",
        help = Advice("compare the clocks of both sides, and `max_age`")
    )]
    Time,
    /// The message is not what was signed, or was not signed by this key.
    #[error("the signature is wrong")]
    Wrong,
}
