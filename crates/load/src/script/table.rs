//! Tables of data: the rows of a CSV file, whose columns templates name.

use anywire_advice::Advice;
use csv::{ByteRecord, ReaderBuilder};
use serde::{Deserialize, Serialize};

/// Data for templates: a CSV text whose first line names the columns. `{{NAME.COLUMN}}` is a cell of the row that a
/// sequence has.
///
/// ```
/// use anywire_load::script::Table;
///
/// let users = Table::new("users", "name,password\nann,secret\nbob,hidden\n");
/// assert_eq!(users.order, anywire_load::script::Order::InTurn);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The name that templates use.
    pub name: String,
    /// The text: values between commas, quoted if they hold a comma, a quotation mark or a line break (RFC 4180).
    pub csv: String,
    /// Which row comes next (in turn).
    #[serde(default)]
    pub order: Order,
}

/// Which one of several comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// One after the other, and from the beginning again. Each loop takes rows that no other takes, until all were taken.
    #[default]
    InTurn,
    /// Any of them, by the seed of the run.
    Random,
}

/// A table that cannot be used (the caller's fault).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableFault {
    /// It has no first line, or nothing else.
    #[error(
        "it has no row below a first line of names{}",
        Advice("write the names of the columns in its first line, and values below")
    )]
    Empty,
    /// A name is missing or stands twice in the first line.
    #[error(
        "its first line has the column {name:?} twice, or without a name{}",
        Advice("give each column a name of its own")
    )]
    Columns {
        /// The name.
        name: String,
    },
    /// A row has another number of values than the first line.
    #[error(
        "line {line}: it has {found} values, and there are {wanted} columns{}",
        Advice("write one value for each column, in quotation marks if it holds a comma")
    )]
    Uneven {
        /// The line, from 1.
        line: u64,
        /// How many values stand there.
        found: u64,
        /// How many columns there are.
        wanted: u64,
    },
    /// It cannot be read as CSV.
    #[error("it is no CSV{}", Advice("write values between commas, in lines"))]
    NoCsv,
    /// It is larger than 4 GiB.
    #[error("it has {bytes} bytes, at most {limit} can be kept{}", Advice("load with a part of it"))]
    Large {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}

/// The rows of a table, close together.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) order: Order,
    /// The text of all cells.
    cells: Vec<u8>,
    /// Where each cell ends in it.
    ends: Vec<u32>,
}

impl Table {
    /// A table whose rows are taken in turn.
    pub fn new(name: impl Into<String>, csv: impl Into<String>) -> Self {
        Self { name: name.into(), csv: csv.into(), order: Order::default() }
    }

    /// Reads the rows.
    pub(super) fn rows(&self) -> Result<Rows, TableFault> {
        let (bytes, limit) = (self.csv.len() as u64, u64::from(u32::MAX));
        if bytes > limit {
            return Err(TableFault::Large { bytes, limit });
        }
        // Spreadsheets begin with a byte order mark, which would be part of the first name.
        let text = self.csv.strip_prefix('\u{feff}').unwrap_or(&self.csv);
        let mut reader = ReaderBuilder::new().from_reader(text.as_bytes());
        let columns: Vec<String> = match reader.headers() {
            Ok(names) => names.iter().map(|name| name.trim().to_owned()).collect(),
            Err(_) => return Err(TableFault::NoCsv),
        };
        for (at, name) in columns.iter().enumerate() {
            if name.is_empty() || columns[..at].contains(name) {
                return Err(TableFault::Columns { name: name.clone() });
            }
        }
        let mut rows =
            Rows { name: self.name.clone(), columns, order: self.order, cells: Vec::new(), ends: Vec::new() };
        let mut record = ByteRecord::new();
        while reader.read_byte_record(&mut record).map_err(|error| fault(&error))? {
            for cell in &record {
                rows.cells.extend_from_slice(cell);
                rows.ends.push(rows.cells.len() as u32);
            }
        }
        if rows.count() == 0 {
            return Err(TableFault::Empty);
        }
        Ok(rows)
    }
}

fn fault(error: &csv::Error) -> TableFault {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => TableFault::Uneven {
            line: pos.as_ref().map_or(0, csv::Position::line),
            found: *len,
            wanted: *expected_len,
        },
        // Text in memory fails in no other way.
        _ => TableFault::NoCsv,
    }
}

impl Rows {
    /// How many rows there are.
    pub(super) fn count(&self) -> usize {
        self.ends.len().checked_div(self.columns.len()).unwrap_or_default()
    }

    /// The text of a cell.
    pub(super) fn cell(&self, row: usize, column: usize) -> &[u8] {
        let at = row * self.columns.len() + column;
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.cells[begin as usize..self.ends[at] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_row_and_column() {
        let rows = Table::new("t", "\u{feff}a, b\n1,2\n\"x, y\",\"say \"\"hi\"\"\"\n").rows().unwrap();
        assert_eq!((rows.count(), &rows.columns), (2, &vec!["a".to_owned(), "b".to_owned()]));
        let cell = |row, column| String::from_utf8_lossy(rows.cell(row, column)).into_owned();
        assert_eq!([cell(0, 0), cell(0, 1), cell(1, 0), cell(1, 1)], ["1", "2", "x, y", "say \"hi\""]);
    }

    #[test]
    fn a_table_without_rows_or_with_uneven_ones_is_refused() {
        let fault = |csv: &str| Table::new("t", csv).rows().unwrap_err();
        assert_eq!(fault(""), TableFault::Empty);
        assert_eq!(fault("a,b\n"), TableFault::Empty);
        assert_eq!(fault("a,a\n1,2\n"), TableFault::Columns { name: "a".to_owned() });
        assert_eq!(fault("a,\n1,2\n"), TableFault::Columns { name: String::new() });
        let uneven = fault("a,b\n1,2\n3\n");
        assert_eq!(uneven, TableFault::Uneven { line: 3, found: 1, wanted: 2 });
    }
}
