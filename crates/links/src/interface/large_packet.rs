//! Packets that are longer than a frame, in memory of their own. It is used again: what is as long
//! as that goes back to the system when it is freed, and costs a page fault every 4 KiB when it
//! comes again.

use std::fmt;
use std::sync::Arc;

use dev_core::{Lock, ThreadMode};

/// Packets that are longer than this are put into memory that is used again, of [`KEPT_BYTES`].
const LARGE_BYTES: usize = 32 << 10;
/// The longest packet with its Ethernet header, which one of IPv6 is: its length does not count its
/// own header.
const KEPT_BYTES: usize = 14 + 40 + 65_535;
/// What is kept: two megabytes.
const KEPT_MAX: usize = 32;

/// Memory that nobody uses.
pub(super) struct Spares {
    list: Lock<Vec<Vec<u8>>>,
}

impl fmt::Debug for Spares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spares").finish_non_exhaustive()
    }
}

impl Spares {
    pub(super) fn new(mode: ThreadMode) -> Self {
        Self {
            list: Lock::new(mode, Vec::with_capacity(KEPT_MAX)),
        }
    }

    fn give(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        let mut list = self.list.lock();
        if list.len() < KEPT_MAX {
            list.push(bytes);
        }
    }
}

/// A packet that came in several frames. Its octets are [as a slice](AsRef).
#[derive(Debug)]
pub struct LargePacket {
    bytes: Vec<u8>,
    home: Arc<Spares>,
}

impl LargePacket {
    /// Room for `len` octets. Without memory there is less.
    pub(super) fn with_room(len: usize, home: &Arc<Spares>) -> Self {
        let mut bytes = Vec::new();
        if len <= LARGE_BYTES {
            let _ = bytes.try_reserve_exact(len);
        } else {
            let kept = home.list.lock().pop();
            bytes = kept.unwrap_or_default();
            if bytes.capacity() < len {
                let _ = bytes.try_reserve_exact(len.max(KEPT_BYTES));
            }
        }
        Self {
            bytes,
            home: Arc::clone(home),
        }
    }

    /// Appends what there is room for whole.
    pub(super) fn append(&mut self, piece: &[u8]) {
        if self.bytes.capacity() - self.bytes.len() >= piece.len() {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// A packet in memory of its own.
    pub fn of(bytes: &[u8]) -> Self {
        let home = Arc::new(Spares::new(ThreadMode::SpinLock));
        let mut packet = Self::with_room(bytes.len(), &home);
        packet.append(bytes);
        packet
    }

    /// Octets of memory.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

impl AsRef<[u8]> for LargePacket {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for LargePacket {
    fn drop(&mut self) {
        if self.bytes.capacity() >= KEPT_BYTES {
            self.home.give(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_memory_is_used_again_and_short_memory_is_not_kept() {
        let home = Arc::new(Spares::new(ThreadMode::SpinLock));
        let mut first = LargePacket::with_room(40_000, &home);
        first.append(&[1; 40_000]);
        let at = first.as_ref().as_ptr();
        drop(first);
        drop(LargePacket::with_room(3000, &home));
        assert_eq!(home.list.lock().len(), 1);
        let again = LargePacket::with_room(65_000, &home);
        assert_eq!(
            (again.as_ref().len(), again.capacity() >= KEPT_BYTES),
            (0, true)
        );
        assert_eq!(again.bytes.as_ptr(), at);
        let many: Vec<_> = (0..2 * KEPT_MAX)
            .map(|_| LargePacket::with_room(KEPT_BYTES, &home))
            .collect();
        drop(many);
        assert_eq!(home.list.lock().len(), KEPT_MAX);
    }
}
