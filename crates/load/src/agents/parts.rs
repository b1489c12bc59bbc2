//! The part of a plan that one of several agents carries out: the parts together are the plan, without loss.

use crate::errors::LoadError;
use crate::plan::{Amount, Plan, portion};

impl Plan {
    /// The part of agent `index` of `of`: connections and requests are divided evenly, and the first agents have what is left over. The schedule
    /// stays that of all: its requests are dealt to the connections of all agents in turn. No two agents count the same number or take the same row of a script.
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
        Ok(Self {
            // Never more than the whole, which is a usize.
            connections: usize::try_from(connections).unwrap_or(usize::MAX),
            connections_together: Some(self.connections),
            amount,
            place: (index, of),
            ..self.clone()
        })
    }
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
    use crate::handles::Handles;
    use crate::pacer::Pacer;
    use crate::schedule::{Gaps, Schedule};

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

    /// When requests leave from the loops of all agents.
    fn times(plan: &Plan, of: usize, loops: usize) -> Vec<Duration> {
        let pacer = |part: &Plan, index| {
            let (schedule, time) = (part.schedule.unwrap(), Duration::from_secs(1));
            Pacer::new(&schedule, time, part.part_of_loop(index, loops))
        };
        let mut all = Vec::new();
        for index in 0..of {
            let part = plan.part(index, of).unwrap();
            for index in 0..loops {
                let pacer = pacer(&part, index);
                let due = pacer.due(Duration::from_secs(1) - Duration::from_nanos(1));
                all.extend((0..due).map(|number| pacer.intended(number)));
            }
        }
        all.sort();
        all
    }

    proptest! {
        /// A rate is kept as if one machine had all connections, at the same moments.
        #[test]
        fn the_schedule_of_all_agents_is_that_of_one(
            connections in 1_usize..40,
            of in 1_usize..6,
            loops in 1_usize..4,
            rate in 1.0_f64..500.0,
            jitter in any::<bool>(),
        ) {
            prop_assume!(connections >= of);
            let gaps = if jitter { Gaps::Jitter } else { Gaps::Even };
            let schedule = Some(Schedule { gaps, ..Schedule::constant(rate) });
            let plan = Plan { connections, schedule, ..Plan::new("http://h/") };
            prop_assert_eq!(times(&plan, of, loops), times(&plan, 1, 1));
        }
    }

    #[test]
    fn gaps_by_chance_are_drawn_by_each_agent_for_itself() {
        let schedule = Some(Schedule { gaps: Gaps::Poisson, ..Schedule::constant(400.0) });
        let plan = Plan { connections: 8, schedule, ..Plan::new("http://h/") };
        let all = times(&plan, 4, 2);
        // 400 on average, with a deviation of 20; and no moment is that of two agents.
        assert!((280..520).contains(&all.len()), "{}", all.len());
        assert!(all.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn a_part_that_is_none_is_refused() {
        let part = Plan { connections: 10, ..Plan::new("http://h/") }.part(1, 4).unwrap();
        assert!(part.prepare(&Handles::default()).is_ok());
        for wrong in [
            Plan { connections: 4, ..part.clone() },
            Plan { connections_together: Some(usize::MAX), ..part.clone() },
            Plan { place: (4, 4), ..part.clone() },
            Plan { place: (u64::MAX, 0), ..part },
        ] {
            assert!(wrong.prepare(&Handles::default()).is_err(), "{wrong:?}");
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
