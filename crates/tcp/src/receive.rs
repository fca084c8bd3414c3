//! The receiving side of a connection: what has arrived, what may arrive, and what to tell of it.

use wire::tcp::SackBlocks;

use crate::{Config, Instant, Payload, SeqNumber};

pub(crate) mod ack_policy;
pub(crate) mod assembler;
mod overtaken;
pub(crate) mod queue;
pub(crate) mod urgent;
pub(crate) mod window;

use ack_policy::AckPolicy;
use assembler::{Assembler, Range};
use queue::ReceiveQueue;
use urgent::Urgent;
use window::ReceiveWindow;

/// The variables of RFC 9293 §3.3.1, table 3 ("Receive Sequence Variables"), and the data behind
/// them.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Receiver<P> {
    pub(crate) queue: ReceiveQueue<P>,
    /// Most connections never need one.
    assembler: Option<Box<Assembler<P>>>,
    pub(crate) window: ReceiveWindow,
    pub(crate) acks: AckPolicy,
    /// The next sequence number expected.
    pub(crate) rcv_nxt: SeqNumber,
    /// Where the peer's FIN is, if that is known (`has_fin`): an `Option` would be larger.
    fin: SeqNumber,
    pub(crate) urgent: Urgent,
    has_fin: bool,
    /// The application shut reading down, or is gone: data is acknowledged and thrown away.
    pub(crate) is_discarding: bool,
}

/// What became of a segment's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It, and perhaps what waited behind it, can be read.
    InOrder,
    /// There is a gap before it.
    OutOfOrder,
    /// All of it was there, or beyond the window.
    Useless,
    /// There is no memory for it.
    NoRoom,
}

impl<P: Payload> Receiver<P> {
    pub(crate) fn new(window: ReceiveWindow, acks: AckPolicy, low_water: u32) -> Self {
        Self {
            rcv_nxt: SeqNumber(0),
            queue: ReceiveQueue::new(low_water),
            assembler: None,
            window,
            acks,
            urgent: Urgent::default(),
            fin: SeqNumber(0),
            has_fin: false,
            is_discarding: false,
        }
    }

    /// The peer's SYN has the sequence number `irs`.
    pub(crate) fn start(&mut self, irs: SeqNumber) {
        self.rcv_nxt = irs + 1;
        self.window.start_at(self.rcv_nxt);
    }

    /// The next octet that the application reads.
    #[inline]
    pub(crate) fn read_nxt(&self) -> SeqNumber {
        let fin = u32::from(self.has_received_fin());
        self.rcv_nxt - fin - self.queued()
    }

    /// Octets to be read; the window bounds them.
    #[inline]
    pub(crate) fn queued(&self) -> u32 {
        u32::try_from(self.queue.len()).unwrap_or(u32::MAX)
    }

    #[inline]
    pub(crate) fn has_received_fin(&self) -> bool {
        self.fin().is_some_and(|fin| self.rcv_nxt > fin)
    }

    /// Where the peer's FIN is, once it has told.
    #[inline]
    pub(crate) fn fin(&self) -> Option<SeqNumber> {
        self.has_fin.then_some(self.fin)
    }

    pub(crate) fn set_fin(&mut self, fin: SeqNumber) {
        self.fin = fin;
        self.has_fin = true;
    }

    /// Where the last data ends, if there is a gap before it.
    pub(crate) fn end_behind_gap(&self) -> Option<SeqNumber> {
        self.assembler
            .as_ref()
            .and_then(|assembler| assembler.end())
    }

    /// Nothing waits behind a gap.
    #[inline]
    pub(crate) fn is_contiguous(&self) -> bool {
        self.assembler
            .as_ref()
            .is_none_or(|assembler| assembler.is_empty())
    }

    /// RFC 9293 §3.4, table 5: whether a segment has a sequence number in the window.
    ///
    /// Two deliberate differences, both Linux's: a segment that merely overlaps the window's left
    /// edge is acceptable whatever its end (its acknowledgement is of use; the data is trimmed),
    /// and with a window of zero a segment that starts at the edge is (its data is dropped).
    #[inline]
    pub(crate) fn is_acceptable(&self, seq: SeqNumber, end: SeqNumber) -> bool {
        end >= self.window.offered_from()
            && seq <= self.rcv_nxt + self.window.remaining(self.rcv_nxt)
    }

    /// Places data that starts at `seq`. The caller has checked that the segment is acceptable.
    #[inline]
    pub(crate) fn place(&mut self, seq: SeqNumber, mut payload: P) -> Arrival {
        let len = u32::try_from(payload.as_ref().len()).unwrap_or(u32::MAX);
        let mut seq = seq;
        let mut end = seq + len;
        if end <= self.rcv_nxt {
            self.assembler().note_duplicate(Range::new(seq, end));
            return Arrival::Useless;
        }
        if seq < self.rcv_nxt {
            let duplicate = Range::new(seq, self.rcv_nxt);
            self.assembler().note_duplicate(duplicate);
            payload.trim_front((self.rcv_nxt - seq) as usize);
            seq = self.rcv_nxt;
        }
        let mut right_edge = self.rcv_nxt + self.window.remaining(self.rcv_nxt);
        if let Some(fin) = self.fin() {
            right_edge = right_edge.min(fin);
        }
        if end > right_edge {
            if seq >= right_edge {
                return Arrival::Useless;
            }
            payload.truncate((right_edge - seq) as usize);
            end = right_edge;
        }
        self.urgent.pick(seq, payload.as_ref());
        if seq == self.rcv_nxt {
            self.place_in_order(end, payload)
        } else {
            self.place_behind_gap(seq, payload)
        }
    }

    /// No gap, FIN or urgent octet complicates what comes next.
    #[inline]
    pub(crate) fn expects_data_only(&self) -> bool {
        self.assembler.is_none() && !self.has_fin && self.urgent.mark().is_none()
    }

    /// Appends what is next in the stream, all of it within the window.
    #[inline]
    pub(crate) fn place_in_order(&mut self, end: SeqNumber, payload: P) -> Arrival {
        if self.is_discarding {
            self.rcv_nxt = end;
        } else {
            let footprint = self.queue.footprint();
            let limit = self.window.buffer() as usize;
            if footprint.saturating_add(self.assembler_footprint()) > limit {
                self.assembler().prune(limit.saturating_sub(footprint));
            }
            if footprint > limit.saturating_mul(OVERCOMMIT) {
                return Arrival::NoRoom;
            }
            self.rcv_nxt = end;
            self.queue.push(payload, footprint > limit / 2);
        }
        if let Some(mut assembler) = self.assembler.take() {
            self.drain(&mut assembler);
            self.assembler = Some(assembler);
        }
        Arrival::InOrder
    }

    fn drain(&mut self, assembler: &mut Assembler<P>) {
        while let Some(payload) = assembler.pop_at(self.rcv_nxt) {
            self.rcv_nxt += u32::try_from(payload.as_ref().len()).unwrap_or(u32::MAX);
            if !self.is_discarding {
                self.queue.push(payload, false);
            }
        }
        assembler.on_advance(self.rcv_nxt);
    }

    fn assembler(&mut self) -> &mut Assembler<P> {
        self.assembler.get_or_insert_default()
    }

    fn assembler_footprint(&self) -> usize {
        self.assembler
            .as_ref()
            .map_or(0, |assembler| assembler.footprint())
    }

    /// Octets of memory that the handles keep from other use.
    pub(crate) fn footprint(&self) -> usize {
        let unread = self.queue.footprint();
        unread.saturating_add(self.assembler_footprint())
    }

    /// Gives back `wanted` octets of memory, or as much as can be had without what may be read
    /// (`tcp_prune_queue`). Returns how much.
    pub(crate) fn relieve(&mut self, wanted: usize) -> usize {
        let before = self.footprint();
        let goal = before.saturating_sub(wanted);
        if let Some(assembler) = &mut self.assembler {
            let unread = self.queue.footprint();
            assembler.collapse(goal.saturating_sub(unread));
        }
        let behind_gap = self.assembler_footprint();
        self.queue.collapse(goal.saturating_sub(behind_gap));
        let unread = self.queue.footprint();
        if let Some(assembler) = &mut self.assembler {
            assembler.prune(goal.saturating_sub(unread));
        }
        before.saturating_sub(self.footprint())
    }

    /// Gives back memory that is only kept for speed.
    pub(crate) fn shrink(&mut self) {
        if self.is_contiguous() && !self.has_sack_blocks() {
            self.assembler = None;
        }
        self.queue.shrink();
    }

    fn place_behind_gap(&mut self, seq: SeqNumber, payload: P) -> Arrival {
        if self.footprint() > (self.window.buffer() as usize).saturating_mul(OVERCOMMIT) {
            return Arrival::NoRoom;
        }
        self.assembler().insert(seq, payload);
        Arrival::OutOfOrder
    }

    /// The peer's FIN is at `fin`, unless it sent data behind that.
    ///
    /// Linux takes such a FIN and gives up the data behind it. Here the data is believed: no peer
    /// that keeps to RFC 9293 §3.10.4 sends both, and a FIN that a third party guessed does not cut
    /// off what the peer sent.
    pub(crate) fn note_fin(&mut self, fin: SeqNumber) {
        if !self.has_fin
            && fin >= self.rcv_nxt
            && self.end_behind_gap().is_none_or(|end| end <= fin)
        {
            self.set_fin(fin);
            if fin > self.rcv_nxt {
                // It has come, like data behind a gap: RFC 2018 §3 reports numbers, of which it has
                // one.
                self.assembler().report(Range::new(fin, fin + 1));
            }
        }
    }

    /// The FIN is next.
    pub(crate) fn take_fin(&mut self) {
        self.rcv_nxt += 1;
        if let Some(assembler) = &mut self.assembler {
            assembler.on_advance(self.rcv_nxt);
        }
    }

    /// A segment without anything new came again: RFC 2883 §4 reports it.
    pub(crate) fn note_duplicate(&mut self, seq: SeqNumber, end: SeqNumber) {
        if seq < end && seq < self.rcv_nxt {
            let duplicate = Range::new(seq, end.min(self.rcv_nxt));
            self.assembler().note_duplicate(duplicate);
        }
    }

    #[inline]
    pub(crate) fn has_sack_blocks(&self) -> bool {
        self.assembler
            .as_ref()
            .is_some_and(|assembler| assembler.has_blocks())
    }

    /// How many blocks an acknowledgement has to carry.
    #[inline]
    pub(crate) fn sack_block_count(&self) -> u32 {
        let assembler = self.assembler.as_ref();
        assembler.map_or(0, |assembler| assembler.block_count())
    }

    pub(crate) fn take_sack_blocks(&mut self, max: usize, with_duplicate: bool) -> SackBlocks {
        self.assembler().take_blocks(max, with_duplicate)
    }

    /// The header field of an acknowledgement that goes out.
    #[inline]
    pub(crate) fn advertise(&mut self) -> u16 {
        let queued = self.queued();
        self.window
            .advertise(self.rcv_nxt, queued, self.acks.rcv_mss())
    }

    /// The peer cannot send what an application may wait for that wants more (`SO_RCVLOWAT`): the
    /// window is all but closed, or small segments take the memory.
    pub(crate) fn is_full(&self) -> bool {
        let footprint = self.footprint();
        let limit = (self.window.buffer() as usize).saturating_mul(OVERCOMMIT);
        self.window.remaining(self.rcv_nxt) <= self.acks.rcv_mss().into() || footprint > limit
    }

    /// Whether the peer should hear of the room that reading made.
    pub(crate) fn should_update_window(&self) -> bool {
        self.window
            .should_update(self.rcv_nxt, self.queued(), self.acks.rcv_mss())
    }

    /// The peer is to hear at once of what comes (`tcp_enter_quickack_mode`).
    pub(crate) fn enter_quick_mode(&mut self, config: &Config) {
        self.acks.enter_quick_mode(config, self.window.offered());
    }

    /// The application has read up to `read_nxt`: auto-tuning.
    #[inline]
    pub(crate) fn on_read(&mut self, now: Instant, read_nxt: SeqNumber, config: &Config) {
        if self.window.tuning.is_round_trip_over(now) {
            let (queued, beyond) = (self.queued(), self.reach_behind_gap());
            self.window.on_read(now, read_nxt, queued, beyond, config);
        }
    }

    /// Octets from `RCV.NXT` to the end of the last data behind a gap.
    fn reach_behind_gap(&self) -> u32 {
        self.end_behind_gap().map_or(0, |end| end - self.rcv_nxt)
    }

    /// `len` octets came out of order: the window and the buffer are to have room for what else
    /// fills the gap. Without SACK (`has_sack`) the window stays, so that duplicate
    /// acknowledgements look like it.
    pub(crate) fn grow_behind_gap(&mut self, len: u32, has_sack: bool, config: &Config) {
        if has_sack {
            self.window.on_data(len, self.queued());
        }
        let beyond = self.reach_behind_gap();
        self.window.on_data_behind_gap(beyond, config);
    }

    /// Data came out of order; `received` octets had come in order since the beginning.
    pub(crate) fn on_gap(&mut self, recent_timestamp: u32, received: u64) {
        let window = self.window.remaining(self.rcv_nxt);
        let overtaken = &mut self.assembler().overtaken;
        overtaken.on_gap(recent_timestamp, received, window);
    }

    /// Whether new data with this old timestamp was overtaken by a retransmission.
    pub(crate) fn is_overtaken(&self, timestamp: u32, received: u64) -> bool {
        let assembler = self.assembler.as_ref();
        assembler.is_some_and(|assembler| assembler.overtaken.admits(timestamp, received))
    }

    /// Throws away what was not read and what will come. What lies behind a gap stays:
    /// acknowledgements go on to report it, and it is not for long, since the peer's next data ends
    /// the connection.
    pub(crate) fn discard(&mut self) {
        self.queue.clear();
        self.is_discarding = true;
    }

    /// Throws away what lies behind a gap.
    pub(crate) fn discard_behind_gap(&mut self) {
        self.assembler = None;
    }

    pub(crate) fn check_invariants(&self) {
        self.queue.check_invariants();
        if let Some(assembler) = &self.assembler {
            assembler.check_invariants(self.rcv_nxt);
        }
        assert!(self.fin().is_none_or(|fin| self.rcv_nxt <= fin + 1));
    }
}

/// Frames are seldom full. Up to this multiple of the buffer they may be held for data that the
/// window allowed; from half the buffer on small segments share frames. Beyond it segments are
/// dropped, as Linux does beyond `sk_rcvbuf`.
const OVERCOMMIT: usize = 4;
