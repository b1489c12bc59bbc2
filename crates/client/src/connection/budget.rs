//! Polling that is right even after a task has used up its cooperative budget.
//!
//! The runtime has a wire or a channel that such a task polls say "pending", whatever it holds, and polls the task
//! again ([`tokio::task::coop`]). To us that would say "the peer is quiet", or "we hear when the caller leaves". A
//! caller who makes many calls in one poll gets there.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::task::coop;

/// What `poll` says, whatever share the present task has left.
#[inline]
pub(crate) fn poll_truly<T>(
    cx: &mut Context<'_>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    let polled = poll(cx);
    if polled.is_ready() || coop::has_budget_remaining() {
        return polled;
    }
    pin!(coop::unconstrained(poll_fn(poll))).poll(cx)
}
