//! What orders memory as a device sees it. The fences of `std` are for other CPUs: on some machines
//! those are weaker.

/// What was written before is seen by the device before what is written after. x86 orders stores to
/// memory by itself; the compiler must, too.
#[inline]
pub(super) fn before_device() {
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: orders memory, nothing else.
    unsafe {
        core::arch::asm!("dmb oshst", options(nostack, preserves_flags));
    }
    std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
}

/// What was written to a doorbell leaves the CPU, and before what is written after: its page
/// combines writes.
#[inline]
pub(super) fn flush_doorbell() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: orders memory, nothing else.
    unsafe {
        core::arch::asm!("sfence", options(nostack, preserves_flags));
    }
    before_device();
}

/// What the device wrote before what was just read is there.
#[inline]
pub(super) fn after_device() {
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: orders memory, nothing else.
    unsafe {
        core::arch::asm!("dmb oshld", options(nostack, preserves_flags));
    }
    std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
}
