//! What waits for a thread of a pool: in which order it leaves, and what is taken out because it is late or unwanted.
//!
//! Plain data without a lock, a thread or a clock.

use std::collections::VecDeque;
use std::mem;
use std::time::Instant;

use super::PoolOrder;

/// Jobs of type `J` that wait.
pub(super) struct Queue<J> {
    /// By rising numbers. A job that was taken out leaves its place until that is at an end, or too many are empty.
    places: VecDeque<Place<J>>,
    waiting: usize,
    next_number: u64,
}

struct Place<J> {
    number: u64,
    /// From then on it is late.
    late_at: Option<Instant>,
    job: Option<J>,
}

/// What leaves a queue next.
pub(super) enum Next<J> {
    Job(J),
    /// It is late, and there may be more.
    Late(J),
}

impl<J> Queue<J> {
    pub(super) fn new() -> Self {
        Self { places: VecDeque::new(), waiting: 0, next_number: 0 }
    }

    /// How many jobs wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds a job. Returns the number by which it can be taken out.
    pub(super) fn push(&mut self, job: J, late_at: Option<Instant>) -> u64 {
        self.shorten();
        let number = self.next_number;
        self.next_number += 1;
        self.places.push_back(Place { number, late_at, job: Some(job) });
        self.waiting += 1;
        number
    }

    /// Adds all jobs of another queue, whose numbers are higher, and leaves that empty.
    pub(super) fn append(&mut self, later: &mut Self) {
        if later.waiting == 0 {
            return;
        }
        if self.waiting == 0 {
            self.places.clear();
            mem::swap(&mut self.places, &mut later.places);
        } else {
            self.shorten();
            self.places.append(&mut later.places);
        }
        self.waiting += mem::take(&mut later.waiting);
    }

    fn shorten(&mut self) {
        if self.places.len() >= 2 * self.waiting + EMPTY_PLACES_MAX {
            self.places.retain(|place| place.job.is_some());
        }
    }

    /// Takes the next job out.
    pub(super) fn pop(&mut self, order: PoolOrder, now: Instant) -> Option<Next<J>> {
        loop {
            let place = match order {
                PoolOrder::OldestFirst => self.places.pop_front(),
                PoolOrder::LatestFirst => self.places.pop_back(),
            }?;
            let Some(job) = place.job else { continue };
            self.waiting -= 1;
            let is_late = place.late_at.is_some_and(|late_at| late_at <= now);
            return Some(if is_late { Next::Late(job) } else { Next::Job(job) });
        }
    }

    /// Takes the job of this number out, if it still waits.
    pub(super) fn remove(&mut self, number: u64) -> Option<J> {
        let at = self.places.binary_search_by_key(&number, |place| place.number).ok()?;
        let job = self.places[at].job.take()?;
        self.waiting -= 1;
        let is_empty = |place: Option<&Place<J>>| place.is_some_and(|place| place.job.is_none());
        while is_empty(self.places.front()) {
            self.places.pop_front();
        }
        while is_empty(self.places.back()) {
            self.places.pop_back();
        }
        Some(job)
    }

    /// Takes all jobs out.
    pub(super) fn drain(&mut self) -> Vec<J> {
        self.waiting = 0;
        mem::take(&mut self.places).into_iter().filter_map(|place| place.job).collect()
    }
}

/// Beyond as many empty places as there are jobs, and these, the queue is made short again.
const EMPTY_PLACES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn all(queue: &mut Queue<u32>, order: PoolOrder, now: Instant) -> Vec<(u32, bool)> {
        std::iter::from_fn(|| {
            queue.pop(order, now).map(|next| match next {
                Next::Job(job) => (job, true),
                Next::Late(job) => (job, false),
            })
        })
        .collect()
    }

    #[test]
    fn jobs_leave_in_either_order() {
        let now = Instant::now();
        let mut queue = Queue::new();
        (1..=3).for_each(|job| _ = queue.push(job, None));
        assert_eq!(all(&mut queue, PoolOrder::OldestFirst, now), [(1, true), (2, true), (3, true)]);
        (1..=3).for_each(|job| _ = queue.push(job, None));
        assert_eq!(all(&mut queue, PoolOrder::LatestFirst, now), [(3, true), (2, true), (1, true)]);
        assert_eq!(queue.waiting(), 0);
    }

    #[test]
    fn a_job_is_late_from_its_time_on() {
        let now = Instant::now();
        let at = |ms| now + Duration::from_millis(ms);
        let mut queue = Queue::new();
        let fill = |queue: &mut Queue<u32>| (1..=3).for_each(|job| _ = queue.push(job, Some(at(job.into()))));
        fill(&mut queue);
        assert_eq!(all(&mut queue, PoolOrder::OldestFirst, at(2)), [(1, false), (2, false), (3, true)]);
        fill(&mut queue);
        // The latest runs at once; the others are found late behind it.
        assert_eq!(all(&mut queue, PoolOrder::LatestFirst, at(2)), [(3, true), (2, false), (1, false)]);
    }

    #[test]
    fn a_job_is_taken_out_once() {
        let now = Instant::now();
        let mut queue = Queue::new();
        let numbers: Vec<u64> = (0..4).map(|job| queue.push(job, None)).collect();
        assert_eq!(queue.remove(numbers[2]), Some(2));
        assert_eq!(queue.remove(numbers[2]), None);
        assert_eq!(queue.waiting(), 3);
        assert_eq!(all(&mut queue, PoolOrder::LatestFirst, now), [(3, true), (1, true), (0, true)]);
        assert_eq!(queue.remove(numbers[0]), None);
    }

    /// One that stays, and others that come and are given up: the places in between are used again.
    #[test]
    fn places_of_jobs_that_were_given_up_take_bounded_memory() {
        let mut queue = Queue::new();
        let stays = queue.push(0, None);
        let mut last = queue.push(1, None);
        for job in 2..10_000 {
            let next = queue.push(job, None);
            assert_eq!(queue.remove(last), Some(job - 1));
            last = next;
        }
        assert_eq!(queue.waiting(), 2);
        assert!(queue.places.len() < 100, "{} places", queue.places.len());
        assert_eq!((queue.remove(stays), queue.remove(last)), (Some(0), Some(9_999)));
        assert!(queue.places.is_empty());
    }

    /// Numbers come from the queue that jobs are given to, whichever queue holds them.
    #[test]
    fn a_queue_takes_over_what_another_has_got() {
        let now = Instant::now();
        let (mut queue, mut arrivals) = (Queue::new(), Queue::new());
        let numbers: Vec<u64> = (0..2).map(|job| arrivals.push(job, None)).collect();
        queue.append(&mut arrivals);
        assert_eq!((queue.waiting(), arrivals.waiting()), (2, 0));
        let later = arrivals.push(2, None);
        queue.append(&mut arrivals);
        queue.append(&mut arrivals);
        assert_eq!(queue.remove(numbers[1]), Some(1));
        assert_eq!(all(&mut queue, PoolOrder::OldestFirst, now), [(0, true), (2, true)]);
        // Behind places that are empty.
        let last = arrivals.push(3, None);
        queue.append(&mut arrivals);
        assert_eq!((queue.remove(later), queue.remove(last), queue.waiting()), (None, Some(3), 0));
    }

    #[test]
    fn all_are_taken_out_at_the_end() {
        let mut queue = Queue::new();
        let first = queue.push(1, None);
        queue.push(2, None);
        queue.push(3, None);
        queue.remove(first);
        assert_eq!((queue.drain(), queue.waiting()), (vec![2, 3], 0));
    }
}
