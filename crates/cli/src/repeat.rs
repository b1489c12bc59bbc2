//! The command that made a result, as a shell takes it, for whoever wants to repeat it. What may be a secret is left out.

use std::ffi::OsString;

/// The command line of this process.
pub(crate) fn command() -> String {
    line(std::env::args_os())
}

/// The arguments, each quoted where a shell would take it apart, with the values of fields that may be secret replaced.
fn line(arguments: impl Iterator<Item = OsString>) -> String {
    let mut words = vec!["anywire".to_owned()];
    let mut is_field = false;
    for argument in arguments.skip(1) {
        let argument = argument.to_string_lossy().into_owned();
        let attached = short_header(&argument).filter(|field| !field.is_empty());
        let shown = match argument.strip_prefix("--header=").or(attached) {
            _ if is_field => redacted(&argument),
            Some(field) => {
                let option = &argument[..argument.len() - field.len()];
                format!("{option}{}", redacted(field))
            }
            None => without_user(&argument),
        };
        is_field = !is_field && (argument == "--header" || short_header(&argument) == Some(""));
        words.push(quoted(&shown));
    }
    words.join(" ")
}

/// What stands behind `-H`, which may stand behind letters that take no value: `-vHNAME: VALUE`.
fn short_header(argument: &str) -> Option<&str> {
    let letters = argument.strip_prefix('-')?;
    let (before, field) = letters.split_once('H')?;
    before.chars().all(|letter| "vk".contains(letter)).then_some(field)
}

/// A header field without a value that may be a secret.
fn redacted(field: &str) -> String {
    let Some((name, _)) = field.split_once([':', ';']) else { return field.to_owned() };
    let lower = name.to_ascii_lowercase();
    if SECRETS.iter().any(|part| lower.contains(part)) {
        format!("{name}: REDACTED")
    } else {
        field.to_owned()
    }
}

/// A URL without a name and password in it.
fn without_user(argument: &str) -> String {
    let Some((scheme, rest)) = argument.split_once("://") else { return argument.to_owned() };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..authority_end].rfind('@') {
        Some(at) => format!("{scheme}://REDACTED@{}", &rest[at + 1..]),
        None => argument.to_owned(),
    }
}

/// As a word of a POSIX shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=@,+%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Parts of the names of fields whose values are kept from others.
const SECRETS: [&str; 9] =
    ["auth", "cookie", "token", "secret", "key", "password", "session", "signature", "credential"];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> String {
        line(std::iter::once("target/anywire").chain(arguments.iter().copied()).map(OsString::from))
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(of(&["load", "localhost:8080", "-c", "64"]), "anywire load localhost:8080 -c 64");
        assert_eq!(of(&["load", "h/?a=1&b=2", "--data", ""]), "anywire load 'h/?a=1&b=2' --data ''");
        assert_eq!(of(&["load", "--data", "it's $HOME"]), r"anywire load --data 'it'\''s $HOME'");
    }

    #[test]
    fn secrets_are_left_out() {
        for arguments in [
            &["load", "-H", "Authorization: Bearer s3cret"][..],
            &["load", "--header", "X-Api-Key: s3cret"],
            &["load", "--header=Cookie: id=s3cret"],
            &["load", "-HX-Session: s3cret"],
            &["load", "-vHX-Session: s3cret"],
            &["load", "-vH", "X-Session: s3cret"],
            &["load", "http://me:s3cret@host/path"],
        ] {
            let line = of(arguments);
            assert!(!line.contains("s3cret") && line.contains("REDACTED"), "{line}");
        }
        assert_eq!(of(&["load", "-H", "Accept: text/html"]), "anywire load -H 'Accept: text/html'");
        // The value of the field before is no field.
        assert_eq!(of(&["load", "-H", "A: -H", "Cookie: a"]), "anywire load -H 'A: -H' 'Cookie: a'");
    }
}
