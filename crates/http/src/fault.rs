//! Who is at fault for an error.

/// Who is at fault for an error, so that a program can decide whom to tell and whether to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The other end sent what the RFCs do not allow.
    Peer,
    /// Our own program asked for what cannot be done.
    Caller,
    /// A limit was reached that a configuration may raise.
    Limit,
    /// The connection broke.
    Wire,
}
