//! What is said when the library starts.

use std::ffi::CStr;
use std::ptr;

use libc::c_int;
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
    // Not by strftime(3), which looks at TZ, where another thread may be in setenv(3).
    let name = |names: &[&'static str], number: c_int| {
        let number = usize::try_from(number).ok()?;
        names.get(number).copied()
    };
    let (day, month) = (name(&DAYS, parts.tm_wday)?, name(&MONTHS, parts.tm_mon)?);
    let (hour, minute, second) = (parts.tm_hour, parts.tm_min, parts.tm_sec);
    let year = parts.tm_year.saturating_add(1900);
    let text = format!(
        "{day} {month} {:>2} {hour:02}:{minute:02}:{second:02} {year}",
        parts.tm_mday
    );
    (!known.is_null()).then_some(text)
}

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

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
