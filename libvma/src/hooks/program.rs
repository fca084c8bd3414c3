//! Whether a program that is about to be started will have the library, and so can ask for sockets
//! that it inherits. Looked at only when there are some.

use std::ffi::{CStr, OsStr, c_char};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use engine::user_memory::is_readable;

use crate::guardian;

/// A list of strings with a null pointer at its end.
pub(super) type Strings = *const *const c_char;

unsafe extern "C" {
    /// environ(7)
    static environ: Strings;
}

/// The environment as it is now.
pub(super) fn own_environment() -> Strings {
    // SAFETY: the C library's variable, a pointer.
    unsafe { (&raw const environ).read() }
}

/// What is executed.
#[derive(Clone, Copy)]
pub(super) enum Program {
    Path(*const c_char),
    /// Searched for in `PATH`, unless it has a slash.
    Searched(*const c_char),
    /// A descriptor, or a place relative to one.
    Other,
}

/// # Safety
/// What the pointers lead to must be the program's own.
pub(super) unsafe fn can_ask(program: Program, environment: Strings) -> bool {
    // SAFETY: the caller's promise.
    let is_preloaded = unsafe { is_preloaded(environment) };
    is_preloaded && may_preload(program)
}

/// More than any variable or name here has.
const TEXT_MAX: usize = 1 << 16;
const PAGE: usize = 4096;

/// A string of the program's. `None`: it is not readable.
///
/// # Safety
/// It must be the program's own.
unsafe fn text<'t>(start: *const c_char) -> Option<&'t CStr> {
    for len in 0..TEXT_MAX {
        let at = start.wrapping_add(len);
        if (len == 0 || at.addr().is_multiple_of(PAGE)) && !is_readable(at, 1) {
            return None;
        }
        // SAFETY: readable (checked above).
        if unsafe { at.read() } == 0 {
            // SAFETY: readable up to the null byte.
            return Some(unsafe { CStr::from_ptr(start) });
        }
    }
    None
}

const VARIABLE: &[u8] = b"LD_PRELOAD=";

/// Whether the environment, with `name` for the library's file, preloads it.
///
/// # Safety
/// What the pointers lead to must be the program's own.
unsafe fn names_library(environment: Strings, name: &[u8]) -> bool {
    let mut place = environment;
    loop {
        if !is_readable(place, size_of::<*const c_char>()) {
            return false;
        }
        // SAFETY: readable (checked above), and the program's own.
        let entry = unsafe { place.read_unaligned() };
        if entry.is_null() {
            return false;
        }
        // SAFETY: the caller's promise.
        let Some(entry) = (unsafe { text(entry) }) else {
            return false;
        };
        if preloads(entry.to_bytes(), name) {
            return true;
        }
        place = place.wrapping_add(1);
    }
}

fn preloads(variable: &[u8], name: &[u8]) -> bool {
    let list = variable.strip_prefix(VARIABLE).unwrap_or_default();
    list.split(|byte| matches!(byte, b' ' | b':'))
        .any(|path| path.rsplit(|byte| *byte == b'/').next() == Some(name))
}

/// # Safety
/// What the pointers lead to must be the program's own.
unsafe fn is_preloaded(environment: Strings) -> bool {
    let Some(library) = guardian::library_file() else {
        return false;
    };
    let name = library.file_name().map(OsStr::as_bytes).unwrap_or_default();
    // SAFETY: the caller's promise.
    if unsafe { names_library(environment, name) } {
        return true;
    }
    // Where it is not by the variable that this process has the library, as with
    // /etc/ld.so.preload, others have it as well.
    fs::read("/proc/self/environ").is_ok_and(|all| {
        !all.split(|byte| *byte == 0)
            .any(|variable| preloads(variable, name))
    })
}

fn may_preload(program: Program) -> bool {
    // SAFETY: the program's own string, as `can_ask` says.
    let path =
        |start| unsafe { text(start) }.map(|text| Path::new(OsStr::from_bytes(text.to_bytes())));
    match program {
        Program::Path(start) => path(start).is_none_or(|path| is_dynamic(path, true)),
        Program::Searched(start) => path(start)
            .and_then(find)
            .is_none_or(|path| is_dynamic(&path, true)),
        Program::Other => false,
    }
}

/// As execvp(3) does.
fn find(file: &Path) -> Option<PathBuf> {
    if file.as_os_str().as_bytes().contains(&b'/') {
        return Some(file.to_owned());
    }
    let list = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&list)
        .map(|directory| directory.join(file))
        .find(|path| path.is_file())
}

/// Whether the dynamic linker starts the program, and heeds the variable. What cannot be executed
/// is nobody's concern.
fn is_dynamic(path: &Path, may_be_script: bool) -> bool {
    /// S_ISUID and S_ISGID
    const RAISES: u32 = 0o6000;
    let Ok(facts) = fs::metadata(path) else {
        return true;
    };
    let Ok(mut file) = File::open(path) else {
        return false;
    };
    if facts.permissions().mode() & RAISES != 0 || has_capabilities(path) {
        return false;
    }
    let mut head = Vec::new();
    if file
        .by_ref()
        .take(PAGE as u64)
        .read_to_end(&mut head)
        .is_err()
    {
        return false;
    }
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|word| !word.is_empty());
        let interpreter = words.next().unwrap_or_default();
        return may_be_script && is_dynamic(Path::new(OsStr::from_bytes(interpreter)), false);
    }
    has_interpreter(&head)
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability".as_ptr();
    // SAFETY: two strings, and no buffer: only the length is asked for.
    unsafe { libc::getxattr(path.as_ptr(), name, std::ptr::null_mut(), 0) > 0 }
}

/// Whether the beginning of an ELF file names a dynamic linker (elf(5), `PT_INTERP`).
fn has_interpreter(head: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let u16_at = |at: usize| Some(u16::from_le_bytes(*head.get(at..)?.first_chunk()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(*head.get(at..)?.first_chunk()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(*head.get(at..)?.first_chunk()?));
    // 64 bits, least significant octet first, as the library.
    if head.get(..6) != Some(b"\x7fELF\x02\x01") {
        return false;
    }
    let (Some(table), Some(size), Some(count)) = (u64_at(32), u16_at(54), u16_at(56)) else {
        return false;
    };
    (0..usize::from(count)).any(|index| {
        let offset = usize::try_from(table).unwrap_or(usize::MAX);
        let at = offset.saturating_add(index * usize::from(size));
        u32_at(at) == Some(PT_INTERP)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_the_library() {
        let name = b"libvma.so";
        for yes in [
            "LD_PRELOAD=libvma.so",
            "LD_PRELOAD=/usr/lib/libvma.so",
            "LD_PRELOAD=/a/other.so:/usr/lib/libvma.so",
            "LD_PRELOAD=/usr/lib/libvma.so /a/other.so",
        ] {
            assert!(preloads(yes.as_bytes(), name), "{yes}");
        }
        for no in [
            "LD_PRELOAD=",
            "LD_PRELOAD=/usr/lib/libvma.so.1",
            "LD_PRELOADX=libvma.so",
            "libvma.so",
        ] {
            assert!(!preloads(no.as_bytes(), name), "{no}");
        }
    }

    #[test]
    fn an_environment_is_read_as_far_as_it_can_be() {
        let name = b"libvma.so";
        let list = [
            c"A=b".as_ptr(),
            c"LD_PRELOAD=/x/libvma.so".as_ptr(),
            std::ptr::null(),
        ];
        // SAFETY: a list of strings that ends.
        assert!(unsafe { names_library(list.as_ptr(), name) });
        let bad = [
            c"A=b".as_ptr(),
            std::ptr::without_provenance(1),
            std::ptr::null(),
        ];
        // SAFETY: what is not readable is not read.
        assert!(unsafe { !names_library(bad.as_ptr(), name) });
        // SAFETY: as above.
        assert!(unsafe { !names_library(std::ptr::null(), name) });
    }

    #[test]
    fn programs_are_known_by_their_files() {
        assert!(is_dynamic(Path::new("/bin/sh"), true));
        // A script, and nothing at all.
        let script = std::env::temp_dir().join(format!("vmat-script-{}", std::process::id()));
        fs::write(&script, "#! /bin/sh -e\nexit\n").unwrap();
        assert!(is_dynamic(&script, true) && !is_dynamic(&script, false));
        assert!(is_dynamic(Path::new("/no/such/program"), true));
        fs::write(&script, "\x7fELF").unwrap();
        assert!(!is_dynamic(&script, true));
        fs::remove_file(&script).unwrap();
        assert!(find(Path::new("sh")).is_some_and(|path| is_dynamic(&path, true)));
    }
}
