//! Segments of a stream that a function of the program's is to see before its calls do, as VMA has
//! it: while nothing else of the stream waits to be read.

use ::tcp::Instant;

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::payload::Received;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::sockets::unseen::{Callback, Gate, InFlight, Shown, Verdict};
use crate::sockets::zero_copy::seen_id;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::stream::Stream;

/// Who is to see what comes, and what is being shown.
#[derive(Debug, Default)]
pub(super) struct ShownSegments {
    pub(super) callback: Option<Callback>,
    in_flight: InFlight<Received>,
}

impl<S: Stack> Stream<S> {
    /// Whether there is something that calls must not read yet.
    #[inline]
    pub(super) fn hides_data(&self) -> bool {
        self.gate.hides()
            && (matches!(self.gate, Gate::Running(_)) || self.connection.readable_len() > 0)
    }

    /// The connection has changed. Whether there is something new to be shown, or that the ring is
    /// to be told of (SocketXtreme).
    #[cold]
    pub(super) fn follow_gate(&mut self, core: &SocketCore<S>) -> bool {
        let is_empty = self.connection.readable_len() == 0;
        let is_shown = core.unseen.is_shown() && self.orphan.is_none();
        if core.unseen.is_xtreme() {
            return is_shown && !is_empty;
        }
        self.gate = match self.gate {
            Gate::Running(run) => Gate::Running(run),
            _ if !is_shown => Gate::Open,
            // An urgent octet has its own place.
            Gate::Shut if !is_empty && self.connection.has_urgent() => Gate::Passed,
            Gate::Shut if !is_empty => Gate::Listed,
            Gate::Open | Gate::Passed if is_empty => Gate::Shut,
            Gate::Open => Gate::Passed,
            // It is known.
            Gate::Listed => return false,
            gate => gate,
        };
        self.gate == Gate::Listed
    }

    /// The connection is about to be the kernel's: what is being shown is to be read there.
    pub(super) fn end_showing(&mut self, shown: &ShownSegments) {
        if let Gate::Running(run) = self.gate
            && let Some(segment) = shown.in_flight.of(run)
        {
            self.connection.put_back(segment.copy());
        }
        self.gate = Gate::Open;
    }
}

impl<S: TcpStack> TcpSocket<S> {
    /// Has a function of the program's see what comes from here on, or nobody.
    pub(crate) fn show_to(&'static self, host: &Host<S>, callback: Option<Callback>) {
        self.shown.lock().callback = callback;
        self.unseen.show(callback.is_some());
        self.change_stream(host, |_, _| {});
        // There may be something that nobody is to see any more.
        self.readiness.announce(events::IN);
    }

    /// The next segment for the function. `is_copied`: it is not to keep a frame.
    pub(crate) fn show_next(&'static self, generation: u32, is_copied: bool) -> Option<Shown<S>> {
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return None;
        };
        if self.generation() != generation || stream.gate != Gate::Listed {
            return None;
        }
        let mut shown = self.shown.lock();
        let (Some(callback), Some(segment)) = (shown.callback, stream.connection.lift_payload())
        else {
            stream.gate = Gate::Open;
            stream.show_readiness(&self.core);
            return None;
        };
        let segment = match is_copied {
            true => segment.out_of_pool(),
            false => segment,
        };
        let (data, len) = (segment.as_ref().as_ptr(), segment.as_ref().len());
        let run = shown.in_flight.begin(segment);
        stream.gate = Gate::Running(run);
        Some(Shown {
            callback,
            id: seen_id(run),
            fd: self.fd(),
            data,
            len,
            source: stream.peer,
            destination: stream.local,
            ready_packets: 0,
            ready_bytes: 0,
            stamp_nsec: 0,
            device_nsec: 0,
            socket: self.into(),
            generation,
            run,
        })
    }

    /// What becomes of a segment that was shown. Returns it if the program holds it.
    pub(crate) fn settle_shown(
        &'static self,
        host: &Host<S>,
        shown: &Shown<S>,
        verdict: Verdict,
    ) -> Option<Received> {
        let mut segment = Some(self.shown.lock().in_flight.end(shown.run)?);
        self.change_stream(host, |stream, now| {
            // The connection may be another, or have gone to the kernel and come back.
            if stream.gate == Gate::Running(shown.run) {
                stream.end_run(now, &mut segment, verdict);
            }
        });
        if verdict == Verdict::Receive {
            self.readiness.announce(events::IN);
        }
        segment.filter(|_| verdict == Verdict::Hold && self.generation() == shown.generation)
    }
}

impl<S: Stack> Stream<S> {
    fn end_run(&mut self, now: Instant, segment: &mut Option<Received>, verdict: Verdict) {
        self.gate = Gate::Shut;
        match verdict {
            Verdict::Receive => {
                if let Some(segment) = segment.take() {
                    self.connection.put_back(segment);
                }
                self.gate = Gate::Passed;
            }
            Verdict::Drop => {
                let len = segment.as_ref().map_or(0, |segment| segment.as_ref().len());
                self.connection.release_held(now, len);
            }
            Verdict::Hold => {}
        }
    }
}
