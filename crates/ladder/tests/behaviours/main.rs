//! One program for the tests of this crate, one module a behaviour: a file is named after what it shows.

mod support;

mod bad_peers_harm_nobody;
mod calls_of_each_rung;
mod each_request_is_answered_once;
mod many_connections_are_served;
mod short_writes_are_finished;
