//! The house keeps its own rules: this test reads the tree and fails where the tree breaks one.
//!
//! One module a rule. Each holds the rule as a test over the real tree, and tests of its helpers on made-up
//! input that breaks it, so that no rule passes merely because it sees nothing. Only files are read: a rule
//! works the same on a fresh clone, on a copy without history and in the middle of a change.
//!
//! | module | the rule |
//! | --- | --- |
//! | `arrows` | a crate depends only on the crates below it |
//! | `sans_io` | HTTP is bytes in, bytes out: no clock, no socket, no runtime |
//! | `heads` | every Rust file says at its head what it is for |
//! | `leftovers` | nothing unfinished stays: no notes to self, no debugging macros |
//! | `length` | a file fits into a reader's head |
//! | `unsafe_code` | `unsafe` lives in `crates/sys` |
//! | `lints` | every crate obeys the lints of the workspace |
//! | `examples` | the README lists every example, and every example runs |
//! | `links` | a relative link in a document leads somewhere |
//! | `packages` | the library brings few packages, none of them only for the command |
//! | `map` | the map of the house names every source file |

mod arrows;
mod examples;
mod heads;
mod leftovers;
mod length;
mod links;
mod lints;
mod map;
mod packages;
mod rust_text;
mod sans_io;
mod tree;
mod unsafe_code;

/// Fails the rule with everything that breaks it, so that one run shows the whole list.
#[track_caller]
fn expect_none(rule: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{rule}\n{} found:\n  {}", complaints.len(), complaints.join("\n  "));
}
