//! Sets of scripts, and what comes of them.
//!
//! | file | holds |
//! | --- | --- |
//! | `set` | the three sets, and what each is written for |
//! | `translate` | a script in the form in which it is run |
//! | `stage` | where it runs: stand-ins for the commands that scripts call |
//! | `run` | all scripts of a set, and a verdict for each |
//! | `reasons` | why scripts fail that we do not mean to pass |
//! | `report` | what is told of a run |

mod reasons;
mod report;
mod run;
mod set;
mod stage;
mod translate;

pub(crate) use self::run::{Plan, run};
pub(crate) use self::set::Set;
