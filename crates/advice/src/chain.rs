//! An error and its causes as one line of text.

use std::error::Error;
use std::fmt::{self, Display};

use crate::Message;
use crate::advice::read;

/// Prints an error and its causes, outermost first and each once, and then what would help.
///
/// The message of an error in these crates does not repeat its `source()`, so that a log shows each cause once.
/// Print the chain wherever a person reads the error: in a log, on a terminal, in an answer. The [`Advice`](crate::Advice) of all of them
/// stands at the end, that of the innermost first. A cause that the line contains already is left out, because some
/// errors of other crates repeat their causes.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'e>(pub &'e (dyn Error + 'e));

impl Chain<'_> {
    /// The two parts of the line.
    pub fn message(&self) -> Message {
        self.read(false)
    }

    /// As [`message`](Self::message), for the other end of a connection: without limits of ours that
    /// [could be raised](crate::OrRaise).
    pub fn for_peer(&self) -> Message {
        self.read(true)
    }

    fn read(&self, for_peer: bool) -> Message {
        let (mut line, mut advice) = (String::new(), Vec::new());
        let mut next: Option<&dyn Error> = Some(self.0);
        while let Some(error) = next {
            let (found, help) = read(&error, for_peer);
            if !line.contains(&found) {
                line.push_str(if line.is_empty() { "" } else { ": " });
                line.push_str(&found);
            }
            advice.push(help);
            next = error.source();
        }
        let mut once: Vec<String> = Vec::new();
        for text in advice.into_iter().rev().flatten() {
            // A message that repeats its cause brings the cause's advice as well.
            if !once.contains(&text) {
                once.push(text);
            }
        }
        Message { found: line, help: Some(once.join("; ")).filter(|help| !help.is_empty()) }
    }
}

impl Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message().fmt(f)
    }
}

/// Asks any error what would help. For a `dyn Error`, [`Chain::message`] says it.
pub trait Help: Error {
    /// What would help against this error and its causes. `None` if they say nothing of it, as errors of other crates.
    fn help(&self) -> Option<String>;
}

impl<E: Error> Help for E {
    fn help(&self) -> Option<String> {
        Chain(self).message().help
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::{Advice, OrRaise};

    #[derive(Debug, thiserror::Error)]
    enum Sample {
        #[error("calling `{url}`{}", Advice("call again"))]
        Outer { url: &'static str, source: Box<Self> },
        #[error("repeating ({0})")]
        Repeating(#[source] io::Error),
        #[error("reading {count} heads{}", Advice(format_args!("send {} less{}", count - 1, OrRaise("a limit"))))]
        Inner { count: usize },
    }

    fn outer(source: Sample) -> Sample {
        Sample::Outer { url: "http://h/a; b", source: Box::new(source) }
    }

    #[test]
    fn each_cause_stands_once_and_help_comes_last() {
        let error = outer(Sample::Repeating(io::Error::other("it broke; really")));
        let line = "calling `http://h/a; b`: repeating (it broke; really); call again";
        assert_eq!(Chain(&error).to_string(), line);
        let error = outer(Sample::Inner { count: 3 });
        let found = "calling `http://h/a; b`: reading 3 heads";
        assert_eq!(Chain(&error).message().found, found);
        assert_eq!(error.help().as_deref(), Some("send 2 less, or raise a limit; call again"));
        assert_eq!(Chain(&error).to_string(), format!("{found}; send 2 less, or raise a limit; call again"));
        assert_eq!(Chain(&error).for_peer().to_string(), format!("{found}; send 2 less; call again"));
        assert_eq!(error.to_string(), "calling `http://h/a; b`; call again");
        let twice = outer(outer(Sample::Inner { count: 2 }));
        assert_eq!(twice.help().as_deref(), Some("send 1 less, or raise a limit; call again"));
    }

    #[test]
    fn what_others_say_stays_as_it_is() {
        let error = io::Error::other("reading `a; b, or raise c`: not there; make it");
        assert_eq!((Chain(&error).message().found, error.help()), (error.to_string(), None));
        assert_eq!(Chain(&error).for_peer().to_string(), error.to_string());

        #[derive(Debug, thiserror::Error)]
        #[error("calling `http://h/a; b`")]
        struct Theirs(#[source] io::Error);
        let error = Theirs(io::Error::other("the name does not resolve"));
        assert_eq!(Chain(&error).to_string(), "calling `http://h/a; b`: the name does not resolve");
    }

    #[test]
    fn advice_is_found_behind_the_errors_of_others() {
        let error = io::Error::other(Sample::Repeating(io::Error::other(Sample::Inner { count: 2 })));
        assert_eq!(Chain(&error).message().found, "repeating (reading 2 heads)");
        assert_eq!(error.help().as_deref(), Some("send 1 less, or raise a limit"));
        let boxed: Box<dyn Error + Send + Sync> = error.into();
        assert_eq!(Chain(&*boxed).for_peer().to_string(), "repeating (reading 2 heads); send 1 less");
    }

    #[test]
    fn a_chain_within_a_message_gives_its_advice_to_the_chain_around() {
        #[derive(Debug)]
        struct Shows(Sample);
        impl Display for Shows {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "round 3: {}", Chain(&self.0))
            }
        }
        impl Error for Shows {}
        let error = Shows(outer(Sample::Inner { count: 2 }));
        assert_eq!(Chain(&error).message().found, "round 3: calling `http://h/a; b`: reading 2 heads");
        assert_eq!(
            Chain(&error).for_peer().to_string(),
            format!("{}; send 1 less; call again", Chain(&error).message().found)
        );
    }
}
