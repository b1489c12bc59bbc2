//! Text for a terminal: tables, numbers with commas, times in a fitting unit, bars.

use std::fmt::Write as _;
use std::time::Duration;

/// A table: rows of cells under headings, in columns as wide as their widest cell.
///
/// ```
/// use anywire_load::text::{Columns, grouped};
///
/// let mut columns = Columns::new(1, &["server", "requests/s"]);
/// columns.row(vec!["one".to_owned(), grouped(123_456)]);
/// assert_eq!(columns.render(), "  server  requests/s\n  one        123,456\n");
/// ```
#[derive(Debug, Clone)]
pub struct Columns {
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Columns {
    /// A table whose first `left` columns are aligned to the left and all others, which hold figures, to the right.
    /// Without `headings` it has no line of them.
    pub fn new(left: usize, headings: &[&str]) -> Self {
        let mut columns = Self { rows: Vec::new(), left };
        if !headings.is_empty() {
            columns.row(headings.iter().map(|&heading| heading.to_owned()).collect());
        }
        columns
    }

    /// Adds a row. It may have fewer cells than others.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table, each line indented by two spaces and ended by a line feed.
    pub fn render(&self) -> String {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..count).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                // Writing to a String cannot fail.
                let _ = if column < self.left {
                    write!(line, "  {cell:<width$}")
                } else {
                    write!(line, "  {cell:>width$}")
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A whole number with a comma before each three digits: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of what `noun` names: `1 connection`, `64 connections`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// The same with a capital letter at its begin: a line of the terminal as a sentence of a page.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// A figure rounded to a whole number with commas; from 10^15 on as [`digits`] writes it.
pub fn whole(value: f64) -> String {
    if value.abs() < EXPONENT_MIN { grouped(value.round() as u64) } else { digits(value) }
}

/// A time given in microseconds, with three digits, in us, ms or s: `1.23 ms`.
pub fn time(us: f64) -> String {
    // Three digits of 999.7 are 1000, which is one of the next unit.
    let (value, unit) = if us < 999.5 {
        (us, "us")
    } else if us < 999_500.0 {
        (us / 1_000.0, "ms")
    } else {
        (us / 1_000_000.0, "s")
    };
    format!("{} {unit}", digits(value))
}

/// A length of time: a number with `us`, `ms`, `s`, `m` or `h`; without a unit it is in seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let seconds_per_unit = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        unit => {
            return Err(format!(
                "{unit:?} is no unit of time; write us, ms, s, m or h, such as 500ms or 10s"
            ));
        }
    };
    let number: f64 =
        digits.parse().map_err(|_| format!("{digits:?} is no number; write it such as 500ms or 10s"))?;
    let range = || format!("{text} is out of range; write a time from 0 up, such as 500ms or 10s");
    Duration::try_from_secs_f64(number * seconds_per_unit).map_err(|_| range())
}

/// A time that is not zero.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() {
        Err("0 is no time to do anything; write it such as 500ms or 10s".to_owned())
    } else {
        Ok(time)
    }
}

/// A number with about three digits, and without an exponent below 10^15.
pub fn digits(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= EXPONENT_MIN {
        // No figure of a measurement. Written out it could have 300 digits.
        return format!("{value:.2e}");
    }
    // Rounding may add a digit: 99.97 is 100, and not 100.0.
    if magnitude >= 99.95 {
        format!("{value:.0}")
    } else if magnitude >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// A figure written by `write`; a dash if there is none.
pub fn known(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), write)
}

/// 10^15 microseconds are 30 years.
const EXPONENT_MIN: f64 = 1e15;

/// A bar for a chart of text: `share` (0 to 1) of `width` characters, to an eighth of a character.
pub fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] =
        ["", "\u{258f}", "\u{258e}", "\u{258d}", "\u{258c}", "\u{258b}", "\u{258a}", "\u{2589}"];
    // Casting saturates, and makes NaN 0.
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    format!("{}{}", "\u{2588}".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_marks_and_units() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(time(12.34), "12.3 us");
        assert_eq!(time(1_234.0), "1.23 ms");
        assert_eq!(time(123_400.0), "123 ms");
        assert_eq!(time(60_000_000.0), "60.0 s");
        assert_eq!(
            (time(999.4), time(999.7), time(999_700.0)),
            ("999 us".into(), "1.00 ms".into(), "1.00 s".into())
        );
        let rounded = [9.994, 9.996, 99.94, 99.97, -99.97].map(digits);
        assert_eq!(rounded, ["9.99", "10.0", "99.9", "100", "-100"]);
        assert_eq!([1e308, -2.5e20, f64::INFINITY].map(digits), ["1.00e308", "-2.50e20", "inf"]);
        assert_eq!((whole(1e308), time(1e308)), ("1.00e308".into(), "1.00e302 s".into()));
        assert_eq!(whole(999_999_999_999_999.0), "999,999,999,999,999");
        assert_eq!(known(None, digits), "-");
        assert_eq!([counted(1, "loop"), counted(64, "loop")], ["1 loop", "64 loops"]);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "s", "1d", "-1s", "1e400", "ten", "1 s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(positive_duration("0s").is_err());
    }

    #[test]
    fn columns_line_up() {
        let mut columns = Columns::new(1, &["name", "n"]);
        columns.row(vec!["a".to_owned(), "100".to_owned()]);
        assert_eq!(columns.render(), "  name    n\n  a     100\n");
        // By characters, not bytes, and without blanks at the end of a line.
        let mut columns = Columns::new(2, &[]);
        columns.row(vec!["\u{e9}".to_owned(), "long".to_owned()]);
        columns.row(vec!["x".to_owned(), "s".to_owned()]);
        assert_eq!(columns.render(), "  \u{e9}  long\n  x  s\n");
    }

    #[test]
    fn bars_grow_by_eighths() {
        assert_eq!(bar(1.0, 2), "\u{2588}\u{2588}");
        assert_eq!(bar(0.5 + 1.0 / 16.0, 2), "\u{2588}\u{258f}");
        assert_eq!(bar(f64::NAN, 2), "");
    }
}
