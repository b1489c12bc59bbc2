//! The outcome of `diff` as text for a terminal.

use std::fmt;

use crate::contrast::Contrast;
use crate::diff::outcome::DiffOutcome;
use crate::text::Columns;

impl fmt::Display for DiffOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for pair in &self.pairs {
            let [old, new] = self.names(pair);
            writeln!(formatter, "{}", pair.contrast.sentence(&old, &new))?;
        }
        for pair in &self.pairs {
            let [old, new] = self.names(pair);
            let rounds = format!("{} + {} rounds", pair.old.len(), pair.new.len());
            writeln!(formatter, "\n{rounds}")?;
            let mut columns = Columns::new(1, &Contrast::headings(&old, &new));
            pair.contrast.rows().into_iter().for_each(|row| columns.row(row));
            formatter.write_str(&columns.render())?;
        }
        writeln!(formatter)?;
        for remark in self.remarks() {
            writeln!(formatter, "  {remark}")?;
        }
        match self.pairs.first() {
            Some(pair) => writeln!(formatter, "  {}", pair.contrast.explanation()),
            None => Ok(()),
        }
    }
}
