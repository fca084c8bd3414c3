//! What is true of every connection at any time.

use super::Connection;
use crate::timers::Timer;
use crate::{Payload, State};

impl<P: Payload> Connection<P> {
    /// Panics if the parts contradict each other; for tests.
    pub fn check_invariants(&self) {
        if self.state == State::Closed {
            return;
        }
        self.receiver.check_invariants();
        self.sender.check_invariants(self.cold.handshake.iss);
        self.timers.check_invariants(&self.cold.times);
        assert_eq!(
            self.timers.get(Timer::Recovery, &self.cold.times),
            self.cold.recovery.deadline()
        );
        if self.state.can_receive() {
            assert_eq!(self.receiver.acks.rto, self.rto_nanos().into());
        }
        assert_eq!(
            self.receiver.queue.low_water,
            self.cold.options.receive_low_water
        );
        assert!(
            !self.sender.is_outstanding() || self.pending.syn || self.poll_timeout().is_some(),
            "something is outstanding and no timer is set in {:?}",
            self.state
        );
        if self.state.is_synchronized() {
            assert_eq!(self.state.has_peer_fin(), self.receiver.has_received_fin());
        }
    }
}
