//! An interface's rings, as those who sleep know them.

use std::os::fd::RawFd;

use crate::interface::Interface;
use crate::lead::Lead;
use crate::receiver::Receiver;
use crate::watch::{self, Rings};

impl<S: Receiver> Rings for Interface<S> {
    fn lead(&self) -> &Lead {
        &self.lead
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        Self::wait_fds(self).collect()
    }

    fn have_waiting(&self) -> bool {
        self.has_waiting()
    }

    fn receive_all(&self) -> usize {
        self.drain()
    }
}

impl<S: Receiver> Interface<S> {
    /// In the internal thread: receives what has come for those who follow. `spares_leader`: not
    /// what the leader is about to receive, which it was woken for. Returns the number of frames.
    pub fn receive_for_followers(&self, spares_leader: bool) -> usize {
        if !self.lead.is_watched() {
            return 0;
        }
        watch::end_if_unneeded(self);
        if self.is_lost() || !self.has_waiting() || spares_leader && self.lead.is_led() {
            return 0;
        }
        self.drain()
    }
}
