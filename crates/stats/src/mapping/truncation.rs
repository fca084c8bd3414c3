//! A mapped file that somebody truncates: the next access raises `SIGBUS`, which would end the
//! process. Its handler puts zeros in the place of the mapping instead, and the access goes on.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::sys;

/// Mappings that are known at a time: a process writes one, a tool reads some.
const MAPPINGS_MAX: usize = 64;
/// Beside the length in `bytes`: the mapping is writable.
const WRITABLE: usize = 1;

/// A mapped file; `base` is 0 where there is none, and is stored last.
struct Place {
    base: AtomicUsize,
    /// The length, shifted by one.
    bytes: AtomicUsize,
}

static PLACES: [Place; MAPPINGS_MAX] = [const {
    Place {
        base: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
    }
}; MAPPINGS_MAX];

/// A place is being filled in.
const TAKEN: usize = 1;

/// Takes note of a mapping. One too many is not protected.
pub(super) fn protect(base: NonNull<u8>, bytes: usize, writable: bool) {
    let free = |place: &&Place| {
        let taken = place
            .base
            .compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    };
    if let Some(place) = PLACES.iter().find(free) {
        let kind = if writable { WRITABLE } else { 0 };
        place.bytes.store(bytes << 1 | kind, Ordering::Relaxed);
        place
            .base
            .store(base.as_ptr().expose_provenance(), Ordering::Release);
    }
}

/// The mapping is about to end.
pub(super) fn forget(base: NonNull<u8>) {
    let known = |place: &&Place| place.base.load(Ordering::Relaxed) == base.addr().get();
    if let Some(place) = PLACES.iter().find(known) {
        place.base.store(0, Ordering::Release);
    }
}

/// For a handler of `SIGBUS`: whether the address lies in a file that this crate has mapped, and
/// the access can be repeated now. What was counted is lost to readers. Async-signal-safe.
pub fn survive_truncation(address: usize) -> bool {
    PLACES.iter().any(|place| {
        let base = place.base.load(Ordering::Acquire);
        let packed = place.bytes.load(Ordering::Relaxed);
        let bytes = packed >> 1;
        base > TAKEN
            && address
                .checked_sub(base)
                .is_some_and(|offset| offset < bytes)
            && sys::map_zeros_over(base, bytes, packed & WRITABLE != 0)
    })
}

/// Has this process survive files that are truncated while it reads them, for programs of one's
/// own: it installs a handler for `SIGBUS`.
///
/// # Errors
/// The system has refused the handler.
pub fn survive_truncations() -> io::Result<()> {
    sys::handle_bus_errors(survive_truncation)
}
