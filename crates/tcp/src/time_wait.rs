//! A connection that has ended, in 32 bytes: its last segments may still be on the path.

use anywire_packet::Seq;

use crate::half_open::Traits;
use crate::slab::Linked;
use crate::time::Tick;

/// TIME-WAIT (RFC 9293 3.6.1).
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct TimeWait {
    /// As in a TCB; in a free place: which place is free next.
    pub(crate) remote: u32,
    pub(crate) remote_port: u16,
    pub(crate) local_port: u16,
    pub(crate) local: u16,
    pub(crate) neighbour: u16,
    pub(crate) rcv_nxt: Seq,
    pub(crate) snd_nxt: Seq,
    pub(crate) ts_recent: u32,
    pub(crate) expires: Tick,
    /// The last window that we announced, not scaled.
    pub(crate) window: u16,
    pub(crate) traits: Traits,
}

const _: () = assert!(size_of::<TimeWait>() == 32);

impl Linked for TimeWait {
    type Place = u32;

    fn next_free(&mut self) -> &mut u32 {
        &mut self.remote
    }
}
