//! Connections that were answered a moment ago.
//!
//! Unacceptable segments are answered by an ACK (RFC 9293 3.10.7.4), and so are segments that may be forged (RFC 5961). If
//! both ends were led to believe in bytes that the other never sent, each such ACK would ask for the next one, for ever. So
//! a connection answers a segment that may be such an ACK only once in a while, in whatever state it is. This limit is the
//! connection's own: others can neither use it up, nor learn from what is left of it (CVE-2016-5696).

use anywire_packet::{Flags as Control, Parsed};

use crate::engine::{Engine, Place};
use crate::fifo::Fifo;
use crate::half_open::Traits;
use crate::time::Tick;

/// Which connections were answered lately, in the order of time. Each has a mark that it was.
pub(crate) type Answered = Fifo<(u32, Tick)>;

impl Engine {
    /// Whether a connection may answer what may be forged, or may be an answer itself.
    #[cold]
    pub(crate) fn may_answer(&mut self, place: Place) -> bool {
        self.forget_answers();
        let had = match place {
            Place::Tcb(index) => self.tcbs[index].has_answered(),
            Place::HalfOpen(place) => self.half_open[place].traits.has(Traits::ANSWERED),
            Place::TimeWait(place) => self.time_wait[place].traits.has(Traits::ANSWERED),
        };
        if had {
            self.counters.answers_withheld += 1;
            return false;
        }
        match place {
            Place::Tcb(index) => self.tcbs[index].note_answer(),
            Place::HalfOpen(place) => self.half_open[place].traits.set(Traits::ANSWERED),
            Place::TimeWait(place) => self.time_wait[place].traits.set(Traits::ANSWERED),
        }
        self.answered.push_back((place.value(), self.tick));
        true
    }

    /// The same for a segment that is not acceptable. Data is answered each time: an answer carries none.
    pub(crate) fn may_answer_unacceptable(&mut self, place: Place, segment: &Parsed) -> bool {
        let is_data = segment.sequence_len() > 0 && !segment.flags.has(Control::SYN);
        is_data || self.may_answer(place)
    }

    /// Connections whose answer was long ago may answer again. If another one has the place by now, it may answer early.
    pub(crate) fn forget_answers(&mut self) {
        while let Some((value, at)) = self.answered.front()
            && at.after(self.timings.answer_interval).is_due(self.tick)
        {
            self.answered.pop_front();
            match Place::of(value) {
                Place::Tcb(index) => self.tcbs[index].forget_answer(),
                Place::HalfOpen(place) => self.half_open[place].traits.clear(Traits::ANSWERED),
                Place::TimeWait(place) => self.time_wait[place].traits.clear(Traits::ANSWERED),
            }
        }
    }
}
