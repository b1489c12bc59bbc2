//! Segments that have arrived, as `tcp_input.c` is in Linux: a batch of frames, and what each segment does to its connection.
//!
//! | file | holds |
//! | --- | --- |
//! | `receive` | a batch of frames, in stages over the whole batch |
//! | `predict`, `predict_end` | header prediction: the segment that nearly every one is, and the last ones of a connection |
//! | `synchronized` | a segment for an open connection, in the order of RFC 9293 3.10.7.4 |
//! | `acknowledge`, `recover` | what an ACK brings; losses |
//! | `deliver`, `out_of_order` | payload, in order and out of order |
//! | `answered` | how often a connection answers what may be forged |

pub(super) mod acknowledge;
pub(super) mod answered;
pub(super) mod deliver;
pub(super) mod out_of_order;
pub(super) mod predict;
pub(super) mod predict_end;
pub(super) mod receive;
pub(super) mod recover;
pub(super) mod synchronized;
