//! `VMA_HANDLE_SIGSEGV`: a crash leaves a backtrace in the log, then ends the process as it would
//! have.
//!
//! The handler allocates nothing. It walks the stack with the C library's `backtrace(3)`, which was
//! called once before so that its unwinder is loaded, and names functions with `dladdr(3)`. Should
//! it crash itself, the kernel ends the process at once: the signal is blocked, and its default
//! action in force.

use std::ffi::{CStr, c_char};
use std::fmt::{self, Write};
use std::ptr;

use libc::{c_int, c_void, siginfo_t};
use vma_config::LogLevel;

use super::{death, stand_in};
use crate::log_sink;

/// Frames that are shown.
const FRAMES_MAX: usize = 48;
const TEXT_BYTES_MAX: usize = 400;

/// Installs the handler where the program has none.
pub(crate) fn log_backtraces() {
    let mut frame = ptr::null_mut();
    // SAFETY: room for one address.
    unsafe { libc::backtrace(&raw mut frame, 1) };
    stand_in::install(libc::SIGSEGV, crashed);
}

extern "C" fn crashed(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes it for a handler installed with SA_SIGINFO, as this one is.
    if let Some(information) = unsafe { info.as_ref() } {
        say(|text| say_cause(text, information));
    }
    let mut frames = [ptr::null_mut(); FRAMES_MAX];
    // SAFETY: room for as many addresses as said.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES_MAX as c_int) };
    let frames = &frames[..usize::try_from(count).unwrap_or(0).min(FRAMES_MAX)];
    // The innermost frames are this handler's.
    // SAFETY: as above.
    let culprit = unsafe { program_counter(context) };
    let first = frames.iter().position(|frame| frame.addr() == culprit);
    for (number, frame) in frames[first.unwrap_or(0)..].iter().enumerate() {
        // A return address may be the first of the next function.
        let inside = frame.addr() - usize::from(number > 0 && !frame.is_null());
        say(|text| say_frame(text, number, frame.addr(), inside));
    }
    death::hand_over();
    // SAFETY: this is a signal handler.
    unsafe { stand_in::act_as_usual(signal, info) };
}

/// Where the thread was.
///
/// # Safety
/// `context` must be null or a signal handler's.
unsafe fn program_counter(context: *mut c_void) -> usize {
    // SAFETY: the caller's promise.
    let Some(context) = (unsafe { context.cast::<libc::ucontext_t>().as_ref() }) else {
        return 0;
    };
    #[cfg(target_arch = "x86_64")]
    let counter = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let counter = context.uc_mcontext.pc as usize;
    counter
}

fn say_cause(text: &mut Text, information: &siginfo_t) -> fmt::Result {
    const NOT_MAPPED: c_int = 1;
    const NOT_PERMITTED: c_int = 2;
    let code = information.si_code;
    if code <= 0 {
        // SAFETY: a signal that a process has sent carries its id.
        let sender = unsafe { information.si_pid() };
        return write!(text, "Segmentation fault: sent by process {sender}");
    }
    // SAFETY: a fault carries its address.
    let address = unsafe { information.si_addr() }.addr();
    let cause = match code {
        NOT_MAPPED => "not mapped",
        NOT_PERMITTED => "not permitted",
        _ => "see si_code",
    };
    write!(
        text,
        "Segmentation fault at address {address:#x} ({cause}, si_code {code}); backtrace:"
    )
}

fn say_frame(text: &mut Text, number: usize, address: usize, inside: usize) -> fmt::Result {
    write!(text, "#{number:<2} {address:#018x}")?;
    let mut found = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: any address may be asked for, and the struct is writable.
    if unsafe { libc::dladdr(ptr::without_provenance(inside), &raw mut found) } == 0 {
        return Ok(());
    }
    // SAFETY: the dynamic linker's own strings.
    if let Some(name) = unsafe { name(found.dli_sname) } {
        write!(
            text,
            " {name}+{:#x}",
            address.wrapping_sub(found.dli_saddr.addr())
        )?;
    }
    // SAFETY: as above.
    if let Some(object) = unsafe { name(found.dli_fname) } {
        write!(
            text,
            " ({object}+{:#x})",
            address.wrapping_sub(found.dli_fbase.addr())
        )?;
    }
    Ok(())
}

/// # Safety
/// `text` must be null or end with a null byte.
unsafe fn name(text: *const c_char) -> Option<impl fmt::Display> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(Name(unsafe { CStr::from_ptr(text) }))
}

/// Bytes that are mostly UTF-8.
struct Name<'a>(&'a CStr);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .to_bytes()
            .utf8_chunks()
            .try_for_each(|chunk| f.write_str(chunk.valid()))
    }
}

fn say(write: impl FnOnce(&mut Text) -> fmt::Result) {
    let mut text = Text {
        bytes: [0; TEXT_BYTES_MAX],
        len: 0,
    };
    // An error says only that it was cut.
    let _ = write(&mut text);
    let text = str::from_utf8(&text.bytes[..text.len]).unwrap_or("");
    log_sink::line_before_start(LogLevel::Panic, text);
}

/// Text that ends where its room does.
struct Text {
    bytes: [u8; TEXT_BYTES_MAX],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let end = self.len + character.len_utf8();
            let room = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
            character.encode_utf8(room);
            self.len = end;
        }
        Ok(())
    }
}
