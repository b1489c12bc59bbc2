//! Plain-text tables: the first column to the left, figures to the right.

use anywire_load::text::{Columns, grouped, known};

use crate::rounds::Spread;

/// Rows of cells under a heading, with notes below.
pub struct Table {
    columns: Columns,
    notes: Vec<String>,
}

impl Table {
    /// With these headings.
    pub fn new(headings: &[&str]) -> Self {
        Self { columns: Columns::new(1, headings), notes: Vec::new() }
    }

    /// Adds a row; a cell too few is blank.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.columns.row(cells.into_iter().collect());
    }

    /// Adds the row of a candidate: its figures or, if it failed, that it did, and below the table why.
    pub fn candidate<const N: usize>(&mut self, name: &str, failure: Option<&str>, figures: [String; N]) {
        match failure {
            None => self.row([name.to_owned()].into_iter().chain(figures)),
            Some(failure) => {
                self.row([name.to_owned(), "failed".to_owned()]);
                self.note(format!("{name}: {failure}"));
            }
        }
    }

    /// Adds a line below the table.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The table as text, each line ended.
    pub fn text(&self) -> String {
        let notes = self.notes.iter().map(|note| format!("  {note}\n"));
        self.columns.render() + &notes.collect::<String>()
    }
}

/// `6.12 (6.01-6.40)`, or a dash if unknown.
pub fn spread(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |Spread { median, min, max }| format!("{median:.digits$} ({min:.digits$}-{max:.digits$})"),
    )
}

/// A figure, or a dash if unknown.
pub fn figure(value: Option<f64>, digits: usize) -> String {
    known(value, |value| format!("{value:.digits$}"))
}

/// A whole number with a comma before each three digits, or a dash if unknown.
pub fn thousands(value: Option<f64>) -> String {
    // A cast saturates, and a count is never negative.
    known(value, |value| grouped(value.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["name", "us"]);
        table.row(["hyper".to_owned(), figure(Some(6.123), 2)]);
        table.row(["x".to_owned(), figure(None, 2)]);
        table.note("two of them".to_owned());
        assert_eq!(table.text(), "  name     us\n  hyper  6.12\n  x         -\n  two of them\n");
    }

    #[test]
    fn unknown_figures_are_dashes() {
        assert_eq!([thousands(Some(1_234_567.4)), thousands(None)], ["1,234,567", "-"]);
    }
}
