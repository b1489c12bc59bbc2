//! Packetization layer path MTU discovery (RFC 4821, RFC 8899) for TCP: where long segments vanish and no router says so, shorter
//! ones go, and then longer ones are tried.
//!
//! If [asked for](crate::Settings::probes_path_mtu), it begins after three timeouts in a row of a long segment, as in Linux with
//! `tcp_mtu_probing` = 1. A probe is an ordinary
//! segment with payload that waits anyway. Its loss is no sign of congestion.

use crate::engine::ending::LEAST_MTU_V4;
use crate::engine::input::receive::remote_address;
use crate::engine::{ConnIndex, Engine};
use crate::extension::ExtensionId;
use crate::mtu_search::MtuSearch;
use crate::pool::{Cell, Marks};
use crate::tcb::Flags;

impl Engine {
    /// The timer of a connection has expired once more, and all in flight will go again: in shorter segments, if those were long.
    pub(crate) fn suspect_black_hole(&mut self, index: ConnIndex) {
        let tcb = &self.tcbs[index];
        let (timeouts, first) = (tcb.timeouts(), self.pool.front(tcb.send_tail));
        if let Some(extension) = self.extensions_mut(tcb.extension)
            && let Some(search) = &mut extension.mtu_search
        {
            search.on_loss_of_all();
        }
        if !self.settings.probes_path_mtu || timeouts < SUSPECT_TIMEOUTS || first.is_none() {
            return;
        }
        let is_v4 = self.local.is_v4(self.tcbs[index].local);
        let mtu = match (is_v4, timeouts < SUSPECT_TIMEOUTS + BASE_TIMEOUTS) {
            (true, true) => BASE_MTU_V4,
            (true, false) => LEAST_MTU_V4 as u16,
            (false, _) => LEAST_MTU_V6,
        };
        let base = mtu - self.header_bytes(index);
        let wanted = self.tcbs[index].eff_mss;
        if wanted <= base || self.pool.segment(first).length <= base {
            return;
        }
        let Some(place) = self.extension_of(index) else { return };
        let before = self.extensions[place].mtu_search;
        // The extension stays with the connection until the search is over, so half of all are left for losses. The others are not
        // cut short: nothing would make them long again.
        if before.is_none() && self.extensions.used() > self.limits.extensions / 2 {
            return;
        }
        let high = before.map_or(wanted, |search| search.high());
        self.extensions[place].mtu_search = Some(MtuSearch::new(base, high));
        self.tcbs[index].eff_mss = base;
        self.counters.black_holes_suspected += 1;
    }

    /// The next segment of the queue, made longer to be a probe, if one is due and may leave now.
    #[cold]
    pub(crate) fn next_path_probe(&mut self, index: ConnIndex, flight: u32) -> Option<Cell> {
        let tcb = &self.tcbs[index];
        let extension = &self.extensions[tcb.extension];
        let wanted = extension.mtu_search?.next()?;
        let (cell, eff_mss) = (tcb.send_next, u32::from(tcb.eff_mss));
        if cell.is_none()
            || cell == tcb.send_tail
            || tcb.has(Flags::RECOVERING.with(Flags::TIMED_OUT))
            || extension.sacked_segments > 0
        {
            return None;
        }
        let (head, behind) = (*self.pool.segment(cell), self.pool.segment(cell).next);
        let rest = *self.pool.segment(behind);
        if (head.marks.with(rest.marks)).has(Marks::FIN) || head.length >= wanted {
            return None;
        }
        // Something is left of the segment behind, which so stays in its place.
        let room = self.pool.room_of(cell).min(usize::from(rest.length) - 1);
        let size = wanted.min(head.length + room as u16);
        // As many segments follow as show a loss without the timer.
        let end = head.seq + u32::from(size);
        let follow = FOLLOWING_SEGMENTS * eff_mss;
        let last = self.pool.segment(tcb.send_tail).end();
        if u32::from(size) <= eff_mss
            || (end + follow).gt(last)
            || (end + follow).gt(tcb.snd_right)
            || flight + u32::from(size) + follow > tcb.window.cwnd
        {
            return None;
        }
        let added = usize::from(size - head.length);
        let mut bytes = [0; PROBE_BYTES_MAX];
        let bytes = &mut bytes[..added];
        bytes.copy_from_slice(&self.pool.bytes_of(behind)[..added]);
        self.pool.append(cell, added).copy_from_slice(bytes);
        let rest = self.pool.segment_mut(behind);
        rest.seq += added as u32;
        rest.start += added as u16;
        rest.length -= added as u16;
        self.counters.path_probes += 1;
        let place = self.tcbs[index].extension;
        if let Some(search) = &mut self.extensions[place].mtu_search {
            search.on_sent(head.seq, size);
        }
        Some(cell)
    }

    /// SND.UNA has moved, perhaps over a probe: then segments are as long from now on.
    pub(crate) fn note_passed_probe(&mut self, index: ConnIndex, place: ExtensionId) {
        let una = self.tcbs[index].snd_una;
        let Some(search) = &mut self.extensions[place].mtu_search else { return };
        if let Some(size) = search.on_ack(una) {
            self.tcbs[index].eff_mss = size;
            self.end_search(index, place);
        }
    }

    /// Whether nothing but a probe was lost. Then the path does not take it, and it goes again in shorter segments.
    pub(crate) fn has_lost_probe_alone(&mut self, index: ConnIndex, place: ExtensionId) -> bool {
        let una = self.tcbs[index].snd_una;
        let extension = &mut self.extensions[place];
        let Some(search) = &mut extension.mtu_search else { return false };
        let is_alone = search.is_probe(una).is_some_and(|size| extension.lost_bytes == u32::from(size));
        if is_alone {
            search.on_lost();
            self.counters.path_probes_lost += 1;
            self.end_search(index, place);
        }
        is_alone
    }

    /// Ends a search that has found what the path takes, and remembers that for other connections.
    fn end_search(&mut self, index: ConnIndex, place: ExtensionId) {
        let search = &mut self.extensions[place].mtu_search;
        let Some(found) = search.take_if(|search| search.is_over()) else { return };
        if found.has_failed() {
            let tcb = &self.tcbs[index];
            let mtu = tcb.eff_mss + self.header_bytes(index);
            let remote = remote_address(&self.local.addresses(tcb.local, tcb.remote));
            let is_evicted = self.path_mtus.learn(remote, mtu, self.now, self.limits.path_mtus);
            self.counters.path_mtus_evicted += u64::from(is_evicted);
        }
    }

    /// Bytes of the headers of IP and TCP in front of the payload of a connection.
    fn header_bytes(&self, index: ConnIndex) -> u16 {
        let tcb = &self.tcbs[index];
        let options = if tcb.has(Flags::TIMESTAMPS) { 12 } else { 0 };
        if self.local.is_v4(tcb.local) { 40 + options } else { 60 + options }
    }
}

/// Timeouts in a row after which long segments are suspected to vanish: as `tcp_retries1` of Linux.
const SUSPECT_TIMEOUTS: u8 = 3;

/// So many more, and even these are too long.
const BASE_TIMEOUTS: u8 = 2;

/// What nearly every path takes (BASE_PLPMTU of RFC 8899 5.1.2).
const BASE_MTU_V4: u16 = 1200;

/// What every path of IPv6 takes (RFC 8200 5).
const LEAST_MTU_V6: u16 = 1280;

/// Segments behind a probe: three duplicates show its loss (RFC 5681 3.2, RFC 4821 7.4).
const FOLLOWING_SEGMENTS: u32 = 3;

/// More than a probe takes of the segment behind it.
const PROBE_BYTES_MAX: usize = crate::pool::SEGMENT_BYTES;
