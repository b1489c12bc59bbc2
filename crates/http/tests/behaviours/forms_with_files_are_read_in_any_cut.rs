//! A body of the type `multipart/form-data` is read part by part, however its bytes were cut on their way, within its limits, and without
//! being held (RFC 7578, RFC 2046 section 5.1.1).

use anywire_http::Fault;
use anywire_http::multipart::{Decoder, Error, Event, Limits};
use proptest::prelude::*;

/// Name, name of the file, and content.
type Part = (String, Option<String>, Vec<u8>);

/// Reads a body with the boundary `x` in these pieces.
fn read<'b>(pieces: impl IntoIterator<Item = &'b [u8]>, limits: Limits) -> Result<Vec<Part>, Error> {
    let mut decoder = Decoder::new("x", limits)?;
    let (mut parts, mut is_within, mut has_ended) = (Vec::<Part>::new(), false, false);
    for piece in pieces {
        decoder.push(piece.to_vec().into())?;
        while let Some(event) = decoder.decode()? {
            assert!(!has_ended, "nothing comes behind the end: {event:?}");
            match event {
                Event::Part(head) => {
                    assert!(!std::mem::replace(&mut is_within, true));
                    parts.push((head.name().to_owned(), head.file_name().map(str::to_owned), Vec::new()));
                }
                Event::Data(data) => {
                    assert!(is_within && !data.is_empty());
                    parts.last_mut().expect("a part has begun").2.extend(data);
                }
                Event::PartEnd => assert!(std::mem::take(&mut is_within)),
                Event::End => has_ended = true,
            }
        }
    }
    decoder.end().map(|()| parts)
}

fn read_whole(body: &str) -> Result<Vec<Part>, Error> {
    read([body.as_bytes()], Limits::default())
}

/// In pieces of one byte, and in two pieces, cut everywhere.
fn read_in_each_cut(body: &str) -> Result<Vec<Part>, Error> {
    let bytes = body.as_bytes();
    let whole = read_whole(body);
    assert_eq!(read(bytes.chunks(1), Limits::default()), whole, "{body:?}");
    for at in 0..=bytes.len() {
        let (one, other) = bytes.split_at(at);
        assert_eq!(read([one, other], Limits::default()), whole, "{body:?} cut at {at}");
    }
    whole
}

fn part(name: &str, file_name: Option<&str>, content: &str) -> Part {
    (name.to_owned(), file_name.map(str::to_owned), content.into())
}

const NAMED: &str = "content-disposition: form-data; name=\"a\"\r\n";

#[test]
fn what_clients_send_is_read() {
    let browser = "--x\r\nContent-Disposition: form-data; name=\"item\"\r\n\r\ngreen tea\r\n--x\r\n\
                   Content-Disposition: form-data; name=\"photo\"; filename=\"tea.png\"\r\nContent-Type: image/png\r\n\r\n\
                   \r\n--\r\n-x\r\n--\r\n--x--\r\n";
    let expected = [part("item", None, "green tea"), part("photo", Some("tea.png"), "\r\n--\r\n-x\r\n--")];
    assert_eq!(read_in_each_cut(browser).expect("a form"), expected);
    // With words for people before and behind, and white space behind the delimiters.
    let old = format!("This is a form.\r\n--x \t\r\n{NAMED}\r\nb\r\n--x-- \r\nThe end.\r\n--x\r\n");
    assert_eq!(read_in_each_cut(&old).expect("a form"), [part("a", None, "b")]);
    // Without content, with the line break of the head as that of the delimiter, and without parts.
    let empty = format!("--x\r\n{NAMED}\r\n\r\n--x\r\n{NAMED}\r\n--x--");
    assert_eq!(read_in_each_cut(&empty).expect("a form"), [part("a", None, ""), part("a", None, "")]);
    assert_eq!(read_in_each_cut("--x--").expect("a form"), []);
}

#[test]
fn each_fault_has_its_error() {
    let after_head = |rest: &str| format!("--x\r\n{NAMED}\r\n{rest}");
    for (body, expected) in [
        (String::new(), Error::Incomplete),
        ("no form at all".to_owned(), Error::Incomplete),
        (after_head("b"), Error::Incomplete),
        (after_head("b\r\n--x"), Error::Incomplete),
        (after_head("b\r\n--x-"), Error::Incomplete),
        (after_head("b\n--x--"), Error::Incomplete),
        (after_head("b\r\n--xy\r\n"), Error::Delimiter),
        (after_head("b\r\n--x\n"), Error::Delimiter),
        (after_head("b\r\n--x --"), Error::Delimiter),
        (after_head(&format!("b\r\n--x{}\r\n", " ".repeat(100))), Error::Delimiter),
        ("--x\r\n\r\nb\r\n--x--".to_owned(), Error::Name { part: 1 }),
        (after_head("b\r\n--x\r\ncontent-type: text/plain\r\n\r\n"), Error::Name { part: 2 }),
        ("--x\r\ncontent-disposition form-data\r\n\r\n".to_owned(), Error::Head { part: 1 }),
        (format!("--x\r\n{NAMED} folded: x\r\n\r\n"), Error::Head { part: 1 }),
        // What ends a line, or the head, for some readers alone.
        (format!("--x\r\n{}\nmore\r\n\r\n", NAMED.trim_ascii_end()), Error::Head { part: 1 }),
        (format!("--x\r\n{}\n\nhidden\r\n\r\n", NAMED.trim_ascii_end()), Error::Head { part: 1 }),
        (format!("--x\r\n{NAMED}\nhidden\r\n\r\n"), Error::Head { part: 1 }),
        (format!("--x\r\n{}\nx: y\r\n\r\n", NAMED.trim_ascii_end()), Error::Head { part: 1 }),
        (format!("--x\r\n{NAMED}{NAMED}\r\n"), Error::Name { part: 1 }),
    ] {
        let error = read_in_each_cut(&body).expect_err(&body);
        assert_eq!((error.fault(), &error), (Fault::Peer, &expected), "{body:?}");
    }
    for boundary in ["", "a\r\nb", &"x".repeat(71)] {
        assert_eq!(
            Decoder::new(boundary, Limits::default()).expect_err("a fault"),
            Error::Boundary,
            "{boundary:?}"
        );
    }
    assert!(Decoder::new(&"x".repeat(70), Limits::default()).is_ok());
}

/// Each limit is that of the last byte or part which is taken.
#[test]
fn each_limit_is_reached_with_its_error() {
    let one = format!("--x\r\n{NAMED}\r\n12345678\r\n");
    let body = format!("{one}{one}--x--");
    let total_bytes = body.len() as u64;
    let exact = Limits { parts: 2, head_bytes: NAMED.len() + 2, part_bytes: 8, total_bytes };
    let in_bytes = |limits| read(body.as_bytes().chunks(1), limits);
    let taken = read([body.as_bytes()], exact).expect("within all limits");
    assert_eq!((taken.len(), in_bytes(exact)), (2, Ok(taken)));
    for (limits, expected) in [
        (Limits { parts: 1, ..exact }, Error::TooManyParts { limit: 1 }),
        (
            Limits { head_bytes: exact.head_bytes - 1, ..exact },
            Error::HeadTooLarge { limit_bytes: exact.head_bytes - 1 },
        ),
        (Limits { part_bytes: 7, ..exact }, Error::PartTooLarge { limit_bytes: 7 }),
        (Limits { total_bytes: total_bytes - 1, ..exact }, Error::TooLarge { limit_bytes: total_bytes - 1 }),
    ] {
        assert_eq!(expected.fault(), Fault::Limit);
        assert_eq!(read([body.as_bytes()], limits).expect_err("a limit"), expected);
        assert_eq!(in_bytes(limits).expect_err("a limit"), expected);
    }
    // A head without an end is not held for long.
    let endless = "x".repeat(10_000);
    let error = read([b"--x\r\n", endless.as_bytes()], Limits::default()).expect_err("a limit");
    assert_eq!(error, Error::HeadTooLarge { limit_bytes: 8192 });
}

/// All of a piece comes out but what may be the beginning of a delimiter.
#[test]
fn content_is_not_held() {
    let mut decoder = Decoder::new("x", Limits::default()).expect("a boundary");
    decoder.push(format!("--x\r\n{NAMED}\r\n").into()).expect("within the limit");
    assert!(matches!(decoder.decode(), Ok(Some(Event::Part(_)))));
    assert_eq!(decoder.decode(), Ok(None));
    for (piece, out) in
        [("abc", Some("abc")), ("\r\n-", None), ("\r\n--", Some("\r\n-")), ("y", Some("\r\n--y"))]
    {
        decoder.push(piece.into()).expect("within the limit");
        let data = decoder.decode().expect("no fault");
        assert_eq!(data, out.map(|out| Event::Data(out.into())), "{piece:?}");
        assert_eq!(decoder.decode(), Ok(None));
    }
}

/// What meets the branches of the decoder more often than arbitrary bytes do.
const WORDS: &[&str] = &[
    "--x",
    "\r\n--x",
    "--",
    "\r\n",
    "\r",
    "\n",
    "-",
    " ",
    "x",
    "content",
    NAMED,
    "\r\n--x--",
    "name: value\r\n",
    "\u{0}",
];

proptest! {
    #[test]
    fn any_cut_gives_the_same_parts(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let body = format!("--x\r\n{}", words.concat());
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len())).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| &body.as_bytes()[ends[0]..ends[1]]);
        prop_assert_eq!(read(pieces, Limits::default()), read_whole(&body));
    }

    #[test]
    fn a_form_that_was_written_is_read(
        parts in prop::collection::vec(("[a-z;= ]{1,8}", prop::option::of("[a-z./]{0,8}"), "[-xy\r\n]{0,12}"), 0..4),
    ) {
        let mut body = String::new();
        let mut expected = Vec::new();
        for (name, file_name, content) in parts {
            if content.contains("\r\n--x") || content.starts_with("--x") {
                continue;
            }
            let file = file_name.as_ref().map(|name| format!("; filename=\"{name}\"")).unwrap_or_default();
            body += &format!("--x\r\ncontent-disposition: form-data; name=\"{name}\"{file}\r\n\r\n{content}\r\n");
            expected.push((name, file_name, content.into_bytes()));
        }
        body += "--x--\r\n";
        prop_assert_eq!(read_in_each_cut(&body), Ok(expected));
    }
}
