//! What the properties of this folder are tried on: any segment, any of the options that have a quick way.

use proptest::prelude::*;

use super::{Checks, Flags, OptionsOut, Outgoing};
use crate::seq::Seq;

/// Any value in any field.
pub(crate) fn segment() -> impl Strategy<Value = Outgoing> {
    let fields = (any::<(u16, u16)>(), any::<(u32, u32)>(), any::<u8>(), any::<u16>(), any::<u8>());
    fields.prop_map(|((local_port, remote_port), (seq, ack), flags, window, traffic_class)| Outgoing {
        local_port,
        remote_port,
        seq: Seq(seq),
        ack: Seq(ack),
        flags: Flags(flags),
        window,
        traffic_class,
        fragment_id: None,
    })
}

/// Timestamps alone, as nearly every segment has them.
pub(crate) fn timestamps() -> impl Strategy<Value = OptionsOut<'static>> {
    any::<(u32, u32)>().prop_map(|timestamps| OptionsOut { timestamps: Some(timestamps), ..OptionsOut::NONE })
}

/// The four options of nearly every SYN.
pub(crate) fn offer() -> impl Strategy<Value = OptionsOut<'static>> {
    (timestamps(), any::<u16>(), any::<u8>()).prop_map(|(timestamps, mss, window_scale)| OptionsOut {
        mss: Some(mss),
        window_scale: Some(window_scale),
        sack_permitted: true,
        ..timestamps
    })
}

/// Each checksum made and checked, or not.
pub(crate) fn checks() -> impl Strategy<Value = Checks> {
    any::<(bool, bool)>().prop_map(|(ip, tcp)| Checks { ip, tcp })
}
