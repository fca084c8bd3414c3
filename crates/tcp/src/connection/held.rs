//! Data that its reader has without a copy.

use super::Connection;
use crate::{Instant, Payload, ReadError};

impl<P: Payload> Connection<P> {
    /// Takes the next received data as [`read_payload`](Self::read_payload) does, for a reader with
    /// which it stays: the window does not open for it until [`release_held`](Self::release_held).
    ///
    /// # Errors
    /// See [`ReadError`]. Nothing was read.
    pub fn hold_payload(&mut self, now: Instant) -> Result<Option<P>, ReadError> {
        match self.receiver.queue.pop() {
            Some(payload) => {
                self.receiver.window.hold(octets(payload.as_ref().len()));
                self.after_read(now);
                Ok(Some(payload))
            }
            None => self.nothing_to_read().map(|()| None),
        }
    }

    /// Takes the next received data out for who looks at it first: it is held until it is
    /// [put back](Self::put_back) or [free](Self::release_held). `None`: there is none.
    pub fn lift_payload(&mut self) -> Option<P> {
        let payload = self.receiver.queue.pop()?;
        self.receiver.window.hold(octets(payload.as_ref().len()));
        Some(payload)
    }

    /// What was [taken out](Self::lift_payload) is next again, unless nobody will read it.
    pub fn put_back(&mut self, payload: P) {
        self.receiver.window.release(octets(payload.as_ref().len()));
        if !self.receiver.is_discarding {
            self.receiver.queue.push_first(payload);
        }
    }

    /// What was [held](Self::hold_payload) is free: so many octets.
    pub fn release_held(&mut self, now: Instant, len: usize) {
        self.receiver.window.release(octets(len));
        self.after_read(now);
    }
}

/// Of a length, as windows count them.
fn octets(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
