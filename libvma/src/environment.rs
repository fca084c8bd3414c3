//! The library's variables as they were when the process began. They are read before the program
//! can change them: while the first socket is made, another thread may be in `setenv(3)`.

use std::ffi::{CStr, OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

const PREFIX: &[u8] = b"VMA_";

type Variables = Vec<(OsString, OsString)>;

static VARIABLES: OnceLock<Variables> = OnceLock::new();

unsafe extern "C" {
    /// environ(7)
    static environ: *const *const c_char;
    /// tzset(3)
    fn tzset();
}

/// Takes note of the variables, once. A program without any pays for a look at each name. Before
/// the C library knows them there is nothing to take note of.
pub(crate) fn process_starts() {
    if VARIABLES.get().is_some() {
        return;
    }
    // SAFETY: the C library's variable; no other thread runs so early that could change it.
    let first = unsafe { environ };
    if !first.is_null() {
        // SAFETY: as above; a list of strings that ends with a null pointer.
        VARIABLES.get_or_init(|| unsafe { read(first) });
        if has("VMA_TRACELEVEL") {
            // The banner may show the local time, and with it the C library look at TZ for the
            // first time. SAFETY: as above.
            unsafe { tzset() };
        }
    }
}

/// Name and value of each. A program that has more rights than its caller (set-user-ID) takes none
/// from the caller, who could have it write files of its choice.
pub(crate) fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    process_starts();
    VARIABLES.get().into_iter().flatten().cloned()
}

/// Whether there is a variable of this name.
pub(crate) fn has(name: &str) -> bool {
    let variables = VARIABLES.get().map(Vec::as_slice).unwrap_or_default();
    variables.iter().any(|(known, _)| known == name)
}

/// # Safety
/// `place` must point at a list of strings that ends with a null pointer.
unsafe fn read(mut place: *const *const c_char) -> Variables {
    let mut variables = Vec::new();
    // SAFETY: no preconditions.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return variables;
    }
    loop {
        // SAFETY: the list has not ended before (the caller's promise).
        let text = unsafe { place.read() };
        if text.is_null() {
            return variables;
        }
        // SAFETY: a string of the list.
        variables.extend(unsafe { variable(text) });
        // SAFETY: the list goes on behind an entry that is not null.
        place = unsafe { place.add(1) };
    }
}

/// One of the library's.
///
/// # Safety
/// `text` must be a string that ends with a null byte.
unsafe fn variable(text: *const c_char) -> Option<(OsString, OsString)> {
    // SAFETY: the caller's promise; most names differ in their first letters already.
    let begins_otherwise = unsafe { libc::strncmp(text, c"VMA_".as_ptr(), PREFIX.len()) } != 0;
    if begins_otherwise {
        return None;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    let end = text.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (text.get(..end)?, text.get(end + 1..)?);
    let owned = |bytes| OsStr::from_bytes(bytes).to_owned();
    Some((owned(name), owned(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_library_s_variables_are_read() {
        let list = [
            c"PATH=/bin",
            c"VMA_SPEC=latency",
            c"VMA",
            c"VMA_",
            c"VMA_X=",
            c"XVMA_Y=1",
            c"VMA_LOG_FILE=a=b",
        ];
        let mut pointers: Vec<_> = list.iter().map(|text| text.as_ptr()).collect();
        pointers.push(std::ptr::null());
        // SAFETY: the list ends with a null pointer.
        let read = unsafe { read(pointers.as_ptr()) };
        let expected = [
            ("VMA_SPEC", "latency"),
            ("VMA_X", ""),
            ("VMA_LOG_FILE", "a=b"),
        ];
        assert_eq!(
            read,
            expected.map(|(name, value)| (name.into(), value.into()))
        );
    }
}
