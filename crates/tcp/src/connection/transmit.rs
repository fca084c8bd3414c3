//! What to send next: RFC 9293 §3.10.2, §3.8.

use core::time::Duration;

use wire::tcp::{Flags, Header};

use super::path_mtu::Probing;
use super::{Connection, Probe};
use crate::recovery::SentSegment;
use crate::send::queue::Pieces;
use crate::send::{Blocked, Limits, NewSegment};
use crate::timers::Timer;
use crate::{Ecn, Instant, Payload, SeqNumber, State, Transmit};

impl<P: Payload> Connection<P> {
    /// The next segment to send, if there is one to be sent at `now`. Call until `false`.
    ///
    /// In this order: a reset; SYN; what is to be sent again; new data, as the windows and Nagle
    /// allow, with FIN; probes; an acknowledgement that nothing else carried.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, transmit: &mut Transmit) -> bool {
        if self.pending.reset {
            self.emit_reset(now, transmit);
            return true;
        }
        // `emit_data` is called in one place only, so that it is inlined there.
        'data: {
            match self.state {
                State::Closed => return false,
                State::SynSent | State::SynReceived => {
                    if self.pending.syn {
                        self.emit_syn(now, transmit);
                        return true;
                    }
                    if self.state == State::SynSent {
                        return false;
                    }
                    if !self.cold.handshake.is_fast_open {
                        break 'data;
                    }
                    self.hold_early_data();
                }
                State::TimeWait => break 'data,
                State::Established
                | State::FinWait1
                | State::FinWait2
                | State::CloseWait
                | State::Closing
                | State::LastAck => {}
            }
            if self.emit_data(now, transmit) {
                return true;
            }
            if let Some(probe) = self.pending.probe.take() {
                self.emit_probe(now, probe, transmit);
                return true;
            }
        }
        if self.receiver.acks.is_owed() {
            self.emit_ack(now, self.sender.acceptable_seq(), transmit);
            return true;
        }
        false
    }

    /// The payload of a segment that the last [`poll_transmit`](Self::poll_transmit) gave, in
    /// pieces as they lie in memory: nearly always one, and none of them empty.
    #[inline]
    pub fn payload(&self, transmit: &Transmit) -> impl Iterator<Item = &[u8]> + Clone {
        // An acknowledgement leaves the send queue's memory alone.
        if transmit.payload_len == 0 {
            return Pieces::default();
        }
        self.sender
            .queue
            .slices(transmit.start, transmit.payload_len)
    }

    #[inline]
    fn emit_data(&mut self, now: Instant, transmit: &mut Transmit) -> bool {
        let has_unsent = self.sender.has_unsent();
        if !has_unsent && !self.sender.is_outstanding() {
            return false;
        }
        let can_send_new = has_unsent && self.sender.window_end() > self.sender.snd_nxt;
        if let Some(lost) = self.next_lost(can_send_new)
            && let Some(lost) = self.within_window(lost)
        {
            if self.hold_for_pacing(now) {
                return false;
            }
            self.emit_again(now, &lost, transmit);
            return true;
        }
        if !has_unsent {
            return false;
        }
        let is_outstanding = self.sender.is_outstanding();
        // Idleness ends with data that can go; a window that is closed does not count as use.
        if can_send_new && !is_outstanding {
            self.cold.recovery.before_sending(now);
            self.follow_pacing();
        }
        if self.is_searching_mtu() {
            match self.emit_mtu_probe(now, transmit) {
                Probing::Idle => {}
                Probing::Waits => return false,
                Probing::Sent => return true,
            }
        }
        let mss = self.room_beside_options();
        // One segment may always go (RFC 5681 §3.1) if nothing is under way that would let it go
        // later.
        let least = if is_outstanding { 0 } else { mss };
        let limits = Limits {
            mss,
            congestion: self.cold.recovery.room().max(least),
            piece: self.longest_piece(mss),
        };
        let next = self.sender.next_segment(&limits, &self.cold.options);
        self.measure_receive_window(now, next == Err(Blocked::Window));
        match next {
            Ok(_) if self.hold_for_pacing(now) => false,
            Ok(segment) => {
                self.emit_new(now, &segment, mss, transmit);
                true
            }
            Err(blocked) => {
                self.on_blocked(now, blocked);
                false
            }
        }
    }

    /// What is to be sent again, in segments that are known to arrive.
    #[inline]
    fn next_lost(&mut self, can_send_new: bool) -> Option<SentSegment> {
        let lost = self.cold.recovery.next_to_retransmit(can_send_new)?;
        if self.is_searching_mtu() && self.takes_back_mtu_probe(&lost) {
            return self.cold.recovery.next_to_retransmit(can_send_new);
        }
        Some(lost)
    }

    /// The peer may have taken window back (`__tcp_retransmit_skb`): what is sent again is cut to
    /// what there is; beyond the edge it is the first segment only, as a probe.
    #[inline]
    fn within_window(&mut self, lost: SentSegment) -> Option<SentSegment> {
        if lost.end() <= self.sender.window_end() {
            return Some(lost);
        }
        self.cut_to_window(lost)
    }

    #[cold]
    fn cut_to_window(&mut self, lost: SentSegment) -> Option<SentSegment> {
        let window_end = self.sender.window_end();
        if lost.seq >= window_end {
            if lost.seq == self.sender.snd_una {
                return Some(lost);
            }
            self.cold.recovery.cancel_probe();
            return None;
        }
        let room = window_end - lost.seq;
        // FIN goes with the last octet.
        let data_end = lost.end().min(self.sender.queue.end());
        if data_end <= window_end {
            return Some(lost);
        }
        self.cold.recovery.cut_to_retransmit(&lost, room)
    }

    /// A device would give each segment of a piece the same urgent pointer.
    #[inline]
    fn longest_piece(&self, mss: u32) -> u32 {
        if self.sender.urgent_end().is_some() {
            return mss;
        }
        let pacer = self.cold.outgoing.as_ref();
        let paced = pacer.and_then(|outgoing| outgoing.pacer.as_ref());
        let burst = paced.map_or(u32::MAX, |pacer| pacer.burst_octets(mss));
        self.cold.path.max_offload_len.min(burst).max(mss)
    }

    /// What the device cuts from here on, as
    /// [`Path::max_offload_len`](crate::Path::max_offload_len). A driver that has two ways to send
    /// may ask for whole pieces on one and for segments on the other.
    #[inline]
    pub fn set_max_offload_len(&mut self, octets: u32) {
        self.cold.path.max_offload_len = octets;
    }

    /// Whether the windows have room for two full segments or more of new data: a device that cuts
    /// would get them at once.
    #[inline]
    #[must_use]
    pub fn has_piece_to_send(&self) -> bool {
        let least = u32::from(self.mss()).saturating_mul(2);
        self.sender.unsent() >= least
            && self.state.is_synchronized()
            && self.sender.window_end() >= self.sender.snd_nxt + least
            && self.cold.recovery.room() >= least
            && self.sender.urgent_end().is_none()
    }

    /// Whether an acknowledgement of data in order is all that is to be sent: after more of them,
    /// it is one that stands for all (RFC 9293 §3.8.6.3 leaves a batch one).
    #[inline]
    #[must_use]
    pub fn has_plain_ack_to_send(&self) -> bool {
        self.receiver.acks.is_owed_once()
            && self.receiver.is_contiguous()
            && !self.receiver.has_sack_blocks()
            && self.state.is_synchronized()
            && !self.sender.has_unsent()
            && !self.pending.reset
            && self.pending.probe.is_none()
    }

    /// The pacing rate holds the next segment back; its timer is set.
    pub(super) fn hold_for_pacing(&mut self, now: Instant) -> bool {
        let next = self
            .cold
            .outgoing
            .as_mut()
            .and_then(|outgoing| outgoing.pacer.as_mut())
            .and_then(|pacer| pacer.hold(now));
        if let Some(at) = next {
            self.set_timer(Timer::Pacing, at);
        }
        next.is_some()
    }

    /// If nothing is outstanding, no acknowledgement will come that lets the data go: a timer has
    /// to.
    fn on_blocked(&mut self, now: Instant, blocked: Blocked) {
        if self.sender.is_outstanding() || self.timers.is_set(Timer::Retransmit) {
            return;
        }
        let delay = match blocked {
            // RFC 9293 §3.8.6.1: "The sending TCP peer must regularly transmit at least one octet
            // of new data (if available), or retransmit to the receiving TCP peer even if the send
            // window is zero".
            Blocked::Window => self.probe_interval(),
            // tcp(7): "there is a 200 millisecond ceiling on the time for which output is corked".
            Blocked::Cork => CORK_CEILING,
            Blocked::Empty | Blocked::Congestion | Blocked::Nagle => return,
        };
        self.set_timer(Timer::Retransmit, now + delay);
    }

    #[inline]
    pub(super) fn emit_new(
        &mut self,
        now: Instant,
        segment: &NewSegment,
        mss: u32,
        transmit: &mut Transmit,
    ) {
        let mut flags = data_flags(segment.is_push, segment.is_fin);
        transmit.ecn = Ecn::NotEct;
        if self.ecn.is_on && segment.len > 0 {
            transmit.ecn = Ecn::Ect0;
            // RFC 3168 §6.1.2: "the TCP source sets the CWR flag in the TCP header of the first new
            // data packet".
            if self.ecn.owes_cwr {
                self.ecn.owes_cwr = false;
                flags |= Flags::CWR;
            }
        }
        self.fill(now, segment.start, flags, segment.len, transmit);
        transmit.segment_len = u16::try_from(mss).unwrap_or(u16::MAX);
        let is_alone = !self.sender.is_outstanding();
        self.sender.on_sent(segment, mss);
        self.cold
            .recovery
            .on_sent_cut(segment.start, segment.len, segment.is_fin, mss, now);
        self.follow_deadline();
        self.measure_sent(now, segment.len, self.sender.snd_nxt, is_alone);
        // The probe timer is recovery's from here on.
        self.timers.stop(Timer::Retransmit);
        self.cold.probe_backoff = 0;
        self.cold.sent.on_data_sent(segment.len);
        self.after_ack_sent(now, segment.len > 0);
    }

    /// Sends a segment again: without ECT (RFC 3168 §6.1.5).
    fn emit_again(&mut self, now: Instant, lost: &SentSegment, transmit: &mut Transmit) {
        let queue_end = self.sender.queue.end();
        let is_fin = lost.end() > queue_end;
        let len = lost.len.saturating_sub(u32::from(is_fin));
        let end = lost.seq + len;
        let is_push = len > 0 && (end == queue_end || self.sender.is_record_end(end));
        transmit.ecn = Ecn::NotEct;
        self.fill(now, lost.seq, data_flags(is_push, is_fin), len, transmit);
        transmit.segment_len = self.mss();
        let timestamp = transmit
            .header
            .options
            .timestamps
            .map(|timestamps| timestamps.value);
        self.cold
            .recovery
            .on_retransmitted(lost.seq, timestamp, now);
        self.follow_deadline();
        self.measure_sent(now, len, lost.end(), false);
        self.cold.sent.on_data_sent(len);
        self.after_ack_sent(now, len > 0);
    }

    fn emit_probe(&mut self, now: Instant, probe: Probe, transmit: &mut Transmit) {
        let window =
            u32::try_from(self.sender.window_end().distance_from(self.sender.snd_nxt)).unwrap_or(0);
        let mss = self.room_beside_options();
        let len = self.sender.unsent().min(window).min(mss);
        if probe == Probe::Window && len > 0 && !self.sender.is_outstanding() {
            // Less than a segment, against the silly window syndrome, but better than nothing for
            // ever.
            let segment = NewSegment {
                start: self.sender.snd_nxt,
                len,
                is_fin: false,
                is_push: true,
            };
            self.emit_new(now, &segment, mss, transmit);
            return;
        }
        let (una, end) = (self.sender.snd_una, self.sender.urgent_end());
        if probe != Probe::Announced
            && end.is_some_and(|end| (1..=i32::from(u16::MAX)).contains(&end.distance_from(una)))
        {
            self.pending.probe = Some(Probe::Announced);
            self.emit_ack(now, una, transmit);
            return;
        }
        // As Linux (`tcp_xmit_probe_skb`): an old number makes the peer answer and tells it
        // nothing.
        self.emit_ack(now, self.sender.snd_una - 1, transmit);
    }

    fn emit_ack(&mut self, now: Instant, seq: SeqNumber, transmit: &mut Transmit) {
        transmit.ecn = Ecn::NotEct;
        self.fill(now, seq, Flags::ACK, 0, transmit);
        // Nothing is to be cut.
        transmit.segment_len = u16::MAX;
        self.after_ack_sent(now, false);
    }

    /// Header and place of a segment of a synchronized connection.
    #[inline]
    fn fill(
        &mut self,
        now: Instant,
        seq: SeqNumber,
        flags: Flags,
        len: u32,
        transmit: &mut Transmit,
    ) {
        let mut flags = flags | self.ecn_echo();
        let mut urgent = 0;
        if let Some(end) = self.sender.urgent_end()
            && let Ok(pointer @ 1..) = u16::try_from(end.distance_from(seq))
        {
            // RFC 9293 §3.8.5: the pointer is to the octet behind the urgent ones (RFC 6093 §3.1).
            // From there on nothing is urgent: a pointer of zero would be the segment's first octet
            // to Linux.
            flags |= Flags::URG;
            urgent = pointer;
        }
        let window = self.receiver.advertise();
        transmit.header = Header {
            seq: seq.0,
            ack: self.receiver.rcv_nxt.0,
            flags,
            window,
            urgent,
            options: self.header_options(now, len),
        };
        transmit.start = seq;
        transmit.payload_len = len;
        self.counters.segments_out = self.counters.segments_out.wrapping_add(1);
    }

    /// The peer's window has room for a whole segment of new data, or for all there is
    /// (`tcp_snd_wnd_test`): less would wait for more window.
    #[cold]
    pub(super) fn can_probe_with_new_data(&self) -> bool {
        let needed = self.sender.unsent().min(self.room_beside_options()).max(1);
        self.sender.has_unsent() && self.sender.window_end() >= self.sender.snd_nxt + needed
    }

    #[inline]
    fn after_ack_sent(&mut self, now: Instant, has_data: bool) {
        self.receiver.acks.on_ack_sent(now, has_data);
        self.timers.stop(Timer::DelayedAck);
    }
}

fn data_flags(is_push: bool, is_fin: bool) -> Flags {
    let mut flags = Flags::ACK;
    if is_push {
        flags |= Flags::PSH;
    }
    if is_fin {
        flags |= Flags::FIN;
    }
    flags
}

const CORK_CEILING: Duration = Duration::from_millis(200);
