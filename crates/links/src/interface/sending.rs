//! Sending: frames into a ring, and the kick that makes the device take them.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::atomic::Ordering;

use dev_core::{Backend, Kick, KickOutcome, TxRing};
use wire::UdpTemplate;

use crate::doorbell::{self, Follows, Notify};
use crate::interface::Interface;
use crate::interface::send_ring::SendRing;
use crate::receiver::Receiver;
use crate::rings::{Reserved, RingUser};

/// How often a busy device is kicked again before its frames are left to the next poll.
const KICK_RETRIES: u32 = 64;

/// What came of handing a datagram to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmitted {
    /// In the ring; `needs_kick` asks for [`Sender::frame_queued`].
    Sent { needs_kick: bool },
    /// No free frame or ring entry.
    Full,
    /// The datagram does not fit into a frame.
    LargerThanFrame,
    /// The device is gone.
    Lost,
}

/// One of an interface's sending rings.
pub struct Sender<S: Receiver> {
    pub interface: &'static Interface<S>,
    pub(super) ring: &'static SendRing<S::Backend>,
}

impl<S: Receiver> Clone for Sender<S> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Receiver> Copy for Sender<S> {}

/// The use of a ring by a socket; the ring is everybody's again when nobody has it.
pub struct RingLease<S: Receiver> {
    sender: Sender<S>,
    /// `None`: there is only one.
    reserved: Option<Reserved>,
}

impl<S: Receiver> Deref for RingLease<S> {
    type Target = Sender<S>;

    #[inline]
    fn deref(&self) -> &Sender<S> {
        &self.sender
    }
}

impl<S: Receiver> fmt::Debug for RingLease<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingLease")
            .field("interface", self.sender.interface)
            .field("reserved", &self.reserved)
            .finish_non_exhaustive()
    }
}

impl<S: Receiver> Interface<S> {
    /// The ring for packets that `user` sends from `source`.
    pub fn lease(&'static self, user: RingUser, source: IpAddr) -> RingLease<S> {
        let reserved =
            (self.send_rings.len() > 1).then(|| self.ring_table.reserve(user.key(source)));
        let number = reserved.as_ref().map_or(0, Reserved::ring);
        let ring = self.send_rings.get(number).unwrap_or(&self.send_rings[0]);
        RingLease {
            sender: Sender {
                interface: self,
                ring,
            },
            reserved,
        }
    }

    /// Frames have been received. Whoever sent what they answer did so by any of the rings.
    #[inline]
    pub(super) fn senders_have_answers(&self, frames: usize) {
        if let [first, others @ ..] = &*self.send_rings {
            first.doorbell.frames_received(frames);
            if !others.is_empty() {
                have_answers(others, frames);
            }
        }
    }

    /// Tells the device of frames that it did not take when it was told of them. Returns whether it
    /// is still busy.
    pub(super) fn kick_again_if_pending(&self) -> bool {
        self.condition.set_kick_pending(false);
        let mut is_pending = false;
        for ring in &self.send_rings {
            if ring.kick_pending.load(Ordering::Relaxed) || ring.doorbell.is_waiting() {
                self.run_kick(ring, doorbell::ticks());
            }
            is_pending |= ring.kick_pending.load(Ordering::Relaxed);
        }
        is_pending
    }

    /// Tells the device of the last frames of senders that have stopped. Returns whether to look
    /// again soon.
    pub fn look_after_waiting(&self) -> bool {
        let mut again = false;
        for ring in &self.send_rings {
            again |= ring
                .doorbell
                .look(|| self.run_kick(ring, doorbell::ticks()));
        }
        again
    }

    /// Tells the device of frames that were left to a later call, if there are any.
    pub fn start_waiting(&self) {
        for ring in &self.send_rings {
            if ring.doorbell.is_waiting() {
                self.run_kick(ring, doorbell::ticks());
            }
        }
    }

    /// Tells the device of segments in any of its rings. No lock is held meanwhile: on veth the
    /// peer's delivery runs inside.
    pub fn start_segments(&self) {
        for ring in &self.send_rings {
            self.run_kick(ring, doorbell::ticks());
        }
    }

    /// Tells the device of what was sent while its receiving side was polled.
    #[inline]
    pub(super) fn start_replies(&self) {
        if self.has_replies.load(Ordering::Relaxed) {
            self.start_rings_with_replies();
        }
    }

    fn start_rings_with_replies(&self) {
        // Who marks a ring after this finds that it has to look itself.
        self.has_replies.swap(false, Ordering::AcqRel);
        for ring in &self.send_rings {
            if ring.has_replies.load(Ordering::Acquire) {
                ring.has_replies.store(false, Ordering::Relaxed);
                self.run_kick(ring, doorbell::ticks());
            }
        }
    }

    /// Tells the device of the frames in a ring. What can wait comes behind the system call: the
    /// frame is on its way then.
    #[inline]
    pub(super) fn run_kick(&self, ring: &SendRing<S::Backend>, now: u64) {
        let frames = ring.doorbell.kick_begins();
        let outcome = ring.kick.kick();
        ring.doorbell.kick_ended(frames, now, doorbell::ticks());
        ring.stats.tx_kicks.add(1);
        match outcome {
            KickOutcome::Done => {
                if ring.kick_pending.load(Ordering::Relaxed) {
                    ring.kick_pending.store(false, Ordering::Relaxed);
                }
            }
            outcome => self.kick_again(ring, outcome),
        }
    }

    #[cold]
    fn kick_again(&self, ring: &SendRing<S::Backend>, mut outcome: KickOutcome) {
        for _ in 0..KICK_RETRIES {
            if outcome != KickOutcome::Again {
                break;
            }
            ring.stats.tx_kick_retries.add(1);
            outcome = ring.kick.kick();
        }
        let is_pending = outcome == KickOutcome::Again;
        ring.kick_pending.store(is_pending, Ordering::Relaxed);
        if is_pending {
            self.condition.set_kick_pending(true);
        }
        if outcome == KickOutcome::Lost {
            self.mark_lost();
        }
    }
}

#[inline(never)]
fn have_answers<B: Backend>(rings: &[SendRing<B>], frames: usize) {
    for ring in rings {
        ring.doorbell.frames_received(frames);
    }
}

impl<S: Receiver> Sender<S> {
    /// Puts a datagram of `len` bytes into the ring. [`Sender::frame_queued`] makes the device send
    /// it.
    #[inline]
    pub fn transmit<'payload>(
        &self,
        template: &UdpTemplate,
        identification: u16,
        len: usize,
        parts: impl Iterator<Item = &'payload [u8]>,
    ) -> Transmitted {
        if self.interface.condition.concerns_senders() {
            return self.transmit_looking(template, identification, len, parts);
        }
        self.put_datagram::<false>(template, identification, len, parts)
    }

    #[cold]
    #[inline(never)]
    fn transmit_looking<'payload>(
        &self,
        template: &UdpTemplate,
        identification: u16,
        len: usize,
        parts: impl Iterator<Item = &'payload [u8]>,
    ) -> Transmitted {
        if self.interface.is_lost() {
            return Transmitted::Lost;
        }
        self.put_datagram::<true>(template, identification, len, parts)
    }

    #[inline(always)]
    fn put_datagram<'payload, const RECORDED: bool>(
        &self,
        template: &UdpTemplate,
        identification: u16,
        len: usize,
        mut parts: impl Iterator<Item = &'payload [u8]>,
    ) -> Transmitted {
        let (pool, ring) = (self.interface.pool, self.ring);
        let mut tx = ring.tx.lock();
        let Some(mut frame) = tx.frame(pool) else {
            ring.stats.tx_full.add(1);
            return Transmitted::Full;
        };
        let chunk = pool.chunk_mut(&mut frame);
        let first = parts.next().unwrap_or_default();
        let written = if first.len() == len {
            template.emit_one(chunk, identification, first)
        } else {
            template.emit(
                chunk,
                identification,
                len,
                std::iter::once(first).chain(parts),
            )
        };
        let Some(written) = written else {
            tx.cancel(frame);
            return Transmitted::LargerThanFrame;
        };
        pool.set_len(&mut frame, written);
        if RECORDED {
            self.record(pool.data(&frame));
        }
        tx.push(pool, frame);
        ring.stats.tx_packets.add(1);
        ring.stats.tx_bytes.add(written as u64);
        Transmitted::Sent {
            needs_kick: tx.needs_kick(),
        }
    }

    /// The same of a packet that stands whole somewhere else.
    pub fn transmit_packet(&self, packet: &[u8]) -> Transmitted {
        let (pool, ring) = (self.interface.pool, self.ring);
        if self.interface.is_lost() {
            return Transmitted::Lost;
        }
        let mut tx = ring.tx.lock();
        let Some(mut frame) = tx.frame(pool) else {
            ring.stats.tx_full.add(1);
            return Transmitted::Full;
        };
        let Some(room) = pool.chunk_mut(&mut frame).get_mut(..packet.len()) else {
            tx.cancel(frame);
            return Transmitted::LargerThanFrame;
        };
        room.copy_from_slice(packet);
        self.record(packet);
        pool.set_len(&mut frame, packet.len());
        tx.push(pool, frame);
        ring.stats.tx_packets.add(1);
        ring.stats.tx_bytes.add(packet.len() as u64);
        Transmitted::Sent {
            needs_kick: tx.needs_kick(),
        }
    }

    /// Whether it is the same ring.
    pub fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.ring, other.ring)
    }

    /// Does what [`Self::transmit`] does, and sends nothing.
    pub fn send_dummy(&self, template: &UdpTemplate, payload: &[u8]) {
        let pool = self.interface.pool;
        if self.interface.is_lost() {
            return;
        }
        let mut tx = self.ring.tx.lock();
        if let Some(mut frame) = tx.frame(pool) {
            // It is not sent, whether it has room or not.
            let _ = template.emit_one(pool.chunk_mut(&mut frame), 0, payload);
            tx.cancel(frame);
        }
    }

    /// Tells the device of the frame that [`Self::transmit`] has just put into the ring, or says
    /// who has to. No lock is held meanwhile: on veth the peer's delivery runs inside.
    #[inline]
    pub fn frame_queued(&self, follows: Follows, watch: bool) -> Notify {
        let now = doorbell::ticks();
        let notify = self.ring.doorbell.frame_queued(now, follows, watch);
        if notify == Notify::Now {
            self.interface.run_kick(self.ring, now);
        }
        notify
    }

    /// Tells the device of segments, or of other packets that nothing else tells it of. No lock is
    /// held meanwhile: on veth the peer's delivery runs inside.
    #[inline]
    pub fn start_segments(&self) {
        self.interface.run_kick(self.ring, doorbell::ticks());
    }

    /// What has been received from `polled` has made a socket send by this ring. If it is one of
    /// the same interface, whoever polls that tells the device when it has let go of the lock;
    /// `false`: it is not.
    #[inline]
    pub fn note_reply_to(&self, polled: &Interface<S>) -> bool {
        if !std::ptr::eq(self.interface, polled) {
            return false;
        }
        if !self.ring.has_replies.load(Ordering::Relaxed) {
            self.ring.has_replies.store(true, Ordering::Release);
        }
        // After the ring's mark, and always: see `start_rings_with_replies`.
        polled.has_replies.store(true, Ordering::Release);
        true
    }
}
