//! Asking for memory before it is needed.

/// Asks the processor to fetch the cache line at `address`, which may be any: nothing is read, and
/// no time is waited.
///
/// Tens of lines can be under way at once, while a read that needs the result of another waits for
/// memory twice. On processors other than x86-64 and AArch64 this does nothing.
#[inline]
pub fn prefetch(address: *const u8) {
    hint!(address, _MM_HINT_T0, "prfm pldl1keep, [{}]");
}

/// The same into the second cache, for what is needed later: more lines can be under way. Those
/// that are too many are forgotten silently; Zen 5 keeps 30 for its first cache and 60 for its
/// second.
#[inline]
pub fn prefetch_early(address: *const u8) {
    hint!(address, _MM_HINT_T1, "prfm pldl2keep, [{}]");
}

/// The instruction with the hint of x86-64, or that of AArch64.
macro_rules! hint {
    ($address:expr, $x86_64:ident, $aarch64:literal) => {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use core::arch::x86_64::{$x86_64, _mm_prefetch};
            // SAFETY: the instruction is a hint: it reads nothing that a program can see and faults
            // on no address.
            unsafe { _mm_prefetch::<$x86_64>($address.cast()) };
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        // SAFETY: as above.
        unsafe {
            core::arch::asm!($aarch64, in(reg) $address, options(nostack, readonly, preserves_flags));
        }
        #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
        let _ = $address;
    };
}
use hint;
