//! The example of a server within another runtime runs to its end.

#[path = "../../examples/embedded.rs"]
mod embedded;

#[test]
fn the_example_runs() {
    embedded::main().expect("it serves and ends");
}
