//! Time: what is due, and when.
//!
//! | file | holds |
//! | --- | --- |
//! | `deadlines` | retransmission, delayed ACKs, persist, the last states |
//! | `idle_timer` | deadlines of users, and keep-alive |
//! | `aging` | times of 32 bits, however long nothing happens |

pub(super) mod aging;
pub(super) mod deadlines;
pub(super) mod idle_timer;
