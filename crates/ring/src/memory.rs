//! The memory that frames live in: one anonymous mapping, cut into chunks of equal size.

use std::io;
use std::ptr::NonNull;

/// Page-aligned memory shared with devices. It is never unmapped while the process lives, because a device may
/// still write to it.
#[derive(Debug)]
pub struct FrameMemory {
    base: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the mapping is plain memory; who may touch which part is decided by the frame tokens of the pool.
unsafe impl Send for FrameMemory {}
// SAFETY: as above: `&FrameMemory` alone gives no access to the bytes.
unsafe impl Sync for FrameMemory {}

impl FrameMemory {
    /// Maps `len_bytes` of zeroed memory. A forked child does not get it: pages that a device has pinned would
    /// have to be copied at fork, and the child has no use for them.
    pub fn map(len_bytes: usize) -> io::Result<Self> {
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A refusal costs fork its speed, nothing else.
        // SAFETY: the range is the mapping made above.
        unsafe { libc::madvise(address, len_bytes, libc::MADV_DONTFORK) };
        let base = NonNull::new(address.cast::<u8>())
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { base, len_bytes })
    }

    /// First byte, for registration with a device.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Size in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }
}
