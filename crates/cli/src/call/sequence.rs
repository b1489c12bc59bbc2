//! One URL behind the other.

use std::sync::Arc;

use anywire::http::Method;

use super::arguments::Call;
use super::deadline::{self, Ended, SoFar};
use super::exchange::Plan;
use crate::failure::{Code, Failure};

/// Calls each URL in its turn. Where one fails the others are called all the same, and the first failure is the end's.
pub(super) fn run(call: Call, method: Method, verbose: bool) -> Result<(), Failure> {
    let silent = call.response.silent && !call.response.show_error;
    let quiet = |failure: Failure| if silent { failure.silenced() } else { failure };
    let plan = Arc::new(Plan::of(call, method, verbose).map_err(&quiet)?);
    let done = calls(&plan, quiet);
    done.and(plan.save_cookies().map_err(quiet))
}

/// Calls each URL, and says how each but the last one failed.
fn calls(plan: &Arc<Plan>, quiet: impl Fn(Failure) -> Failure) -> Result<(), Failure> {
    let mut first = Ok(());
    for at in 0..plan.count() {
        let is_last = at + 1 == plan.count();
        let so_far = Arc::new(SoFar::default());
        let (done, may_go_on) = match deadline::call(plan, at, &so_far) {
            Ended::Over(done) => (done, true),
            Ended::Stuck(failure) => (Err(failure), false),
        };
        plan.trace(&so_far);
        let written = plan.write_out(at, &so_far, done.as_ref().err());
        let Err(failure) = done.and(written).map_err(&quiet) else { continue };
        // What reads the results of all of them has gone.
        let may_go_on = may_go_on && !is_last && failure.code() != Code::Write;
        if first.is_ok() && !may_go_on {
            return Err(failure);
        }
        failure.report();
        first = first.and(Err(Failure::silent(failure.code())));
        if !may_go_on {
            break;
        }
    }
    first
}
