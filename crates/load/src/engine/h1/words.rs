//! What is said of an answer that is none, and of a connection that breaks.

use anywire_advice::Message;
use anywire_http::Fault;
use anywire_http::h1::DecodeError;

use crate::errors::over_limit;

/// That nothing was waited for.
pub(super) const NOT_ASKED: &str = "an answer came that nobody had asked for";

/// The first line of what came, as far as it fits into a message.
#[cold]
pub(super) fn first_line(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    String::from_utf8_lossy(line.trim_ascii_end()).chars().take(80).flat_map(char::escape_debug).collect()
}

/// Why a response cannot be read. The decoder's advice is left out, because it is meant for the sender.
#[cold]
pub(super) fn decode_message(error: &DecodeError) -> Message {
    match error.fault() {
        Fault::Limit => over_limit(error),
        _ if *error == DecodeError::StartLine => {
            Message::new("an answer does not begin with a status line such as HTTP/1.1 200 OK")
                .with_help("is this the port of an HTTP/1.1 server, without TLS?")
        }
        _ => {
            let found = Message::read(error).found;
            format!("an answer breaks the rules of HTTP/1.1, which is the server's fault: {found}").into()
        }
    }
}

/// What is said of a connection that breaks while answers are awaited.
pub(in crate::engine) fn broke(is_within_answer: bool, error: &std::io::Error) -> Message {
    let phase = if is_within_answer { "inside an answer" } else { "while an answer was awaited" };
    Message::read(format_args!("the connection broke {phase}: {error}"))
}
