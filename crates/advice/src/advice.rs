//! Advice within a message, and how a message is read without it.
//!
//! Rust gives no way to ask a `dyn Error` for anything but its message and its source, and the error that knows the remedy is
//! often behind one: in a `source()`, in an `io::Error`, in an error of another crate. The message itself reaches through all
//! of these. So a reader is set for this thread while a message is written, and [`Advice`] goes to it instead of into the text.
//! No text is ever searched for advice, because names, URLs and the words of other crates may look like it.

use std::cell::RefCell;
use std::fmt::{self, Display, Write};

/// What would help. It stands at the end of a message, and prints `; ` before itself.
///
/// ```
/// use anywire_advice::Advice;
///
/// assert_eq!(format!("port 80 is in use{}", Advice("choose another one")), "port 80 is in use; choose another one");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Advice<T>(pub T);

impl<T: Display> Display for Advice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Before the reader is borrowed, because this may write other messages.
        let text = self.0.to_string();
        match with_reader(|reader| reader.advice.push(text.clone())) {
            Some(()) => Ok(()),
            None => write!(f, "; {text}"),
        }
    }
}

/// A limit of ours that may be raised, within an [`Advice`]. It prints `, or raise ` before itself, but not [for a
/// peer](crate::Chain::for_peer), who cannot raise it.
///
/// ```
/// use anywire_advice::{Advice, OrRaise};
///
/// let advice = Advice(format_args!("send less{}", OrRaise("Limits::bytes")));
/// assert_eq!(format!("this is too long{advice}"), "this is too long; send less, or raise Limits::bytes");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OrRaise<T>(pub T);

impl<T: Display> Display for OrRaise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match with_reader(|reader| reader.for_peer) {
            Some(true) => Ok(()),
            _ => write!(f, ", or raise {}", self.0),
        }
    }
}

/// Writes a message without its advice, which is returned beside it in the order in which it was written.
pub(crate) fn read(message: &dyn Display, for_peer: bool) -> (String, Vec<String>) {
    let reading = Reading::begin(for_peer);
    let mut found = String::new();
    // A message that fails to be written is shown as far as it came.
    let _ = write!(found, "{message}");
    (found, reading.end())
}

/// Where the advice of the message goes that this thread writes now.
#[derive(Debug)]
struct Reader {
    advice: Vec<String>,
    /// Leaves out what only we can do.
    for_peer: bool,
}

/// A message that is being read. Dropping it brings the reader of the message around it back, after a panic too.
struct Reading {
    around: Option<Reader>,
}

impl Reading {
    fn begin(for_peer: bool) -> Self {
        // A message that reads another one is still for the same person.
        let for_peer = for_peer || with_reader(|reader| reader.for_peer) == Some(true);
        Self { around: READER.replace(Some(Reader { advice: Vec::new(), for_peer })) }
    }

    fn end(self) -> Vec<String> {
        READER.take().map(|reader| reader.advice).unwrap_or_default()
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        READER.set(self.around.take());
    }
}

/// `None` if no message is being read, or if the thread is so near its end that it has no storage.
fn with_reader<R>(see: impl FnOnce(&mut Reader) -> R) -> Option<R> {
    READER.try_with(|reader| reader.borrow_mut().as_mut().map(see)).ok()?
}

thread_local! {
    static READER: RefCell<Option<Reader>> = const { RefCell::new(None) };
}

/// What helps where the system has no local port left: of a dialler, a listener at port 0, or a datagram socket.
pub const MORE_PORTS: &str = "open fewer connections at a time, use more addresses, or widen \
                              net.ipv4.ip_local_port_range (`ss -s` counts the connections of now)";

#[cfg(test)]
mod tests {
    use std::fmt::from_fn as message;

    use super::*;

    fn inner() -> impl Display {
        message(|f| write!(f, "inner{}", Advice("be patient")))
    }

    #[test]
    fn a_message_is_told_from_its_advice() {
        let message = message(|f| write!(f, "opening a; b: not there{}", Advice("make it; try again")));
        assert_eq!(message.to_string(), "opening a; b: not there; make it; try again");
        assert_eq!(
            read(&message, false),
            ("opening a; b: not there".to_owned(), vec!["make it; try again".to_owned()])
        );
        assert_eq!(read(&"a; b", false), ("a; b".to_owned(), vec![]));
    }

    #[test]
    fn a_peer_is_told_of_no_limit_of_ours() {
        let limit = message(|f| write!(f, "long{}", Advice(format_args!("send less{}", OrRaise("a limit")))));
        assert_eq!(limit.to_string(), "long; send less, or raise a limit");
        assert_eq!(read(&limit, false).1, ["send less, or raise a limit"]);
        assert_eq!(read(&limit, true).1, ["send less"]);
        let reads = message(|f| write!(f, "{:?}", read(&limit, false).1));
        assert_eq!(read(&reads, true).0, r#"["send less"]"#);
    }

    #[test]
    fn a_message_within_a_message_gives_its_advice_too() {
        let outer = message(|f| write!(f, "outer ({}){}", inner(), Advice("look outside")));
        assert_eq!(outer.to_string(), "outer (inner; be patient); look outside");
        assert_eq!(read(&outer, false).0, "outer (inner)");
        assert_eq!(read(&outer, false).1, ["be patient", "look outside"]);
        // Also if it became a string on the way.
        let outer = message(|f| {
            let text = inner().to_string();
            write!(f, "outer ({text})")
        });
        assert_eq!(read(&outer, false), ("outer (inner)".to_owned(), vec!["be patient".to_owned()]));
        // A message that reads another one keeps its own advice.
        let reads = message(|f| {
            write!(f, "read{}", Advice("go on"))?;
            write!(f, ": {:?}{}", read(&inner(), false).1, Advice("and on"))
        });
        assert_eq!(
            read(&reads, false),
            (r#"read: ["be patient"]"#.to_owned(), vec!["go on".to_owned(), "and on".to_owned()])
        );
    }

    #[test]
    fn a_panic_within_a_message_leaves_no_reader_behind() {
        let bad = message(|_| panic!("this panic is part of the test"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(&bad, false))).is_err());
        assert_eq!(Advice("still here").to_string(), "; still here");
    }
}
