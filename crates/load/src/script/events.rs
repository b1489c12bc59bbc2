//! Counts the events of a streamed body as it comes.
//!
//! An event stream (`text/event-stream`) has an event at each blank line behind a `data` field, as the WHATWG HTML standard
//! (section 9.2.6) dispatches them; comments and fields without data are none. A stream of JSON lines has one on each
//! line that is not empty. Of any other body each piece is one, as it was read.

/// Finds the events in the body of one answer.
#[derive(Debug)]
pub(crate) enum EventScanner {
    /// `text/event-stream`.
    Stream(Lines),
    /// One JSON value a line.
    Lines(Lines),
    /// Anything else.
    Pieces,
}

/// What has come of the present line and event.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The beginning of the line.
    begin: [u8; 5],
    /// The length of the line, as far as it matters.
    length: usize,
    /// The event has data.
    has_data: bool,
    /// The last byte was a carriage return: a line feed behind it ends no other line.
    after_return: bool,
}

impl EventScanner {
    /// A scanner for a body of this type.
    pub(crate) fn of(content_type: Option<&[u8]>) -> Self {
        let essence = content_type.unwrap_or_default().split(|byte| *byte == b';').next().unwrap_or_default();
        let essence = essence.trim_ascii();
        let is = |names: &[&str]| names.iter().any(|name| essence.eq_ignore_ascii_case(name.as_bytes()));
        if is(&["text/event-stream"]) {
            Self::Stream(Lines::default())
        } else if is(&[
            "application/x-ndjson",
            "application/ndjson",
            "application/jsonl",
            "application/x-jsonlines",
        ]) {
            Self::Lines(Lines::default())
        } else {
            Self::Pieces
        }
    }

    /// How many events end in this piece of the body.
    pub(crate) fn data(&mut self, data: &[u8]) -> u64 {
        match self {
            Self::Stream(lines) => lines.take(data, Lines::ends_event),
            Self::Lines(lines) => lines.take(data, |lines| lines.length > 0),
            Self::Pieces => u64::from(!data.is_empty()),
        }
    }
}

impl Lines {
    /// Takes the lines of a piece, and counts those of which `counts` says so.
    fn take(&mut self, data: &[u8], counts: impl Fn(&mut Self) -> bool) -> u64 {
        let (mut rest, mut found) = (data, 0);
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = memchr::memchr2(b'\r', b'\n', rest);
            self.begin(&rest[..end.unwrap_or(rest.len())]);
            let Some(end) = end else { break };
            self.after_return = rest[end] == b'\r';
            found += u64::from(counts(self));
            self.length = 0;
            rest = &rest[end + 1..];
        }
        found
    }

    /// Notes how the line begins.
    fn begin(&mut self, more: &[u8]) {
        for byte in more {
            if let Some(place) = self.begin.get_mut(self.length) {
                *place = *byte;
            } else if self.length > self.begin.len() {
                break;
            }
            self.length += 1;
        }
    }

    /// The line has ended. Whether it ends an event.
    fn ends_event(&mut self) -> bool {
        if self.length == 0 {
            return std::mem::take(&mut self.has_data);
        }
        let name = &self.begin[..self.length.min(self.begin.len())];
        self.has_data |= name == b"data:" || (self.length == 4 && name == b"data");
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(content_type: &str, pieces: &[&str]) -> u64 {
        let mut scanner = EventScanner::of(Some(content_type.as_bytes()));
        pieces.iter().map(|piece| scanner.data(piece.as_bytes())).sum()
    }

    #[test]
    fn a_blank_line_behind_data_is_an_event() {
        let stream = |pieces: &[&str]| events("text/event-stream; charset=utf-8", pieces);
        assert_eq!(stream(&["data: a\n\ndata: b\n\n"]), 2);
        assert_eq!(stream(&["id: 1\nevent: x\nda", "ta: a\r", "\n\r\n", ": comment\n\n"]), 1);
        assert_eq!(stream(&["data\n\n", "datax: 1\n\n", "data:\r\r", "\n\n"]), 2);
        assert_eq!(stream(&["data: a\ndata: b\n"]), 0);
    }

    #[test]
    fn json_lines_and_other_bodies_have_events_too() {
        assert_eq!(events("application/x-ndjson", &["{\"a\":1}\n\n{\"a\"", ":2}\r\n"]), 2);
        assert_eq!(events("text/plain", &["a\n\nb", "", "c"]), 2);
        assert_eq!(EventScanner::of(None).data(b"x"), 1);
    }

    proptest! {
        #[test]
        fn how_a_stream_is_cut_changes_nothing(text in "(data|: |\n|\r|\r\n|a){0,30}", cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(events("text/event-stream", &pieces), events("text/event-stream", &[&text]));
        }
    }
}
