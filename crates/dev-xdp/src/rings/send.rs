//! A sending side: TX and completion rings of a queue, and the system call that starts them.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use descriptors::OwnDescriptor;
use dev_core::{Frame, FramePool, Kick, KickOutcome, TxRing};

use crate::queue::{Consumer, Producer};
use rustix::net::xdp::{XdpDesc, XdpDescOptions};

/// Sending side of an interface that is the process's alone: the TX and completion rings of one
/// queue.
#[derive(Debug)]
pub struct OwnTx {
    tx: Producer<XdpDesc>,
    completion: Consumer<u64>,
    /// A frame that was taken and not used.
    spare: Option<Frame>,
    /// Frames that the kernel has and did not complete yet.
    in_flight: u32,
}

impl OwnTx {
    pub(crate) fn new(tx: Producer<XdpDesc>, completion: Consumer<u64>) -> Self {
        Self {
            tx,
            completion,
            spare: None,
            in_flight: 0,
        }
    }
}

impl TxRing for OwnTx {
    #[inline]
    fn frame(&mut self, pool: &FramePool) -> Option<Frame> {
        // A frame may be completed before the ring shows that its entry is free.
        if self.tx.room(1) == 0 {
            return None;
        }
        if let Some(frame) = self.spare.take() {
            return Some(frame);
        }
        // The frame sent last is the first to be used again: its lines are in the cache.
        if let Some(address) = self.completion.pop() {
            self.completion.release();
            self.in_flight -= 1;
            if let Some(frame) = pool.reclaim(address, 0) {
                return Some(frame);
            }
        }
        if self.in_flight >= self.tx.size() {
            return None;
        }
        pool.take()
    }

    #[inline]
    fn push(&mut self, pool: &FramePool, frame: Frame) {
        if self.tx.room(1) == 0 {
            debug_assert!(false, "`frame` has seen the room");
            return pool.give(frame);
        }
        let len = frame.len() as u32;
        let descriptor = XdpDesc {
            addr: pool.release_to_device(frame),
            len,
            options: XdpDescOptions::empty(),
        };
        self.tx.push(descriptor);
        self.in_flight += 1;
        self.tx.publish();
    }

    fn cancel(&mut self, frame: Frame) {
        debug_assert!(self.spare.is_none());
        self.spare = Some(frame);
    }

    #[inline]
    fn needs_kick(&self) -> bool {
        self.tx.needs_wakeup()
    }
}

/// The `sendto(2)` that makes the kernel take frames from the TX ring.
#[derive(Debug)]
pub struct XdpKick {
    fd: Arc<OwnDescriptor>,
}

impl XdpKick {
    pub(crate) fn new(fd: Arc<OwnDescriptor>) -> Self {
        Self { fd }
    }
}

impl Kick for XdpKick {
    #[inline]
    fn kick(&self) -> KickOutcome {
        let none = std::ptr::null::<libc::c_void>();
        let fd = self.fd.as_raw_fd();
        // SAFETY: an empty message from a null buffer; the kernel reads nothing.
        let result =
            unsafe { libc::syscall(libc::SYS_sendto, fd, none, 0, libc::MSG_DONTWAIT, none, 0) };
        if result >= 0 {
            KickOutcome::Done
        } else {
            kick_failed(fd, self.fd.as_raw_fd())
        }
    }
}

/// `asked`: the number that was used; `present`: that of the socket.
#[cold]
fn kick_failed(asked: RawFd, present: RawFd) -> KickOutcome {
    match io::Error::last_os_error().raw_os_error() {
        // The program has taken the number meanwhile.
        _ if asked != present => KickOutcome::Again,
        // In copy mode the kernel takes 32 frames at a time and answers EAGAIN while there are
        // more.
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => KickOutcome::Again,
        Some(libc::ENETDOWN) => KickOutcome::Down,
        _ => KickOutcome::Lost,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::Ordering;

    use super::super::test_memory::{EMPTY, Memory, pool};
    use super::*;

    /// A sending side, and the kernel's ends of its rings.
    fn sending(
        tx: &mut Memory<XdpDesc>,
        completion: &mut Memory<u64>,
    ) -> (OwnTx, Consumer<XdpDesc>, Producer<u64>) {
        let (tx_in, tx_out) = tx.ends();
        let (completion_in, completion_out) = completion.ends();
        (OwnTx::new(tx_in, completion_out), tx_out, completion_in)
    }

    #[test]
    fn as_many_frames_are_under_way_as_the_ring_holds() {
        let pool = pool(64);
        let (mut tx, mut completion) = (Memory::new(8, EMPTY), Memory::new(8, 0));
        let (mut side, mut sent, mut completed) = sending(&mut tx, &mut completion);
        let (mut in_flight, mut unreleased) = (VecDeque::new(), 0);
        let mut seed = 7u64;
        for step in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            match (seed >> 33) % 5 {
                0 | 1 => match side.frame(&pool) {
                    Some(mut frame) if !(seed >> 40).is_multiple_of(8) => {
                        pool.set_len(&mut frame, 60);
                        side.push(&pool, frame);
                        let descriptor = sent.pop().unwrap();
                        assert_eq!(descriptor.len, 60);
                        assert!(!in_flight.contains(&descriptor.addr), "sent twice");
                        in_flight.push_back(descriptor.addr);
                        unreleased += 1;
                    }
                    Some(frame) => side.cancel(frame),
                    None => assert_eq!(unreleased.max(in_flight.len()), 8, "step {step}"),
                },
                // A frame may be completed before this.
                2 => {
                    sent.release();
                    unreleased = 0;
                }
                _ => {
                    if let Some(address) = in_flight.pop_front() {
                        assert!(completed.push(address));
                        completed.publish();
                    }
                }
            }
            assert!(in_flight.len() <= 8);
        }
    }

    #[test]
    fn a_kick_is_needed_when_the_kernel_says_so() {
        let pool = pool(4);
        let (mut tx, mut completion) = (Memory::new(8, EMPTY), Memory::new(8, 0));
        let (mut side, ..) = sending(&mut tx, &mut completion);
        assert!(!side.needs_kick());
        tx.indexes[2].store(1, Ordering::Relaxed);
        assert!(side.needs_kick());
        // A pool without frames is a full ring to the caller.
        let held: Vec<_> = std::iter::from_fn(|| side.frame(&pool)).collect();
        assert_eq!(held.len(), 4);
        held.into_iter().for_each(|frame| pool.give(frame));
    }
}
