//! Loss detection by time: RACK-TLP (RFC 8985), as logic over plain values.
//!
//! [`Rack`] says which of the segments that are out must be lost, because later ones have arrived; [`Tlp`]
//! sends one more segment when nothing arrives, so that there is something to judge by. Both live in the
//! extension of a connection that has reason to care, 40 bytes together. The segments themselves, each with
//! its time of sending, belong to the engine, which walks them and asks.

mod rack;
mod tlp;

pub(crate) use rack::{AckSigns, Delivered, Lost, Rack};
pub(crate) use tlp::{Probe, ProbeAck, ProbeEnd, Tlp, pto_micros};
