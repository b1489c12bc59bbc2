//! Segments that leave, as `tcp_output.c` is in Linux.
//!
//! | file | holds |
//! | --- | --- |
//! | `transmit` | frames of connections, in their turn |
//! | `predict_send` | what a connection without trouble most often sends, in one go |
//! | `reply` | frames that belong to no connection |
//! | `scheduler`, `pace` | whose turn it is; a rate of its own for a connection |
//! | `path_probe` | what a path takes that swallows long packets |

pub(super) mod pace;
pub(super) mod path_probe;
pub(super) mod predict_send;
pub(super) mod reply;
pub(super) mod scheduler;
pub(super) mod transmit;
