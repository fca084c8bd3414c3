//! System calls that the library can do without, where a filter of the program's (seccomp(2))
//! forbids them.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_long;

/// A bit for each number.
static FORBIDDEN: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

fn place(number: c_long) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(number).ok()?;
    Some((FORBIDDEN.get(number / 64)?, 1 << (number % 64)))
}

/// A call is not made any more, by its number.
pub fn do_without(number: c_long) {
    if let Some((word, bit)) = place(number) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// Whether a call may be made.
pub fn may_call(number: c_long) -> bool {
    place(number).is_none_or(|(word, bit)| word.load(Ordering::Relaxed) & bit == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_is_known_by_its_number() {
        // One that the library does not make.
        assert!(may_call(libc::SYS_acct) && may_call(libc::SYS_getrusage));
        do_without(libc::SYS_acct);
        do_without(-1);
        do_without(512);
        assert!(!may_call(libc::SYS_acct) && may_call(libc::SYS_getrusage));
    }
}
