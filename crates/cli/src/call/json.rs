//! JSON as it is shown at a terminal: with indentation and colours, while it comes.
//!
//! The text is not parsed into values: names keep their order, and numbers their digits. What turns out to be no JSON is
//! shown as it came from there on.

use clap::builder::styling::{AnsiColor, Style};

/// Turns the pieces of a text into what is shown.
#[derive(Debug)]
pub(super) struct Formatter {
    coloured: bool,
    /// Whether each value that is open is an object.
    open: Vec<bool>,
    within: Within,
    /// The next string is the name of a member.
    expects_name: bool,
    /// Something stands on the line already, after which an end of a line is due.
    is_fresh: bool,
    /// The start of a character that has not come whole.
    carried: Vec<u8>,
    shown: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Space,
    String {
        escaped: bool,
    },
    /// A number, `true`, `false` or `null`.
    Word,
    /// It is no JSON.
    Other,
}

impl Formatter {
    pub(super) fn new(coloured: bool) -> Self {
        Self {
            coloured,
            open: Vec::new(),
            within: Within::Space,
            expects_name: false,
            is_fresh: false,
            carried: Vec::new(),
            shown: String::new(),
        }
    }

    /// What is shown of the next piece.
    pub(super) fn piece(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes;
        let whole;
        if !self.carried.is_empty() {
            self.carried.extend_from_slice(bytes);
            whole = std::mem::take(&mut self.carried);
            bytes = &whole;
        }
        for chunk in bytes.utf8_chunks() {
            chunk.valid().chars().for_each(|letter| self.letter(letter));
            let invalid = chunk.invalid();
            let is_cut = invalid.len() < 4
                && bytes.ends_with(invalid)
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if is_cut && !invalid.is_empty() {
                self.carried = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.letter(char::REPLACEMENT_CHARACTER);
            }
        }
        std::mem::take(&mut self.shown).into_bytes()
    }

    /// What is shown at the end: a prompt begins a line of its own.
    pub(super) fn end(&mut self) -> Vec<u8> {
        self.end_word();
        self.shown.push('\n');
        std::mem::take(&mut self.shown).into_bytes()
    }

    fn letter(&mut self, letter: char) {
        match self.within {
            Within::Other => self.push(letter),
            Within::String { escaped } => {
                self.push(letter);
                self.within = match letter {
                    '"' if !escaped => {
                        self.paint(Style::new());
                        self.expects_name = false;
                        Within::Space
                    }
                    _ => Within::String { escaped: letter == '\\' && !escaped },
                };
            }
            Within::Word if letter.is_ascii_alphanumeric() || "+-.".contains(letter) => self.push(letter),
            Within::Word | Within::Space => {
                self.end_word();
                self.between(letter);
            }
        }
    }

    /// A letter outside of strings and words.
    fn between(&mut self, letter: char) {
        match letter {
            ' ' | '\t' | '\r' | '\n' => {}
            '{' | '[' if self.open.len() < DEPTH_MAX => {
                self.line();
                self.push(letter);
                self.open.push(letter == '{');
                self.expects_name = letter == '{';
                self.is_fresh = true;
            }
            '}' | ']' if self.open.last() == Some(&(letter == '}')) => {
                self.open.pop();
                if !std::mem::take(&mut self.is_fresh) {
                    self.new_line();
                }
                self.push(letter);
                self.expects_name = false;
            }
            ',' if !self.open.is_empty() => {
                self.push(letter);
                self.expects_name = self.open.last() == Some(&true);
                self.is_fresh = true;
            }
            ':' if !self.open.is_empty() => self.shown.push_str(": "),
            '"' => {
                self.line();
                let style = if self.expects_name { NAME } else { STRING };
                self.paint(style);
                self.push(letter);
                self.within = Within::String { escaped: false };
            }
            letter if letter.is_ascii_alphanumeric() || letter == '-' => {
                self.line();
                self.paint(if letter.is_ascii_alphabetic() { LITERAL } else { NUMBER });
                self.push(letter);
                self.within = Within::Word;
            }
            letter => {
                self.push(letter);
                self.within = Within::Other;
            }
        }
    }

    /// Begins the line that is due behind a bracket or a comma.
    fn line(&mut self) {
        if std::mem::take(&mut self.is_fresh) {
            self.new_line();
        }
    }

    fn new_line(&mut self) {
        self.shown.push('\n');
        self.shown.extend(std::iter::repeat_n("  ", self.open.len()));
    }

    fn end_word(&mut self) {
        if self.within == Within::Word {
            self.paint(Style::new());
            self.within = Within::Space;
        }
    }

    fn paint(&mut self, style: Style) {
        if self.coloured {
            // That of no style ends the one before.
            let code =
                if style == Style::new() { "\u{1b}[0m".to_owned() } else { style.render().to_string() };
            self.shown.push_str(&code);
        }
    }

    /// Without what a terminal acts on.
    fn push(&mut self, letter: char) {
        match letter {
            '\n' | '\r' | '\t' if self.within == Within::Other => self.shown.push(letter),
            letter if letter.is_control() => self.shown.push_str(&format!("\\u{:04x}", letter as u32)),
            letter => self.shown.push(letter),
        }
    }
}

/// Beyond it nobody reads an indentation.
const DEPTH_MAX: usize = 128;

const NAME: Style = AnsiColor::Blue.on_default().bold();
const STRING: Style = AnsiColor::Green.on_default();
const NUMBER: Style = AnsiColor::Cyan.on_default();
const LITERAL: Style = AnsiColor::Yellow.on_default();

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut formatter = Formatter::new(false);
        let shown = [formatter.piece(text.as_bytes()), formatter.end()].concat();
        // By single bytes it is the same.
        let mut formatter = Formatter::new(false);
        let mut bytes: Vec<u8> = text.bytes().flat_map(|byte| formatter.piece(&[byte])).collect();
        bytes.extend(formatter.end());
        assert_eq!(bytes, shown);
        String::from_utf8(shown).expect("UTF-8")
    }

    #[test]
    fn values_have_lines_and_keep_their_text() {
        assert_eq!(
            shown(r#"{"b":[1,2.50e+1,{}],"a":{"x y":null,"é\"{":true},"c":[]}"#),
            "{\n  \"b\": [\n    1,\n    2.50e+1,\n    {}\n  ],\n  \"a\": {\n    \"x y\": null,\n    \"é\\\"{\": true\n  },\n  \"c\": []\n}\n"
        );
        assert_eq!(shown(" 7 "), "7\n");
        assert_eq!(shown("\"a\""), "\"a\"\n");
        assert_eq!(shown(""), "\n");
    }

    #[test]
    fn what_is_no_json_is_shown_as_it_came() {
        assert_eq!(shown("<p>\n  a, b: [c]</p>"), "<p>\n  a, b: [c]</p>\n");
        assert_eq!(shown("[1]}{\n<"), "[\n  1\n]}{\n<\n");
        let deep = "[".repeat(1000);
        assert!(shown(&deep).len() < 20_000, "an indentation has an end");
    }

    #[test]
    fn a_terminal_gets_no_control_characters() {
        assert_eq!(shown("\"a\u{1b}[2J\u{9b}2J\""), "\"a\\u001b[2J\\u009b2J\"\n");
    }

    #[test]
    fn colours_end_with_what_they_are_for() {
        let mut formatter = Formatter::new(true);
        let shown = [formatter.piece(br#"{"a":[1,"b",null]}"#), formatter.end()].concat();
        let shown = String::from_utf8(shown).expect("UTF-8").replace('\u{1b}', "^");
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[1], "  ^[1m^[34m\"a\"^[0m: [");
        assert_eq!(lines[2], "    ^[36m1^[0m,");
        assert_eq!(lines[3], "    ^[32m\"b\"^[0m,");
        assert_eq!(lines[4], "    ^[33mnull^[0m");
    }
}
