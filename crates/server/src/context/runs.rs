//! What a request tells the run of its handler: the route that it has gone on to, and the interim responses that are to come.
//!
//! A run gives its response back by return. The rest becomes known below code of users, such as the future of a layer, which returns a
//! response and nothing else; what reaches down there is the request alone. So the request tells its run, and each poll of the run
//! returns what it was told. A layer may also go on in a task of its own, between two polls of the run: a run that has yet to find
//! its route is woken then, because the limits of the route hold from then on.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::task::Waker;

use super::RequestNumber;
use crate::interim::InterimReceiver;
use crate::router::EndpointId;

/// The runs of a loop that listen to their requests, by the numbers of these.
#[derive(Default)]
pub(crate) struct Runs {
    /// The run that is polled now. A handler may poll another run of its server within its own.
    polled: Cell<Option<RequestNumber>>,
    /// Whether anything stands in `reports`. Looked at after each poll, and cheaper.
    any: Cell<bool>,
    /// What runs were told while they are polled, the innermost last.
    reports: RefCell<Vec<(RequestNumber, RunReport)>>,
    /// The runs that wait, and have yet to find a route.
    waiting: RefCell<HashMap<RequestNumber, Waiting>>,
}

/// What a run was told by its request.
#[derive(Default)]
pub(crate) struct RunReport {
    /// The route that answers.
    pub(crate) route: Option<EndpointId>,
    /// Where the interim responses come from.
    pub(crate) interim: Option<InterimReceiver>,
}

/// A run that waits.
struct Waiting {
    waker: Waker,
    report: RunReport,
}

impl Runs {
    /// Polls the run of this request. Returns the result, and what the request has told meanwhile.
    #[inline(always)]
    pub(crate) fn poll<T>(&self, number: RequestNumber, poll: impl FnOnce() -> T) -> (T, RunReport) {
        let outer = self.polled.replace(Some(number));
        let polled = poll();
        self.polled.set(outer);
        let report = if self.any.get() { self.take(number) } else { RunReport::default() };
        (polled, report)
    }

    /// Whether the run of this request can be told anything now.
    pub(crate) fn listens(&self, number: RequestNumber) -> bool {
        self.polled.get() == Some(number) || self.waiting.borrow().contains_key(&number)
    }

    /// Tells the run of this request, if it [listens](Self::listens).
    pub(crate) fn tell(&self, number: RequestNumber, report: RunReport) {
        if self.polled.get() == Some(number) {
            self.any.set(true);
            return self.reports.borrow_mut().push((number, report));
        }
        let mut waiting = self.waiting.borrow_mut();
        let Some(run) = waiting.get_mut(&number) else { return };
        let ended = run.report.add(report);
        let waker = run.waker.clone();
        drop(waiting);
        // Not within the borrow: both wake tasks.
        drop(ended);
        waker.wake();
    }

    /// The run of this request waits, and has yet to find its route.
    #[cold]
    pub(crate) fn wait(&self, number: RequestNumber, waker: Waker) {
        self.waiting.borrow_mut().insert(number, Waiting { waker, report: RunReport::default() });
    }

    /// The run waits no longer: it is polled or dropped. Returns what its request has told meanwhile.
    #[cold]
    pub(crate) fn resume(&self, number: RequestNumber) -> RunReport {
        // Its waker is dropped outside of the borrow.
        let run = self.waiting.borrow_mut().remove(&number);
        run.map(|run| run.report).unwrap_or_default()
    }

    #[cold]
    fn take(&self, number: RequestNumber) -> RunReport {
        let mut all = RunReport::default();
        // The last one first. Handles are dropped outside of the borrow.
        while let Some((_, mut report)) = self.pop(number) {
            drop(report.add(all));
            all = report;
        }
        all
    }

    fn pop(&self, number: RequestNumber) -> Option<(RequestNumber, RunReport)> {
        let mut reports = self.reports.borrow_mut();
        let last = reports.pop_if(|(of, _)| *of == number);
        self.any.set(!reports.is_empty());
        last
    }
}

impl RunReport {
    /// Adds what was told later. Returns the handle that no longer counts.
    pub(crate) fn add(&mut self, later: Self) -> Option<InterimReceiver> {
        self.route = later.route.or(self.route);
        match later.interim {
            Some(interim) => self.interim.replace(interim),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::interim::Interim;

    const OUTER: RequestNumber = RequestNumber(1);
    const INNER: RequestNumber = RequestNumber(2);

    fn route() -> RunReport {
        RunReport { route: Some(EndpointId::NONE), ..RunReport::default() }
    }

    fn interim() -> RunReport {
        RunReport {
            interim: Some(InterimReceiver::of(&Rc::new(Interim::new(1, true)))),
            ..RunReport::default()
        }
    }

    fn both(report: &RunReport) -> (bool, bool) {
        (report.route.is_some(), report.interim.is_some())
    }

    #[test]
    fn a_run_within_another_is_told_its_own() {
        let runs = Runs::default();
        let (within, reported) = runs.poll(OUTER, || {
            runs.tell(OUTER, route());
            let ((), within) = runs.poll(INNER, || runs.tell(INNER, interim()));
            assert!(runs.listens(OUTER) && !runs.listens(INNER));
            within
        });
        assert_eq!((both(&within), both(&reported)), ((false, true), (true, false)));
        assert_eq!(both(&runs.poll(OUTER, || ()).1), (false, false), "it was told once");
    }

    #[test]
    fn all_that_a_run_is_told_in_one_poll_comes_together() {
        let runs = Runs::default();
        let ((), reported) = runs.poll(OUTER, || {
            runs.tell(OUTER, route());
            runs.tell(OUTER, interim());
        });
        assert_eq!(both(&reported), (true, true));
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_run_that_waits_is_woken_and_one_that_has_gone_is_not_told() {
        let (runs, woken) = (Runs::default(), Arc::<Woken>::default());
        runs.tell(OUTER, route());
        runs.wait(OUTER, Arc::clone(&woken).into());
        assert_eq!(both(&runs.resume(OUTER)), (false, false), "nothing of before");
        runs.wait(OUTER, Arc::clone(&woken).into());
        runs.tell(OUTER, route());
        runs.tell(OUTER, interim());
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
        assert_eq!(both(&runs.resume(OUTER)), (true, true));
        assert!(!runs.listens(OUTER));
    }
}
