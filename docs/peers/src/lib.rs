//! Compiles the code of other libraries that the documents show beside anywire's: `cargo test --doc -- --ignored`.
//!
//! The tests of anywire's own code ignore it. So only this package compiles those libraries.

#[doc = include_str!("../../from-axum.md")]
#[cfg(doctest)]
mod from_axum {}

#[doc = include_str!("../../from-reqwest.md")]
#[cfg(doctest)]
mod from_reqwest {}
