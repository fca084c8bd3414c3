//! What a device does not survive, nor a test.

/// Says what was done wrong, and ends the process.
pub(crate) fn violation(what: &str) -> ! {
    let line = format!("emulated-verbs: VIOLATION: {what}\n");
    crate::sys::write(2, line.as_bytes());
    std::process::abort();
}
