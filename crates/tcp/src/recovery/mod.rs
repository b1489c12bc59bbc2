//! Loss detection by time: RACK-TLP (RFC 8985), as logic over plain values.
//!
//! [`Rack`] tells which segments in flight must be lost, because later ones have arrived. [`Tlp`] sends one more segment
//! when nothing arrives, so that an ACK can show a loss. Both live in the extension of a connection in trouble, 40 bytes
//! together. The segments themselves, each with its time of sending, belong to the engine, which walks them and asks.

mod rack;
mod tlp;

pub(crate) use rack::{AckSigns, Delivered, Lost, Rack};
pub(crate) use tlp::{Probe, ProbeAck, ProbeEnd, Tlp, pto_micros};
