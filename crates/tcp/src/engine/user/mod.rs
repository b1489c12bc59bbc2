//! What the holder of a connection calls and hears.
//!
//! | file | holds |
//! | --- | --- |
//! | `calls` | open, listen, close, abort |
//! | `transfer` | bytes into the send queue, out of the receive queue, and from one to the other |
//! | `options` | what can be set for a connection alone |
//! | `ready` | events |
//! | `info` | what is known of a connection, as `ss -ti` tells it |

pub(super) mod calls;
pub(super) mod info;
pub(super) mod options;
pub(super) mod ready;
pub(super) mod transfer;
