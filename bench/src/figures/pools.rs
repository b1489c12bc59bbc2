//! Functions on a pool of threads.

use super::markdown::{code, count, spread, table};
use super::{Results, items};

/// A hand-over beside the ladder.
pub(super) fn hand_over(results: &Results) -> String {
    let rows = items(&results.of("pools")["hand_over"]).map(|row| {
        let keys = ["ladder_us", "pool_us", "ratio", "spawn_blocking_us", "of_spawn_blocking"];
        let figures = keys.map(|key| spread(&row[key]));
        [count(&row["in_flight"])].into_iter().chain(figures).collect()
    });
    let titles = [
        "in flight",
        "`futex if asleep`, CPU us",
        "pool, CPU us",
        "ratio",
        "`spawn_blocking`, CPU us",
        "ratio",
    ];
    table(&titles, rows)
}

/// Three times what can be stood.
pub(super) fn overload(results: &Results) -> String {
    let rows = items(&results.of("pools")["overload"]).map(|row| {
        let keys = ["capacity", "asked", "in_time", "refused", "late", "loop_us", "of_capacity"];
        [code(&row["mode"])].into_iter().chain(keys.map(|key| spread(&row[key]))).collect()
    });
    let titles = [
        "queue",
        "capacity/s",
        "asked/s",
        "in time/s",
        "refused/s",
        "given up/s",
        "loop, CPU us",
        "of capacity",
    ];
    table(&titles, rows)
}
