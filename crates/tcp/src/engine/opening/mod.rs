//! How connections come about.
//!
//! | file | holds |
//! | --- | --- |
//! | `listen` | LISTEN, half-open connections, SYN cookies |
//! | `handshake` | what both ends agree on; SYN-SENT and SYN-RECEIVED |
//! | `backlog` | how many connections wait to be accepted |
//! | `source` | the address and port at our end, if the user has named none |

pub(super) mod backlog;
pub(super) mod handshake;
pub(super) mod listen;
pub(super) mod source;
