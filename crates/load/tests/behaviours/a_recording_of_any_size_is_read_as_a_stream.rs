//! A recording of 50 MiB, nearly all of it answers: it is read as a stream, and only its requests are held.

use std::io::Read;

use anywire_load::script::{HarOptions, read_har};

/// A recording that is made while it is read: so many exchanges, each with an answer of so many bytes.
struct Recording {
    exchanges: usize,
    answer_bytes: usize,
    part: Vec<u8>,
    at: usize,
    /// Of the file, so far.
    bytes: usize,
}

impl Recording {
    fn new(exchanges: usize, answer_bytes: usize) -> Self {
        Self { exchanges, answer_bytes, part: b"{\"log\":{\"entries\":[".to_vec(), at: 0, bytes: 0 }
    }

    fn next_part(&mut self) -> Vec<u8> {
        let Some(left) = self.exchanges.checked_sub(1) else { return Vec::new() };
        self.exchanges = left;
        let comma = if left == 0 { "]}}" } else { "," };
        let text = "x".repeat(self.answer_bytes);
        format!(
            "{{\"request\":{{\"method\":\"GET\",\"url\":\"http://h/{left}\",\"headers\":[{{\"name\":\"a\",\"value\":\"b\"}}]}},\
             \"response\":{{\"content\":{{\"text\":\"{text}\"}}}}}}{comma}"
        )
        .into_bytes()
    }
}

impl Read for Recording {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.part.len() {
            (self.part, self.at) = (self.next_part(), 0);
        }
        let count = buffer.len().min(self.part.len() - self.at);
        buffer[..count].copy_from_slice(&self.part[self.at..self.at + count]);
        self.at += count;
        self.bytes += count;
        Ok(count)
    }
}

#[test]
fn only_the_requests_are_held() {
    let mut recording = Recording::new(50, 1 << 20);
    let mut options = HarOptions::default();
    // Far less than the file, and enough for its requests.
    options.limits.held_bytes = 4096;
    let har = read_har(&mut recording, &options).unwrap();
    assert!(recording.bytes > 50 << 20, "{}", recording.bytes);
    assert_eq!((har.script.requests(), har.origin.as_str()), (50, "http://h"));
}

#[test]
fn a_file_beyond_its_limit_is_not_read_further() {
    let mut recording = Recording::new(50, 1 << 20);
    let mut options = HarOptions::default();
    options.limits.file_bytes = 1 << 20;
    let error = read_har(&mut recording, &options).unwrap_err().to_string();
    assert!(error.contains("more than 1048576 bytes"), "{error}");
    assert!(recording.bytes < 3 << 20, "{}", recording.bytes);
}
