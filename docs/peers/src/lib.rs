//! Compiles the code of other libraries that the documents show beside anywire's: `cargo test --doc -- --ignored`.
//!
//! It is `ignore`d where anywire's own code is tested, so that nobody else compiles those libraries.

#[doc = include_str!("../../from-axum.md")]
#[cfg(doctest)]
mod from_axum {}

#[doc = include_str!("../../from-reqwest.md")]
#[cfg(doctest)]
mod from_reqwest {}
