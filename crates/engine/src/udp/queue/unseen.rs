//! Datagrams that a function of the program's is to see before its calls do: they are in no queue
//! from which a call would take them, and charged like others.

use std::collections::VecDeque;
use std::net::SocketAddr;

use dev_core::FramePool;

use crate::sockets::events;
use crate::sockets::payload;
use crate::sockets::stack::Stack;
use crate::sockets::unseen::{Callback, Gate, InFlight, Shown, Verdict};
use crate::sockets::zero_copy::seen_id;
use crate::udp::ancillary::{Facts, Headers};
use crate::udp::datagram::Waiting;
use crate::udp::queue::receive_queue::ReceiveQueue;
use crate::udp::socket::{UdpSocket, UdpStack};
use crate::udp::truesize::truesize;

/// What a function of the program's is to see.
#[derive(Debug, Default)]
pub(in crate::udp) struct UnseenDatagrams {
    callback: Option<Callback>,
    gate: Gate,
    /// With what there is to tell of them, if anything is.
    waiting: VecDeque<(Waiting, Option<Facts>)>,
    in_flight: InFlight<(Waiting, Option<Facts>)>,
}

impl ReceiveQueue {
    fn pop_unseen(&mut self) -> Option<(Waiting, Option<Facts>)> {
        let first = self.unseen.as_mut()?.waiting.pop_front()?;
        self.charged_bytes -= truesize(first.0.len());
        Some(first)
    }

    /// It was seen, or nobody wants to see it any more.
    fn push_seen(&mut self, (waiting, facts): (Waiting, Option<Facts>)) {
        if self.wants.tells() {
            self.facts.push_back(facts.unwrap_or_default());
        }
        let len = waiting.len();
        self.push(waiting, len);
    }

    /// Nobody is to see what comes, or what has come, but what is being shown.
    fn pass_unseen(&mut self) {
        while let Some(first) = self.pop_unseen() {
            self.push_seen(first);
        }
        self.wants = self.wants.with_shown(false);
        if let Some(unseen) = &mut self.unseen {
            unseen.gate = Gate::Open;
        }
    }

    /// Drops what nobody has seen. What is being shown stays until that is over.
    pub(super) fn forget_unseen(&mut self, pool: &FramePool) {
        while let Some((waiting, _)) = self.pop_unseen() {
            waiting.release(pool);
        }
        if let Some(unseen) = &mut self.unseen {
            (unseen.callback, unseen.gate) = (None, Gate::Open);
        }
        self.wants = self.wants.with_shown(false);
    }
}

impl<S: Stack> UdpSocket<S> {
    /// SocketXtreme: the ring is told of what comes from here on.
    pub(in crate::udp) fn tells_its_ring(&self) {
        let mut queue = self.receive.lock();
        queue.wants = queue.wants.with_shown(true);
    }

    /// What nobody has seen is to be read: the socket is about to be the kernel's.
    pub(in crate::udp) fn show_nothing_more(&self) {
        let mut queue = self.receive.lock();
        if queue.wants.shown() {
            queue.pass_unseen();
            self.queue_changed(&queue);
        }
    }
}

impl<S: UdpStack> UdpSocket<S> {
    /// Has a function of the program's see what comes from here on, or nobody.
    pub(crate) fn show_to(&'static self, callback: Option<Callback>) {
        let mut queue = self.receive.lock();
        let unseen = queue.unseen.get_or_insert_default();
        unseen.callback = callback;
        let is_running = matches!(unseen.gate, Gate::Running(_));
        self.unseen.show(callback.is_some());
        if callback.is_some() {
            if unseen.gate == Gate::Open {
                unseen.gate = Gate::Shut;
            }
            queue.wants = queue.wants.with_shown(true);
        } else if !is_running {
            queue.pass_unseen();
            self.queue_changed(&queue);
            drop(queue);
            self.readiness.announce(events::IN);
        }
    }

    /// Gives up to `max` datagrams to who takes them by the ring.
    pub(crate) fn take_unseen(
        &'static self,
        generation: u32,
        max: usize,
        give: &mut impl FnMut(payload::Received, SocketAddr, u64),
    ) -> usize {
        self.unseen.leaves_list();
        let mut queue = self.receive.lock();
        if self.generation() != generation {
            return 0;
        }
        let mut count = 0;
        while count < max {
            let facts = queue.facts.front();
            let device_nsec = facts.map_or(0, |facts| facts.device_nsec());
            let Some(waiting) = queue.pop() else {
                break;
            };
            self.count_received(true, waiting.len(), true);
            self.count_latency(waiting.arrived_nsec());
            let source = waiting.source(self.pool);
            give(waiting.into_payload(self.pool), source, device_nsec);
            count += 1;
        }
        self.queue_changed(&queue);
        if !queue.datagrams.is_empty() {
            self.tell_ring();
        }
        count
    }

    /// The ring is told that something waits here.
    pub(super) fn tell_ring(&'static self) {
        self.unseen
            .list(self.into(), self.generation(), &self.interfaces);
    }

    /// Has a datagram wait until it is shown. The caller wakes who sleeps.
    pub(super) fn push_to_be_shown(
        &'static self,
        queue: &mut ReceiveQueue,
        waiting: Waiting,
        facts: Option<Facts>,
    ) {
        queue.charged_bytes += truesize(waiting.len());
        let unseen = queue.unseen.get_or_insert_default();
        unseen.waiting.push_back((waiting, facts));
        if unseen.gate == Gate::Shut {
            unseen.gate = Gate::Listed;
            self.unseen
                .add(self.into(), self.generation(), &self.interfaces);
        }
    }

    /// The next datagram for the function. `is_copied`: it is not to keep a frame.
    pub(crate) fn show_next(&'static self, generation: u32, is_copied: bool) -> Option<Shown<S>> {
        let mut queue = self.receive.lock();
        if self.generation() != generation {
            return None;
        }
        let callback = queue.unseen.as_ref()?.callback;
        let (Some(callback), Some((mut waiting, facts))) = (callback, queue.pop_unseen()) else {
            queue.unseen.as_mut()?.gate = Gate::Shut;
            return None;
        };
        if is_copied && let Waiting::InFrame(received) = waiting {
            waiting = match Waiting::out_of_pool(received, self.pool) {
                Ok(waiting) => waiting,
                Err(received) => Waiting::InFrame(received),
            };
        }
        let source = waiting.source(self.pool);
        let headers = Headers::of(waiting.header(self.pool));
        let payload = waiting.payload(self.pool);
        let (data, len) = (payload.as_ptr(), payload.len());
        let (ready, octets) = (queue.datagrams.len(), queue.bytes);
        let unseen = queue.unseen.as_mut()?;
        let run = unseen.in_flight.begin((waiting, facts));
        unseen.gate = Gate::Running(run);
        Some(Shown {
            callback,
            id: seen_id(run),
            fd: self.fd(),
            data,
            len,
            source,
            destination: headers.map_or(source, |headers| headers.destination),
            ready_packets: u32::try_from(ready).unwrap_or(u32::MAX),
            ready_bytes: u32::try_from(octets).unwrap_or(u32::MAX),
            stamp_nsec: facts.map_or(0, |facts| facts.stamp_nsec()),
            device_nsec: facts.map_or(0, |facts| facts.device_nsec()),
            socket: self.into(),
            generation,
            run,
        })
    }

    /// What becomes of a datagram that was shown. Returns it if the program holds it.
    pub(crate) fn settle_shown(
        &'static self,
        shown: &Shown<S>,
        verdict: Verdict,
    ) -> Option<payload::Received> {
        let mut queue = self.receive.lock();
        let unseen = queue.unseen.as_mut()?;
        let (waiting, facts) = unseen.in_flight.end(shown.run)?;
        if self.generation() != shown.generation {
            // Its socket is gone, and nobody could give it back.
            drop(queue);
            waiting.release(self.pool);
            return None;
        }
        let is_running = unseen.gate == Gate::Running(shown.run);
        let len = waiting.len();
        let held = match verdict {
            Verdict::Receive => {
                queue.push_seen((waiting, facts));
                None
            }
            Verdict::Hold => Some(waiting.into_payload(self.pool)),
            Verdict::Drop => {
                waiting.release(self.pool);
                None
            }
        };
        if is_running {
            self.end_run(&mut queue);
        }
        if verdict != Verdict::Receive {
            self.count_received(true, len, false);
        }
        self.queue_changed(&queue);
        drop(queue);
        if verdict == Verdict::Receive {
            self.readiness.announce(events::IN);
        }
        held
    }

    /// The next may be shown.
    fn end_run(&'static self, queue: &mut ReceiveQueue) {
        let Some(unseen) = &mut queue.unseen else {
            return;
        };
        if unseen.callback.is_none() {
            return queue.pass_unseen();
        }
        unseen.gate = match unseen.waiting.is_empty() {
            true => Gate::Shut,
            false => {
                self.unseen
                    .add(self.into(), self.generation(), &self.interfaces);
                Gate::Listed
            }
        };
    }
}
