//! Sends that send nothing while the client waits (`--dummy-send`): what the next message needs
//! stays in the caches.

use vma_api::Api;

use crate::error::Error;
use crate::net::open::Endpoint;

/// Of the sockets in turn, at a rate.
#[derive(Debug)]
pub struct Dummies<'a> {
    endpoints: &'a [Endpoint],
    next: usize,
    period_nsec: u64,
    due_nsec: u64,
}

impl<'a> Dummies<'a> {
    /// `None`: nobody has asked for any.
    ///
    /// # Errors
    /// Without the library they would be messages.
    pub fn new(endpoints: &'a [Endpoint], per_second: Option<u32>) -> Result<Option<Self>, Error> {
        let Some(rate) = per_second else {
            return Ok(None);
        };
        if Api::get().is_none() {
            return Err(Error::Usage(
                "--dummy-send needs libvma: LD_PRELOAD=libvma.so sockperf-rs ...".to_owned(),
            ));
        }
        Ok(Some(Self {
            endpoints,
            next: 0,
            period_nsec: 1_000_000_000 / u64::from(rate.max(1)),
            due_nsec: 0,
        }))
    }

    /// To be called while there is nothing else to do.
    #[inline]
    pub fn look(&mut self, now_nsec: u64) {
        if now_nsec < self.due_nsec {
            return;
        }
        self.due_nsec = now_nsec.saturating_add(self.period_nsec);
        if let Some(endpoint) = self.endpoints.get(self.next) {
            endpoint.socket.send_dummy(&endpoint.peer);
        }
        self.next = (self.next + 1) % self.endpoints.len().max(1);
    }
}
