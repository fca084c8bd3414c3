//! The memory that frames live in: one anonymous mapping, cut into chunks of equal size.

use std::io;
use std::ptr::NonNull;

use vma_config::MemoryKind;

/// Takes the pages of a mapping: where a control group limits huge pages, that is when they are
/// refused, and without this call by `SIGBUS`. Unmaps what cannot be had.
fn populate(address: *mut libc::c_void, len_bytes: usize) -> io::Result<()> {
    // SAFETY: the range is a mapping that nobody else knows yet.
    if unsafe { libc::madvise(address, len_bytes, libc::MADV_POPULATE_WRITE) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EINVAL) {
        // Before Linux 5.14.
        return Ok(());
    }
    // SAFETY: as above.
    unsafe { libc::munmap(address, len_bytes.next_multiple_of(HUGE_PAGE_BYTES)) };
    Err(error)
}

/// A function of the program's that allocates memory, as `malloc(3)` does.
pub type Allocate = unsafe extern "C" fn(usize) -> *mut libc::c_void;

/// What devices have chunks in.
const PAGE_BYTES: usize = 4096;

/// Size of a huge page.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Page-aligned memory shared with devices. It is never unmapped while the process lives, because a
/// device may still write to it.
#[derive(Debug)]
pub struct FrameMemory {
    base: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the mapping is plain memory; who may touch which part is decided by the frame tokens of
// the pool.
unsafe impl Send for FrameMemory {}
// SAFETY: as above: `&FrameMemory` alone gives no access to the bytes.
unsafe impl Sync for FrameMemory {}

impl FrameMemory {
    /// Maps `len_bytes` of zeroed memory. A forked child does not get it: pages that a device has
    /// pinned would have to be copied at fork, and the child has no use for them.
    ///
    /// # Errors
    /// The system refused, for [`MemoryKind::HugePages`] usually because too few are reserved
    /// (`/proc/sys/vm/nr_hugepages`).
    pub fn map(len_bytes: usize, pages: MemoryKind) -> io::Result<Self> {
        let huge = match pages {
            MemoryKind::HugePages => libc::MAP_HUGETLB | libc::MAP_HUGE_2MB,
            MemoryKind::Ordinary | MemoryKind::Contiguous => 0,
        };
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing
        // memory.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | huge,
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
        match pages {
            MemoryKind::Ordinary => {}
            MemoryKind::Contiguous => {
                // Advice that is not taken costs speed only.
                // SAFETY: as above.
                unsafe { libc::madvise(address, len_bytes, libc::MADV_HUGEPAGE) };
            }
            MemoryKind::HugePages => populate(address, len_bytes)?,
        }
        let base = NonNull::new(address.cast::<u8>())
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { base, len_bytes })
    }

    /// Memory of the program's, of which `allocate` gives at least as many bytes as it is asked
    /// for. It is used as long as the process lives.
    ///
    /// # Errors
    /// It gives none (`ENOMEM`).
    ///
    /// # Safety
    /// What `allocate` gives must be nobody else's, and stay where it is.
    pub unsafe fn of_program(len_bytes: usize, allocate: Allocate) -> io::Result<Self> {
        let out_of_memory = || io::Error::from_raw_os_error(libc::ENOMEM);
        let with_room = len_bytes
            .checked_add(PAGE_BYTES)
            .ok_or_else(out_of_memory)?;
        // SAFETY: the program's own function.
        let given = NonNull::new(unsafe { allocate(with_room) }).ok_or_else(out_of_memory)?;
        let given = given.as_ptr().cast::<u8>();
        let base = given.wrapping_add(given.align_offset(PAGE_BYTES));
        let base = NonNull::new(base).ok_or_else(out_of_memory)?;
        Ok(Self { base, len_bytes })
    }

    /// Takes all pages now, as registration with a device does. What cannot be had now is not
    /// missed before that.
    pub fn populate(&self) {
        let (address, len) = (self.base.as_ptr().cast(), self.len_bytes);
        // SAFETY: the range is the mapping, and its contents stay as they are.
        unsafe { libc::madvise(address, len, libc::MADV_POPULATE_WRITE) };
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
