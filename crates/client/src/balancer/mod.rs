//! The addresses of one origin on one loop: which of them gets a call.
//!
//! An origin has several addresses if the client has a [`Balance`](crate::Balance) for it. Each of them is a `Backend` with a pool of its
//! own. A `Balancer` chooses one for a call, by a rule and by their health. A call of which nothing was sent is moved to another one if its
//! dial fails.

mod addresses;
mod backend;
pub(crate) mod balance;
mod choice;
mod health;

pub(crate) use self::addresses::Balancer;
pub(crate) use self::backend::{Backend, Member};
