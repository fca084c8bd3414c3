//! Signals by their numbers.

use libc::c_int;

/// As many places has a table of what is known of each.
pub(super) const SIGNALS: usize = 65;

/// A signal's place in such a table.
pub(super) fn index(signal: c_int) -> Option<usize> {
    usize::try_from(signal)
        .ok()
        .filter(|index| (1..SIGNALS).contains(index))
}
