//! The bytes of the running kernel's types.

use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::slice;

/// Where the kernel shows its types: megabytes, of which little is looked at.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Bytes that are read where they are, or a copy.
#[derive(Debug)]
pub(super) enum Source {
    Mapped(Mapping),
    Copied(Vec<u8>),
}

impl Source {
    /// Those of the running kernel: mapped since Linux 6.16, before that read, a page at a time.
    pub(super) fn of_kernel() -> io::Result<Self> {
        let file = File::open(KERNEL_TYPES)?;
        match Mapping::of(&file) {
            Some(mapping) => Ok(Self::Mapped(mapping)),
            None => fs::read(KERNEL_TYPES).map(Self::Copied),
        }
    }
}

impl Deref for Source {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(mapping) => mapping.bytes(),
            Self::Copied(bytes) => bytes,
        }
    }
}

/// A read-only mapping of a file of sysfs.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: nobody writes to the bytes, and the mapping belongs to no thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `None`: the kernel does not map it, or it is not the kernel's. Such a file may be shortened,
    /// and reading on is `SIGBUS` then.
    fn of(file: &File) -> Option<Self> {
        let len = usize::try_from(file.metadata().ok()?.len()).ok()?;
        if !is_of_kernel(file) {
            return None;
        }
        // SAFETY: a mapping at an address of the kernel's choice touches no existing memory.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        let base = NonNull::new(address.cast::<u8>()).filter(|_| address != libc::MAP_FAILED)?;
        Some(Self { base, len })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is that long, lives as long as `self`, and the kernel does not change
        // the bytes.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping, which nobody borrows any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

fn is_of_kernel(file: &File) -> bool {
    // SAFETY: all-zero is a value of this struct of integers.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one statfs.
    let result = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut facts) };
    result == 0 && facts.f_type == libc::SYSFS_MAGIC
}
