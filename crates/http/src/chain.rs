//! An error and its causes as one line of text.

use std::error::Error;
use std::fmt;

/// Prints an error and its causes, outermost first and each once.
///
/// The message of an error in these crates does not repeat its `source()`, so that a log shows each cause once.
/// Print the chain wherever a person reads the error: in a log, on a terminal, in an answer. What would help (the part
/// of a message behind its last `; `) moves to the end. A cause that the line contains already is left out, because
/// some errors of other crates repeat their causes.
///
/// ```
/// use anywire_http::{BodyError, Chain};
///
/// let error = BodyError::Wire(std::io::Error::other("the cable is cut"));
/// assert_eq!(
///     Chain(&error).to_string(),
///     "reading a body: the connection broke: the cable is cut; try again if the request may be repeated",
/// );
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Chain<'e>(pub &'e (dyn Error + 'e));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut line, mut advice) = (String::new(), String::new());
        let mut next: Option<&dyn Error> = Some(self.0);
        while let Some(error) = next {
            next = error.source();
            let text = error.to_string();
            let (found, help) = match text.rsplit_once("; ") {
                Some((found, help)) if next.is_some() => (found, Some(help)),
                _ => (text.as_str(), None),
            };
            if !line.contains(found) {
                line.push_str(if line.is_empty() { "" } else { ": " });
                line.push_str(found);
            }
            if let Some(help) = help {
                advice.push_str("; ");
                advice.push_str(help);
            }
        }
        f.write_str(&line)?;
        f.write_str(&advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Sample {
        #[error("calling the shop; call again")]
        Outer(#[source] Box<Self>),
        #[error("repeating ({0})")]
        Repeating(#[source] std::io::Error),
        #[error("reading a head; send less")]
        Inner,
    }

    #[test]
    fn each_cause_stands_once_and_help_comes_last() {
        let error = Sample::Outer(Box::new(Sample::Repeating(std::io::Error::other("it broke"))));
        assert_eq!(Chain(&error).to_string(), "calling the shop: repeating (it broke); call again");
        let error = Sample::Outer(Box::new(Sample::Inner));
        assert_eq!(Chain(&error).to_string(), "calling the shop: reading a head; send less; call again");
        assert_eq!(Chain(&Sample::Inner).to_string(), "reading a head; send less");
    }
}
