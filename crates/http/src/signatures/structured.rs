//! The part of structured fields (RFC 9651) that signatures are written in: dictionaries of inner lists and of bytes.

use std::fmt;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// A bare item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bare {
    Integer(i64),
    Text(String),
    Token(String),
    Bytes(Vec<u8>),
    Boolean(bool),
}

/// Parameters in order. A name stands once.
pub(super) type Parameters = Vec<(String, Bare)>;

/// An item of an inner list, or an item with its parameters.
pub(super) type Item = (Bare, Parameters);

/// The value of a member of a dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Member {
    Item(Item),
    List(Vec<Item>, Parameters),
}

impl fmt::Display for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
            Self::Token(token) => f.write_str(token),
            Self::Bytes(bytes) => write!(f, ":{}:", BASE64.encode(bytes)),
            Self::Boolean(is) => f.write_str(if *is { "?1" } else { "?0" }),
        }
    }
}

/// Parameters as they stand behind an item. One that is true needs no value.
pub(super) struct Shown<'p>(pub(super) &'p [(String, Bare)]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.0 {
            match value {
                Bare::Boolean(true) => write!(f, ";{name}")?,
                value => write!(f, ";{name}={value}")?,
            }
        }
        Ok(())
    }
}

/// Reads a dictionary. Of members of one name the last one counts, in the place of the first.
pub(super) fn dictionary(text: &str) -> Option<Vec<(String, Member)>> {
    let mut reader = Reader { rest: text.trim_matches(' ') };
    let mut members: Vec<(String, Member)> = Vec::new();
    while !reader.rest.is_empty() {
        let name = reader.key()?;
        let value = match reader.take('=') {
            true if reader.rest.starts_with('(') => reader.list()?,
            true => Member::Item((reader.bare()?, reader.parameters()?)),
            false => Member::Item((Bare::Boolean(true), reader.parameters()?)),
        };
        match members.iter_mut().find(|(found, _)| *found == name) {
            Some(old) => old.1 = value,
            None => members.push((name, value)),
        }
        reader.rest = reader.rest.trim_start_matches([' ', '\t']);
        if reader.rest.is_empty() {
            break;
        }
        if !reader.take(',') {
            return None;
        }
        reader.rest = reader.rest.trim_start_matches([' ', '\t']);
        // A comma is between members.
        if reader.rest.is_empty() {
            return None;
        }
    }
    Some(members)
}

/// Reads parameters, such as `;bs;name="a"`.
pub(super) fn parameters(text: &str) -> Option<Parameters> {
    let mut reader = Reader { rest: text };
    reader.parameters().filter(|_| reader.rest.is_empty())
}

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn take(&mut self, sign: char) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn take_while(&mut self, is_taken: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|sign| !is_taken(sign)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn key(&mut self) -> Option<String> {
        let is_first = |sign: char| sign.is_ascii_lowercase() || sign == '*';
        let is_more = |sign: char| is_first(sign) || sign.is_ascii_digit() || "_-.".contains(sign);
        Some(self.take_while(is_more).to_owned()).filter(|key| key.starts_with(is_first))
    }

    fn list(&mut self) -> Option<Member> {
        let mut items = Vec::new();
        self.take('(');
        loop {
            let spaces = self.take_while(|sign| sign == ' ').len();
            if self.take(')') {
                return Some(Member::List(items, self.parameters()?));
            }
            if spaces == 0 && !items.is_empty() {
                return None;
            }
            items.push((self.bare()?, self.parameters()?));
        }
    }

    fn parameters(&mut self) -> Option<Parameters> {
        let mut parameters = Parameters::new();
        while self.take(';') {
            self.take_while(|sign| sign == ' ');
            let name = self.key()?;
            let value = if self.take('=') { self.bare()? } else { Bare::Boolean(true) };
            match parameters.iter_mut().find(|(found, _)| *found == name) {
                Some(old) => old.1 = value,
                None => parameters.push((name, value)),
            }
        }
        Some(parameters)
    }

    fn bare(&mut self) -> Option<Bare> {
        match self.rest.chars().next()? {
            '"' => self.text(),
            ':' => {
                self.take(':');
                let encoded = self.take_while(|sign| sign != ':');
                let bytes = BASE64.decode(encoded).ok()?;
                self.take(':').then_some(Bare::Bytes(bytes))
            }
            '?' => {
                self.take('?');
                let is = self.take('1');
                (is || self.take('0')).then_some(Bare::Boolean(is))
            }
            '-' | '0'..='9' => {
                let is_negative = self.take('-');
                let digits = self.take_while(|sign| sign.is_ascii_digit());
                // A decimal is in none of these fields.
                let number: i64 = digits.parse().ok().filter(|_| digits.len() <= INTEGER_DIGITS_MAX)?;
                let is_whole = !self.rest.starts_with('.');
                is_whole.then_some(Bare::Integer(if is_negative { -number } else { number }))
            }
            first if first.is_ascii_alphabetic() || first == '*' => {
                let is_more = |sign: char| sign.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:/".contains(sign);
                Some(Bare::Token(self.take_while(is_more).to_owned()))
            }
            _ => None,
        }
    }

    fn text(&mut self) -> Option<Bare> {
        let mut text = String::new();
        let mut signs = self.rest[1..].char_indices();
        while let Some((at, sign)) = signs.next() {
            match sign {
                '"' => {
                    self.rest = &self.rest[at + 2..];
                    return Some(Bare::Text(text));
                }
                '\\' => text.push(signs.next().map(|(_, sign)| sign).filter(|sign| "\"\\".contains(*sign))?),
                ' '..='~' => text.push(sign),
                _ => return None,
            }
        }
        None
    }
}

/// Padding may be missing, as RFC 9651 section 4.2.7 allows.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// RFC 9651 section 3.3.1.
const INTEGER_DIGITS_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dictionaries_are_read() {
        let read =
            dictionary("sig=(\"a\" \"b\";bs;name=\"\\\"x\");created=1;alg=\"y\", c=:aGk=:;p=*tok/en , d")
                .expect("one");
        let text = |text: &str| Bare::Text(text.to_owned());
        let name = |name: &str| name.to_owned();
        let items = vec![
            (text("a"), vec![]),
            (text("b"), vec![(name("bs"), Bare::Boolean(true)), (name("name"), text("\"x"))]),
        ];
        let list = Member::List(items, vec![(name("created"), Bare::Integer(1)), (name("alg"), text("y"))]);
        let bytes =
            Member::Item((Bare::Bytes(b"hi".to_vec()), vec![(name("p"), Bare::Token(name("*tok/en")))]));
        let last = Member::Item((Bare::Boolean(true), vec![]));
        assert_eq!(read, [(name("sig"), list), (name("c"), bytes), (name("d"), last)]);
        assert_eq!(
            dictionary("a=1, a=?0").expect("one"),
            [(name("a"), Member::Item((Bare::Boolean(false), vec![])))]
        );
        assert_eq!(dictionary("").expect("an empty one"), []);
    }

    #[test]
    fn what_is_no_dictionary_is_none() {
        for wrong in [
            "a=",
            "a=(",
            "a=(\"x\"",
            "a=(\"x\"\"y\")",
            "A=1",
            "a=1,",
            "a=1 b=2",
            "a=\"x",
            "a=\"\\x\"",
            "a=:x",
            "a=:x.:",
            "a=?2",
            "a=1.5",
            "a=1234567890123456",
            "a=-",
            "a=\"\u{e4}\"",
            "a;B",
            "=1",
            ",",
        ] {
            assert_eq!(dictionary(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_dictionary_or_none(text in "[ a-z\"=();:?0-9,*\\\\.-]{0,40}|.{0,40}") {
            if let Some(members) = dictionary(&text) {
                for (_, member) in members {
                    if let Member::Item((item, parameters)) = member {
                        let again = dictionary(&format!("x={item}{}", Shown(&parameters)));
                        prop_assert_eq!(again, Some(vec![("x".to_owned(), Member::Item((item, parameters)))]));
                    }
                }
            }
        }
    }
}
