//! Traffic rules: which calls go elsewhere, or otherwise, by what a file says (feature `rules`).
//!
//! A rule has a condition and one destination or more. The first rule that fits a request is the one that counts. One of its destinations
//! is chosen by weight, and changes the request: its authority, its wire, its path, fields and parameters.
//!
//! ```
//! use anywire_client::Client;
//! use anywire_client::rules::{Rules, RulesError};
//!
//! # fn main() -> Result<(), RulesError> {
//! let rules = Rules::from_toml(
//!     r#"
//!     [[rule]]
//!     name = "canary"
//!     when.authority.exact = "shop.example"
//!     when.path.prefix = "/orders"
//!     when.not.headers.x-no-canary.present = true
//!
//!     [[rule.to]]
//!     weight = 5
//!     authority = "canary.shop.example:8443"
//!     set_headers.x-canary = "1"
//!
//!     [[rule.to]]
//!     weight = 95
//!     "#,
//! )?;
//! let client = Client::builder().rules(&rules).build();
//! // Later, while calls are under way.
//! rules.replace_toml("")?;
//! # drop(client);
//! # Ok(()) }
//! ```
//!
//! Rules stand outermost of what is done for each *hop* of a call: inside of call interceptors and redirects, so that each redirect is
//! looked at anew, and around cookies, credentials and retries. All attempts of a hop go to the same destination. A `location` is
//! resolved against the URL before the rules.
//!
//! | what a destination says | where the call goes | what goes there | whose name TLS checks |
//! | --- | --- | --- | --- |
//! | [`authority`](Destination::authority) | to another origin | the fields of the call, without its credentials; cookies and credentials of the client for that origin | that of the new authority |
//! | [`via`](Destination::via) | to the same origin by another wire or address | all of it | that of the URL |

mod check;
mod counters;
mod error;
mod link;
mod matching;
mod model;
mod rewrite;
#[cfg(test)]
mod tests;

pub use counters::RuleCounters;
pub use error::{RuleFault, RulesError};
pub use link::Rules;
pub use model::{Destination, Limits, PathRewrite, Pattern, Rule, When};
