//! The same requests get the same answers as from the service on anywire, and the README has the counts of both.

mod counted;
#[path = "../../../../examples/orders/tests/program/mod.rs"]
mod program;
#[path = "../../../../examples/orders/tests/table/mod.rs"]
mod table;

const PROGRAM: &str = env!("CARGO_BIN_EXE_orders-on-axum");

#[test]
fn the_program_answers_curl() {
    program::answers_curl(PROGRAM, "127.0.0.1:0");
}

#[test]
fn the_program_refuses_what_is_too_much() {
    program::refuses_what_is_too_much(PROGRAM, "127.0.0.1:0");
}

#[test]
fn the_readme_has_the_counts() {
    counted::readme_has_the_counts();
}
