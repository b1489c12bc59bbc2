//! Links of two rings between loops of one process, each with what wakes their owners. The hosts of a [mesh](crate::mesh) are joined by
//! them, and loops that [share](crate::shards) a device pass frames on by them.
//!
//! | file | holds |
//! | --- | --- |
//! | `link` | two rings between two loops, and what wakes their owners |
//! | `mailbox` | what others see of a loop that takes frames, and where they leave it the ends of links |

mod link;
mod mailbox;

pub(crate) use self::link::{End, Notifier, link};
pub(crate) use self::mailbox::Mailbox;
