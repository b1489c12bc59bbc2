//! `ab`: two servers that take turns under the same load, round by round, and whether they differ.
//!
//! The speed of a machine moves by several percent from second to second. So a round is no long load of one side and then
//! one of the other: both take turns of a fraction of a second ([`Options::turn`]), in the order ABBA or BAAB that a seed
//! draws, until each was loaded for [`Options::duration`]. What the machine did meanwhile struck both sides alike, and the
//! tests look at the ratio within each round. Connections are opened anew for each turn.
//!
//! ```no_run
//! use anywire_load::Plan;
//! use anywire_load::ab::{Options, Side, ab};
//! use anywire_loops::Loops;
//!
//! let sides = [Side::new("old", "http://localhost:8080/"), Side::new("new", "http://localhost:8081/")];
//! let outcome = ab(&Loops::start(1)?, &sides, &Options::default(), |_| ())?;
//! println!("{outcome}");
//! if !outcome.contrast.regressions(0.05).is_empty() {
//!     std::process::exit(3);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod outcome;
mod run;
mod settings;
mod table;

pub use outcome::{AbOutcome, AbPlan, AbSide, SCHEMA};
pub use run::{Step, ab};
pub use settings::{Options, Restart, Side};
