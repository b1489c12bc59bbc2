//! One program for the tests of this crate, one module a behaviour: a file is named after what it shows.

mod common;
#[path = "common/random.rs"]
mod random;

mod a_loop_that_died_is_known;
mod a_loop_that_never_runs_dry_takes_hand_overs;
mod a_panic_ends_only_its_task;
mod a_panicking_destructor_harms_nobody_else;
mod a_panicking_waker_harms_nobody_else;
mod deadlines_expire_and_never_early;
mod each_loop_keeps_its_own_values;
mod hand_overs_leave_the_others_their_turns;
mod hand_overs_to_a_busy_loop_wake_it_once;
mod loops_start_as_asked_or_not_at_all;
mod no_hand_over_is_lost;
mod panics_and_ends_under_load_lose_nothing;
mod pick_keeps_to_the_present_loop;
mod pools_run_what_blocks;
mod pools_stay_in_step;
mod shutdown_waits_and_then_cuts;
mod tasks_can_be_aborted_or_left_alone;
mod work_without_a_wake_up_is_looked_for;
