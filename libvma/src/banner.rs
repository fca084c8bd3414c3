//! What is said when the library starts.

use std::ffi::CStr;
use std::ptr;

use vma_config::{BannerFacts, Config, LogLevel, SystemFacts};

use crate::log_sink;

/// Says which library this is and what its parameters are.
pub(crate) fn print_banner(config: &Config) {
    let argument = |argument: std::ffi::OsString| argument.to_string_lossy().into_owned();
    let facts = BannerFacts {
        version: concat!(env!("CARGO_PKG_VERSION"), "-1").to_owned(),
        build_date: env!("VMA_BUILD_DATE").to_owned(),
        is_development_snapshot: false,
        is_debug_build: cfg!(debug_assertions),
        git: option_env!("VMA_BUILD_GIT").map(str::to_owned),
        command_line: std::env::args_os()
            .map(argument)
            .collect::<Vec<_>>()
            .join(" "),
        pid: std::process::id(),
        current_time: current_time(),
        // Asking takes a program of its own; a preloaded library starts none.
        ofed_version: None,
        system: system_facts(),
    };
    for (level, line) in vma_config::banner(config, &facts) {
        if level <= LogLevel::MAX {
            log_sink::line(level, &line);
        }
    }
}

/// The local time as ctime(3) writes it.
fn current_time() -> Option<String> {
    // SAFETY: time takes a null pointer.
    let now = unsafe { libc::time(ptr::null_mut()) };
    // SAFETY: all-zero is a value of this struct of integers and a pointer that may be null.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid for the call.
    let known = unsafe { libc::localtime_r(&raw const now, &raw mut parts) };
    let mut text = [0_u8; 64];
    // SAFETY: the format ends with a null byte, and the buffer is writable for its length.
    let len = unsafe {
        libc::strftime(
            text.as_mut_ptr().cast(),
            text.len(),
            c"%a %b %e %H:%M:%S %Y".as_ptr(),
            &raw const parts,
        )
    };
    let text = str::from_utf8(&text[..len]).ok()?;
    (!known.is_null()).then(|| text.to_owned())
}

fn system_facts() -> Option<SystemFacts> {
    // SAFETY: all-zero is a value of this struct of characters.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the struct is writable.
    if unsafe { libc::uname(&raw mut names) } != 0 {
        return None;
    }
    // SAFETY: the kernel ends each of its texts with a null byte.
    let text = |field: &[libc::c_char]| unsafe { CStr::from_ptr(field.as_ptr()) };
    Some(SystemFacts {
        release: text(&names.release).to_string_lossy().into_owned(),
        machine: text(&names.machine).to_string_lossy().into_owned(),
        node: text(&names.nodename).to_string_lossy().into_owned(),
    })
}
