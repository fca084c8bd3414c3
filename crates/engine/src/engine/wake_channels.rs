//! By which others call for sockets that this process has adopted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sockets::shared::WakeChannel;

/// By which others call for sockets that this process has adopted: as many as it has ancestors with
/// sockets, which is mostly one.
#[derive(Debug, Default)]
pub(crate) struct WakeChannels(Mutex<Vec<&'static WakeChannel>>);

impl WakeChannels {
    pub(super) fn add(&self, channel: &'static WakeChannel) {
        let mut wake_channels = self.known();
        if !wake_channels
            .iter()
            .any(|known| std::ptr::eq(*known, channel))
        {
            wake_channels.push(channel);
        }
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, Vec<&'static WakeChannel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
