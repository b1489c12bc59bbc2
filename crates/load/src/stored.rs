//! Results that were stored as JSON, read back: what `diff` compares, and where a noise limit comes from.
//!
//! A file may be anything: another tool's, cut off by a full disk, of a later version. Each of these has its own error.

use anywire_advice::Advice;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ab::{self, AbOutcome};
use crate::compare::{self, Comparison};
use crate::outcome::{self, Outcome};
use crate::rounds::{Figures, Round};

/// A stored result.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// Of `load`.
    Load(Box<Outcome>),
    /// Of `ab`.
    Ab(Box<AbOutcome>),
    /// Of `compare`.
    Compare(Box<Comparison>),
}

impl Stored {
    /// Reads the JSON of a result.
    ///
    /// ```
    /// use anywire_load::{Stored, StoredError};
    ///
    /// let cut_off = Stored::from_json("{\"schema\": \"anywire.load/1\",");
    /// assert!(matches!(cut_off, Err(StoredError::CutOff)));
    /// ```
    ///
    /// # Errors
    ///
    /// It is no JSON, cut off, of another tool, of a later version, or lacks what its schema promises.
    pub fn from_json(text: &str) -> Result<Self, StoredError> {
        let value: Value = serde_json::from_str(text).map_err(|error| match error.is_eof() {
            true => StoredError::CutOff,
            false => StoredError::NotJson { line: error.line(), column: error.column() },
        })?;
        let schema = value.get("schema").and_then(Value::as_str).ok_or(StoredError::NoSchema)?.to_owned();
        let stored = match schema.as_str() {
            outcome::SCHEMA => Self::Load(read(&schema, value)?),
            ab::SCHEMA => Self::Ab(read(&schema, value)?),
            compare::SCHEMA => Self::Compare(read(&schema, value)?),
            _ if is_later(&schema) => return Err(StoredError::Later { schema }),
            _ => return Err(StoredError::OtherSchema { schema }),
        };
        match stored.series().iter().map(|one| one.rounds.len()).sum::<usize>() {
            rounds if rounds > ROUNDS_MAX => Err(StoredError::TooManyRounds { rounds, most: ROUNDS_MAX }),
            _ => Ok(stored),
        }
    }

    /// The form of it: `anywire.load/1`.
    pub fn schema(&self) -> &'static str {
        match self {
            Self::Load(_) => outcome::SCHEMA,
            Self::Ab(_) => ab::SCHEMA,
            Self::Compare(_) => compare::SCHEMA,
        }
    }

    /// The rounds of each server in it, by name. A load without rounds is one round of itself.
    pub(crate) fn series(&self) -> Vec<Series<'_>> {
        match self {
            Self::Load(outcome) => {
                let is_one_run = outcome.rounds.is_empty();
                let rounds = if is_one_run { vec![one_run(outcome)] } else { outcome.rounds.clone() };
                vec![Series { name: "load", rounds, is_one_run }]
            }
            Self::Ab(outcome) => {
                outcome.sides.iter().map(|side| Series::of(&side.name, &side.rounds)).collect()
            }
            Self::Compare(comparison) => {
                comparison.candidates.iter().map(|row| Series::of(&row.name, &row.rounds)).collect()
            }
        }
    }
}

/// The rounds of one server.
pub(crate) struct Series<'s> {
    pub(crate) name: &'s str,
    pub(crate) rounds: Vec<Round>,
    /// Whether there is only the whole of one run.
    pub(crate) is_one_run: bool,
}

impl<'s> Series<'s> {
    fn of(name: &'s str, rounds: &[Round]) -> Self {
        Self { name, rounds: rounds.to_vec(), is_one_run: false }
    }
}

/// A whole run as a round.
pub(crate) fn one_run(outcome: &Outcome) -> Round {
    let latency = outcome.latency.intended.as_ref().or(outcome.latency.send.as_ref());
    Round {
        round: 1,
        figures: Figures {
            requests_per_second: outcome.rate.achieved,
            p50_us: latency.map(|latency| latency.p50),
            p99_us: latency.map(|latency| latency.p99),
            p99_9_us: latency.map(|latency| latency.p99_9),
            max_us: latency.map(|latency| latency.max),
            client_cpu_us_per_request: outcome.generator.cpu_us_per_request,
            ..Figures::default()
        },
        answered: outcome.totals.measured.answered,
        errors: outcome.totals.measured.errors.total(),
        connections_open: outcome.totals.connections.open_at_start,
        ..Round::default()
    }
}

fn read<T: DeserializeOwned>(schema: &str, value: Value) -> Result<Box<T>, StoredError> {
    serde_json::from_value(value)
        .map(Box::new)
        .map_err(|cause| StoredError::Incomplete { schema: schema.to_owned(), found: cause.to_string() })
}

/// Whether it is of a kind that is known, with a larger number.
fn is_later(schema: &str) -> bool {
    [outcome::SCHEMA, ab::SCHEMA, compare::SCHEMA].iter().any(|known| {
        let (kind, number) = known.rsplit_once('/').expect("each has its number");
        let later = schema.strip_prefix(kind).and_then(|rest| rest.strip_prefix('/'));
        let larger = |later: &str| later.parse::<u32>().ok() > number.parse::<u32>().ok();
        later.is_some_and(larger)
    })
}

/// Why a file is no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoredError {
    /// It is no JSON.
    #[error(
        "it is no JSON (line {line}, column {column}){help}",
        help = Advice("name a file that --json has written")
    )]
    NotJson {
        /// Where that is seen, from 1.
        line: usize,
        /// The place in the line, from 1.
        column: usize,
    },
    /// It ends in the middle.
    #[error(
        "it ends in the middle of its JSON{help}",
        help = Advice("measure again: it was cut off, as by a full disk")
    )]
    CutOff,
    /// It does not say what it is.
    #[error("it is JSON without a schema{help}", help = Advice("name a file that --json has written"))]
    NoSchema,
    /// It is something else.
    #[error(
        "it is of the schema {schema:?}, and results of load, ab and compare can be compared{help}",
        help = Advice("name a file that one of these has written with --json")
    )]
    OtherSchema {
        /// What it says.
        schema: String,
    },
    /// It is of a later version of this tool.
    #[error(
        "it is of the schema {schema:?}, which is later than this tool{help}",
        help = Advice("read it with the version that wrote it, or a later one")
    )]
    Later {
        /// What it says.
        schema: String,
    },
    /// It lacks what its schema promises.
    #[error(
        "it says {schema:?} and is not complete: {found}{help}",
        help = Advice("measure again, or see who changed it")
    )]
    Incomplete {
        /// What it says.
        schema: String,
        /// What is missing or wrong.
        found: String,
    },
    /// It has more rounds than anybody measures, and comparing them would take minutes.
    #[error("it has {rounds} rounds, at most {most} are compared{help}", help = Advice("measure fewer rounds"))]
    TooManyRounds {
        /// How many.
        rounds: usize,
        /// The most.
        most: usize,
    },
}

/// The most rounds of all servers in a result: comparing so many takes some seconds.
pub(crate) const ROUNDS_MAX: usize = 10_000;

impl StoredError {
    /// Whether it is a good file, only not one for this.
    pub fn is_other_kind(&self) -> bool {
        matches!(self, Self::OtherSchema { .. } | Self::Later { .. })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> StoredError {
        Stored::from_json(text).expect_err("it is no result")
    }

    #[test]
    fn what_is_no_result_is_told_apart() {
        assert_eq!(refused(""), StoredError::CutOff);
        assert_eq!(refused("{\"schema\": \"anywire.load/1\", \"to"), StoredError::CutOff);
        assert_eq!(refused("<html>"), StoredError::NotJson { line: 1, column: 1 });
        assert_eq!(refused("{}"), StoredError::NoSchema);
        assert_eq!(refused("[1, 2]"), StoredError::NoSchema);
        assert_eq!(refused("{\"schema\": 7}"), StoredError::NoSchema);
        let schema = |name: &str| refused(&format!("{{\"schema\": {name:?}}}"));
        for later in ["anywire.load/2", "anywire.ab/10", "anywire.compare/4294967295"] {
            assert!(matches!(schema(later), StoredError::Later { schema } if schema == later), "{later}");
        }
        for other in ["k6/1", "anywire.loads/2", "anywire.load/x", "anywire.load/0", "anywire.load", ""] {
            assert!(
                matches!(schema(other), StoredError::OtherSchema { schema } if schema == other),
                "{other}"
            );
        }
        let StoredError::Incomplete { found, .. } = schema("anywire.load/1") else {
            panic!("nothing else is there")
        };
        assert!(found.contains("missing field"), "{found}");
    }

    proptest! {
        #[test]
        fn no_text_does_any_harm(text in ".{0,200}", schema in "anywire\\.(load|ab|compare)/1") {
            let _ = Stored::from_json(&text);
            let _ = Stored::from_json(&format!("{{\"schema\":\"{schema}\",\"x\":{text}}}"));
        }
    }
}
