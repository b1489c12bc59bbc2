//! The example of a wire of one's own serves and calls HTTP over it. The behaviour tests of the crate `wire` hold that
//! wire to what every wire must keep.

#[path = "../../examples/own_wire/main.rs"]
mod own_wire;

#[test]
fn own_wire_serves_http() {
    own_wire::main().expect("the answer comes over the pipe");
}
