//! The field `Content-Disposition` of a part.

/// What it says: `form-data; name="item"; filename="tea.png"`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disposition {
    pub(super) name: String,
    pub(super) file_name: Option<String>,
}

impl Disposition {
    /// `None` if it is malformed, of another kind or without a name. `filename*` is not looked at: RFC 7578 section 4.2 forbids it.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (kind, mut rest) = value.split_at(value.find(';')?);
        if !kind.trim_ascii().eq_ignore_ascii_case("form-data") {
            return None;
        }
        let (mut name, mut file_name) = (None, None);
        while let Some(behind) = rest.strip_prefix(';') {
            rest = behind.trim_ascii_start();
            if rest.is_empty() {
                break;
            }
            let (key, value) = rest.split_once('=')?;
            let (value, end) = parameter(value.trim_ascii_start())?;
            let slot = match key.trim_ascii() {
                key if key.eq_ignore_ascii_case("name") => &mut name,
                key if key.eq_ignore_ascii_case("filename") => &mut file_name,
                _ => &mut None,
            };
            if slot.replace(value).is_some() {
                // Two readers might choose different ones.
                return None;
            }
            rest = end.trim_ascii_start();
        }
        rest.is_empty().then_some(())?;
        Some(Self { name: name?, file_name })
    }
}

/// The value of a parameter, and what stands behind it. In quotes `\"` and `\\` are one character each, as curl writes them. Any other
/// `\` stands for itself, because some browsers sent whole paths of Windows.
fn parameter(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (token, rest) = text.split_at(text.find(';').unwrap_or(text.len()));
        return Some((token.trim_ascii_end().to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value
                .push(chars.next_if(|(_, next)| matches!(next, '"' | '\\')).map_or('\\', |(_, next)| next)),
            char => value.push(char),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Option<(String, Option<String>)> {
        Disposition::parse(value).map(|read| (read.name, read.file_name))
    }

    #[test]
    fn names_are_read_as_clients_write_them() {
        let of = |name: &str, file: Option<&str>| Some((name.to_owned(), file.map(str::to_owned)));
        assert_eq!(read("form-data; name=\"item\""), of("item", None));
        assert_eq!(read("Form-Data;NAME=item;filename=\"\""), of("item", Some("")));
        assert_eq!(read("form-data; name=\"a;b=c\"; filename=\"d;e\" ; x=y;"), of("a;b=c", Some("d;e")));
        assert_eq!(
            read(r#"form-data; name="a\"b\\c"; filename="C:\tea.png""#),
            of("a\"b\\c", Some(r"C:\tea.png"))
        );
        assert_eq!(read("form-data; name=\"\u{e4}\"; filename*=utf-8''x"), of("\u{e4}", None));
        assert_eq!(
            read("form-data; name=\"a%22b\""),
            of("a%22b", None),
            "browsers escape so, and nobody undoes it"
        );
    }

    #[test]
    fn what_is_no_name_is_none() {
        for wrong in [
            "",
            "form-data",
            "form-data;",
            "attachment; name=\"a\"",
            "form-data; name=\"a",
            "form-data; name=\"a\\\"",
            "form-data; name=\"a\" b",
            "form-data; name=\"a\"; name=\"b\"",
            "form-data; filename=\"a\"",
            "form-data; name",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
