//! Where the library's own code is: calls are told by the address that they return to.

use std::sync::atomic::{AtomicUsize, Ordering};

use libc::c_int;

static FIRST: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicUsize = AtomicUsize::new(0);

/// Looks where it is, at the process's beginning.
pub(crate) fn look() {
    /// `PT_LOAD`, `PF_X`
    const LOADED: u32 = 1;
    const IS_CODE: u32 = 1;
    unsafe extern "C" fn object(
        object: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        _data: *mut libc::c_void,
    ) -> c_int {
        let here = look as *const () as usize;
        // SAFETY: the dynamic linker's own.
        let object = unsafe { object.read() };
        for index in 0..usize::from(object.dlpi_phnum) {
            let part = object.dlpi_phdr.wrapping_add(index);
            // SAFETY: there are as many.
            let part = unsafe { part.read() };
            let first = (object.dlpi_addr as usize).wrapping_add(part.p_vaddr as usize);
            let last = first.wrapping_add(part.p_memsz as usize);
            if part.p_type == LOADED && part.p_flags & IS_CODE != 0 && (first..last).contains(&here)
            {
                FIRST.store(first, Ordering::Relaxed);
                LAST.store(last, Ordering::Release);
                return 1;
            }
        }
        0
    }
    // SAFETY: the function is of the type that is asked for.
    unsafe { libc::dl_iterate_phdr(Some(object), std::ptr::null_mut()) };
}

/// Whether an address is not in it. Of none that is known before [`look`].
#[inline]
pub(crate) fn is_outside(address: usize) -> bool {
    let last = LAST.load(Ordering::Acquire);
    last != 0 && !(FIRST.load(Ordering::Relaxed)..last).contains(&address)
}
