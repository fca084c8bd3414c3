//! What waits in a socket.

use std::collections::VecDeque;

use dev_core::FramePool;

use crate::udp::ancillary::{Facts, Wants};
use crate::udp::datagram::Waiting;
use crate::udp::queue::answers::Answers;
use crate::udp::queue::unseen::UnseenDatagrams;
use crate::udp::truesize::truesize;

/// Datagrams for which a queue keeps room when its socket is closed.
const KEPT_DATAGRAMS: usize = 64;

/// The receive queue, under its lock.
#[derive(Debug)]
pub(in crate::udp) struct ReceiveQueue {
    pub(in crate::udp) datagrams: VecDeque<Waiting>,
    /// What the program is told of each datagram.
    pub(in crate::udp) wants: Wants,
    /// One for each datagram, while anything is to be told.
    pub(in crate::udp) facts: VecDeque<Facts>,
    /// Datagrams that were lost here, and that the kernel's socket has told of.
    pub(in crate::udp) drops: u32,
    pub(in crate::udp) kernel_drops: u32,
    /// By which address the sender of a datagram to a group was answered last.
    pub(in crate::udp) answers: Answers,
    /// Payload.
    pub(in crate::udp) bytes: usize,
    /// What the datagrams would cost the kernel's socket.
    pub(in crate::udp) charged_bytes: usize,
    /// `SO_RCVBUF` as the kernel reports it.
    pub(in crate::udp) limit_bytes: usize,
    /// What a function of the program's is to see first. It stays with the object.
    pub(in crate::udp) unseen: Option<Box<UnseenDatagrams>>,
}

impl ReceiveQueue {
    pub(in crate::udp) const fn new() -> Self {
        Self {
            datagrams: VecDeque::new(),
            wants: Wants::NONE,
            facts: VecDeque::new(),
            drops: 0,
            kernel_drops: 0,
            answers: Answers::new(),
            bytes: 0,
            charged_bytes: 0,
            limit_bytes: 0,
            unseen: None,
        }
    }

    /// Whether a datagram with this charge fits: anything does when nothing waits, as in the kernel
    /// (`__udp_enqueue_schedule_skb`, net/ipv4/udp.c).
    #[inline]
    pub(in crate::udp) fn has_room(&self, charge: usize) -> bool {
        self.charged_bytes + charge <= self.limit_bytes || self.charged_bytes == 0
    }

    #[inline]
    pub(in crate::udp) fn push(&mut self, waiting: Waiting, len: usize) {
        self.bytes += len;
        self.charged_bytes += truesize(len);
        self.datagrams.push_back(waiting);
    }

    #[inline]
    pub(in crate::udp) fn pop(&mut self) -> Option<Waiting> {
        let oldest = self.datagrams.pop_front()?;
        if self.wants.tells() {
            self.facts.pop_front();
        }
        let len = oldest.len();
        self.bytes -= len;
        self.charged_bytes -= truesize(len);
        Some(oldest)
    }

    /// The program is to be told other things of datagrams. Of those that wait nothing more is
    /// known.
    pub(in crate::udp) fn set_wants(&mut self, wants: Wants) {
        self.wants = wants.with_shown(self.wants.shown());
        if wants.tells() {
            self.facts.resize(self.datagrams.len(), Facts::default());
        } else {
            self.facts.clear();
        }
    }

    /// Empties the queue.
    pub(in crate::udp) fn clear(&mut self, pool: &FramePool) {
        self.forget_unseen(pool);
        self.datagrams
            .drain(..)
            .for_each(|waiting| waiting.release(pool));
        // The object lives on for another socket, which may never have a deep queue.
        self.datagrams.shrink_to(KEPT_DATAGRAMS);
        self.facts.clear();
        self.facts.shrink_to(KEPT_DATAGRAMS);
        (self.bytes, self.charged_bytes) = (0, 0);
    }
}
