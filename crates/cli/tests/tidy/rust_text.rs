//! Rust source split into what the compiler runs and what people read.
//!
//! A rule that looks for `unsafe` must not stumble over the word in a comment or a string, and a rule that looks
//! for notes to self must look nowhere else. This is a lexer of the five things that can hide a word (line
//! comment, block comment, string, raw string, character), not a parser.

/// The two readings of one source file. Both have the line breaks of the original, so line numbers agree.
#[derive(Default)]
pub(crate) struct RustText {
    /// The source with comments and the insides of literals blanked out.
    pub(crate) code: String,
    /// The comments, doc comments among them, with everything else blanked out.
    pub(crate) comments: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl RustText {
    /// Splits `source`; anything is accepted, also what would not compile.
    pub(crate) fn split(source: &str) -> Self {
        let chars: Vec<char> = source.chars().collect();
        let mut text = Self::default();
        let mut rest = chars.as_slice();
        while !rest.is_empty() {
            let (kind, length) = next_piece(rest);
            // An unterminated literal may claim more than there is.
            let (piece, after) = rest.split_at(length.min(rest.len()));
            text.push(kind, piece);
            rest = after;
        }
        text
    }

    fn push(&mut self, kind: Kind, piece: &[char]) {
        let visible_in =
            |wanted: Kind| move |&char: &char| if kind == wanted || char == '\n' { char } else { ' ' };
        self.code.extend(piece.iter().map(visible_in(Kind::Code)));
        self.comments.extend(piece.iter().map(visible_in(Kind::Comment)));
    }
}

/// The numbers, from 1, of the lines that hold `word` between two characters that do not belong to a word.
pub(crate) fn lines_with_word(text: &str, word: &str) -> Vec<usize> {
    let numbered = text.lines().zip(1..);
    numbered.filter(|(line, _)| has_word(line, word)).map(|(_, number)| number).collect()
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_of_a_word) && !after.is_some_and(is_of_a_word)
    })
}

fn next_piece(rest: &[char]) -> (Kind, usize) {
    match rest {
        ['/', '/', ..] => (Kind::Comment, rest.iter().take_while(|&&char| char != '\n').count()),
        ['/', '*', ..] => (Kind::Comment, block_comment_length(rest)),
        ['"', ..] => (Kind::Literal, quoted_length(rest, '"')),
        ['\'', '\\', ..] => (Kind::Literal, quoted_length(rest, '\'')),
        ['\'', _, '\'', ..] => (Kind::Literal, 3),
        [first, ..] if is_of_a_word(*first) => {
            let length = rest.iter().take_while(|&&char| is_of_a_word(char)).count();
            match (&rest[..length], raw_string_length(&rest[length..])) {
                (['r'] | ['b' | 'c', 'r'], Some(string)) => (Kind::Literal, length + string),
                _ => (Kind::Code, length),
            }
        }
        _ => (Kind::Code, 1),
    }
}

/// Block comments nest: `/* a /* b */ c */` is one.
fn block_comment_length(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted_length(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// What follows an `r`: `#`s, a quote, anything, the quote and as many `#`s; `None` if it is no raw string.
fn raw_string_length(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().take_while(|&&char| char == '#').count();
    if rest.get(hashes) != Some(&'"') {
        return None;
    }
    let mut end = vec!['"'];
    end.resize(1 + hashes, '#');
    let inside = &rest[hashes + 1..];
    let length = inside.windows(end.len()).position(|window| window == end).unwrap_or(inside.len());
    Some(hashes + 1 + length + end.len())
}

fn is_of_a_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

mod splitting {
    use super::*;

    fn sees_in_code(source: &str) -> bool {
        !lines_with_word(&RustText::split(source).code, "word").is_empty()
    }

    fn sees_in_comments(source: &str) -> bool {
        !lines_with_word(&RustText::split(source).comments, "word").is_empty()
    }

    #[test]
    fn comments_hide_code_but_show_as_comments() {
        for source in
            ["// word", "/// word", "//! word", "/* word */", "/* a /* b */ word */", "x /* \" */ // word"]
        {
            assert!(!sees_in_code(source), "{source}");
            assert!(sees_in_comments(source), "{source}");
        }
    }

    #[test]
    fn literals_hide_words_from_both() {
        for source in [
            r#"let a = "word";"#,
            r#"let a = "\" word";"#,
            r##"let a = r#"" word"#;"##,
            r##"let a = br#"// word"#;"##,
            r#"let a = b"word";"#,
            "let a = \"one\n word\";",
        ] {
            assert!(!sees_in_code(source), "{source}");
            assert!(!sees_in_comments(source), "{source}");
        }
    }

    #[test]
    fn code_beside_them_is_seen() {
        for source in [
            "word",
            "word // but not this",
            "/* */ word",
            r#""" word"#,
            r###"r##"text"## word"###,
            "'\"' word",
            "'\\'' word",
            "fn f<'a>(word: &'a str)",
            "\"http://\" word",
            "r#type word",
        ] {
            assert!(sees_in_code(source), "{source}");
            assert!(!sees_in_comments(source), "{source}");
        }
    }

    #[test]
    fn what_does_not_end_is_taken_to_the_end() {
        for source in ["\"word", "r#\"word", "/* word", "'\\", "\"\\"] {
            assert!(!sees_in_code(source), "{source}");
        }
    }

    #[test]
    fn a_word_stands_alone_and_has_a_line_number() {
        assert_eq!(lines_with_word("words sword s_word\nword\n(word)", "word"), [2, 3]);
        assert_eq!(lines_with_word("std::time::Instant::now()", "Instant::now"), [1]);
        assert_eq!(lines_with_word("MyInstant::now() Instant::nowhere()", "Instant::now"), []);
    }

    #[test]
    fn lines_stay_where_they_were() {
        let text = RustText::split("/* one\ntwo */\n\"three\nfour\"\nword");
        assert_eq!(lines_with_word(&text.code, "word"), [5]);
    }
}
