//! Leads through the rounds: whose turn it is, and what becomes of a round that was ended early.

use crate::rounds::order::Order;
use crate::stop::Stop;

/// Measures each of `sides` once in each of `rounds`, in this order, until `stop` says otherwise.
///
/// `measure` gives `None` for a side that could not be measured, and the others go on. A round that was ended early is
/// left out: without all sides it would tilt the medians.
///
/// ```
/// use anywire_load::Stop;
/// use anywire_load::rounds::{Order, interleaved};
///
/// let mut turns = Vec::new();
/// let all = interleaved(2, 3, &mut Order::mirrored(1), &Stop::new(), |turn| {
///     turns.push(turn.side);
///     Ok::<_, std::convert::Infallible>(Some(turn.round * 10 + turn.side))
/// })?;
/// assert_eq!(turns[..2], [turns[3], turns[2]], "the second round is the first one backwards");
/// assert_eq!(all.into_sides()[1], [11, 21, 31]);
/// # Ok::<(), std::convert::Infallible>(())
/// ```
///
/// # Errors
///
/// The first error of `measure`, which ends all.
pub fn interleaved<S, E>(
    sides: usize,
    rounds: usize,
    order: &mut Order,
    stop: &Stop,
    mut measure: impl FnMut(Turn) -> Result<Option<S>, E>,
) -> Result<Interleaved<S>, E> {
    let mut all = Interleaved { sides, rounds: Vec::new(), interrupted: false };
    for round in 1..=rounds {
        let mut of_round: Vec<Option<S>> = (0..sides).map(|_| None).collect();
        for side in order.next_round(sides) {
            of_round[side] = measure(Turn { round, rounds, side })?;
            if stop.is_stopped() {
                all.interrupted = true;
                return Ok(all);
            }
        }
        all.rounds.push(of_round);
    }
    Ok(all)
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The round, from 1.
    pub round: usize,
    /// Of so many.
    pub rounds: usize,
    /// The side, from 0.
    pub side: usize,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interleaved<S> {
    /// How many sides there are.
    pub sides: usize,
    /// The whole rounds, with a place for each side in each.
    pub rounds: Vec<Vec<Option<S>>>,
    /// Whether it was ended early.
    pub interrupted: bool,
}

impl<S> Interleaved<S> {
    /// What each side gave, in the order of the rounds.
    pub fn into_sides(self) -> Vec<Vec<S>> {
        let mut sides: Vec<Vec<S>> = (0..self.sides).map(|_| Vec::new()).collect();
        for round in self.rounds {
            sides.iter_mut().zip(round).for_each(|(side, sample)| side.extend(sample));
        }
        sides
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_ends_all_and_a_missing_side_only_its_place() {
        let run = |fails: Option<usize>| {
            interleaved(3, 2, &mut Order::of_seed(1), &Stop::new(), |turn| match turn.side {
                1 if turn.round == 1 => Ok(None),
                side if Some(side) == fails => Err(format!("side {side} failed")),
                side => Ok(Some((turn.round, side))),
            })
        };
        let all = run(None).unwrap();
        assert_eq!((all.rounds[0][1], all.rounds.len(), all.interrupted), (None, 2, false));
        assert_eq!(all.into_sides()[1..], [vec![(2, 1)], vec![(1, 2), (2, 2)]]);
        assert_eq!(run(Some(0)), Err("side 0 failed".to_owned()));
    }

    #[test]
    fn a_round_that_was_ended_early_is_left_out() {
        let stop = Stop::new();
        let all = interleaved(2, 9, &mut Order::of_seed(1), &stop, |turn| {
            if turn.round == 3 {
                stop.stop();
            }
            Ok::<_, std::convert::Infallible>(Some(turn.round))
        });
        let all = all.unwrap_or_else(|never| match never {});
        assert!(all.interrupted);
        assert_eq!(all.into_sides(), [[1, 2], [1, 2]]);
    }
}
