//! An outcome in the forms that other programs read: a row of CSV, and the text of Prometheus. Both are made of the description of
//! the figures ([`figures`](crate::figures)); what is unknown is left out, or an empty cell.

mod csv;
mod prometheus;

pub use csv::csv;
pub use prometheus::prometheus;
