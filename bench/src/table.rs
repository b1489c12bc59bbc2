//! Plain-text tables: the first column to the left, figures to the right.

use crate::rounds::Spread;

/// Rows of cells under a heading.
pub struct Table {
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    /// With these headings.
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|&heading| heading.to_owned()).collect()], notes: Vec::new() }
    }

    /// Adds a row; a cell too few is blank.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a line that stands under the table.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The table as text, each line ended.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                line += &if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            }
            text += line.trim_end();
            text.push('\n');
            if index == 0 {
                let rule: Vec<_> = widths.iter().map(|&width| "-".repeat(width)).collect();
                text += &(rule.join("  ") + "\n");
            }
        }
        for note in &self.notes {
            text += &format!("{note}\n");
        }
        text
    }
}

/// `6.12 (6.01-6.40)`, or a dash if unknown.
pub fn spread(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or_else(dash, |Spread { median, min, max }| {
        format!("{median:.digits$} ({min:.digits$}-{max:.digits$})")
    })
}

/// A figure, or a dash if unknown.
pub fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(dash, |value| format!("{value:.digits$}"))
}

/// A whole number with a comma before each three digits.
pub fn thousands(value: Option<f64>) -> String {
    let Some(value) = value else { return dash() };
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["name", "us"]);
        table.row(["hyper".to_owned(), figure(Some(6.123), 2)]);
        table.row(["x".to_owned(), figure(None, 2)]);
        assert_eq!(table.text(), "name     us\n-----  ----\nhyper  6.12\nx         -\n");
    }

    #[test]
    fn thousands_are_set_apart() {
        let texts = [0.0, 999.0, 1000.0, 1_234_567.4, -123.0].map(|value| thousands(Some(value)));
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567", "-123"]);
    }
}
