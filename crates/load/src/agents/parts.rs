//! The part of a plan that one of several agents carries out: the parts together are the plan, without loss.

use crate::errors::LoadError;
use crate::plan::{Amount, Plan};
use crate::schedule::Schedule;

impl Plan {
    /// The part of agent `index` of `of`: connections and requests are divided evenly, the first agents have what is left over, and the
    /// rate follows the connections. No two agents count the same number or take the same row of a script.
    ///
    /// # Errors
    ///
    /// There are fewer connections or requests than agents.
    pub fn part(&self, index: usize, of: usize) -> Result<Self, LoadError> {
        let (index, of) = (index as u64, of as u64);
        enough("connections", self.connections as u64, of)?;
        let connections = portion(self.connections as u64, index, of);
        let amount = match self.amount {
            Amount::Duration(time) => Amount::Duration(time),
            Amount::Requests(requests) => {
                enough("requests", requests, of)?;
                Amount::Requests(portion(requests, index, of))
            }
        };
        // Never more than the whole, which is a usize.
        let connections = usize::try_from(connections).unwrap_or(usize::MAX);
        let share = connections as f64 / self.connections as f64;
        // Each draws its own gaps.
        let schedule =
            self.schedule.map(|all| Schedule { seed: all.seed.wrapping_add(index), ..all.scaled(share) });
        Ok(Self { connections, amount, schedule, place: (index, of), ..self.clone() })
    }
}

/// An equal part of the whole; the first ones have one more, if it does not divide evenly.
fn portion(whole: u64, index: u64, of: u64) -> u64 {
    whole / of + u64::from(index < whole % of)
}

fn enough(what: &'static str, asked: u64, of: u64) -> Result<(), LoadError> {
    if asked >= of && of > 0 {
        return Ok(());
    }
    Err(LoadError::Limit { what, asked, least: of.max(1), most: u64::MAX })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_add_up_to_the_plan(connections in 1_usize..10_000, requests in 1_u64..u64::MAX, of in 1_usize..100) {
            let plan = Plan { connections, amount: Amount::Requests(requests), ..Plan::new("http://h/") };
            let parts: Result<Vec<_>, _> = (0..of).map(|index| plan.part(index, of)).collect();
            if connections < of || requests < of as u64 {
                prop_assert!(parts.is_err());
                return Ok(());
            }
            let parts = parts.unwrap();
            prop_assert_eq!(parts.iter().map(|part| part.connections).sum::<usize>(), connections);
            let of_part = |part: &Plan| match part.amount {
                Amount::Requests(requests) => requests,
                Amount::Duration(_) => 0,
            };
            prop_assert_eq!(parts.iter().map(of_part).sum::<u64>(), requests);
            prop_assert!(parts.iter().all(|part| part.connections.abs_diff(connections / of) <= 1));
        }
    }

    #[test]
    fn all_measure_for_the_whole_time() {
        let amount = Amount::Duration(Duration::from_secs(7));
        let plan = Plan { amount, ..Plan::new("http://h/") };
        assert_eq!(plan.part(2, 4).unwrap().amount, amount);
        assert_eq!(plan.part(2, 4).unwrap().place, (2, 4));
        assert!(plan.part(0, 0).is_err());
    }
}
