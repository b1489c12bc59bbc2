//! The house keeps its own rules: this test reads the tree and fails where the tree breaks one.
//!
//! One module a rule. Each holds the rule as a test over the real tree, and tests of its helpers on made-up
//! input that breaks it, so that no rule passes merely because it sees nothing. A rule works the same on a fresh
//! clone, on a copy without history and in the middle of a change. What a lint of rustc or Clippy can check, it checks.
//!
//! | module | the rule |
//! | --- | --- |
//! | `arrows` | a crate depends only on the crates below it |
//! | `packages` | the library brings few packages, none of them only for the command; each feature and its packages are on both front pages |
//! | `pages` | a program on anywire is no longer than its counterpart on another library; what stands beside annotations is compiled |
//! | `sans_io` | HTTP and TCP are bytes in, bytes out: no clock, no socket, no runtime |
//! | `lints` | every crate obeys the lints of the workspace, which forbid `unsafe` outside `crates/sys` |
//! | `files` | every Rust file says at its head what it is for, and is short enough to read |
//! | `map` | the map of the house names every source file |
//! | `links` | a relative link in a document leads somewhere |
//! | `chain` | the pages of the guide lead from one to the next |
//! | `evidence` | a test that a page names as evidence exists |
//! | `figures` | measured figures in documents are those of `bench/results` |
//! | `programs` | a program of the README or the guide builds and runs with the dependencies that its page lists |
//! | `examples` | the README lists every example, and every example runs |

mod arrows;
mod chain;
mod evidence;
mod examples;
mod figures;
mod files;
mod links;
mod lints;
mod map;
mod packages;
mod pages;
mod programs;
mod sans_io;
mod tree;

/// Fails the rule with everything that breaks it, so that one run shows the whole list.
#[track_caller]
fn expect_none(rule: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{rule}\n{} found:\n  {}", complaints.len(), complaints.join("\n  "));
}
