//! Filters of system calls (seccomp(2)) and what they leave of the library. Those that the program
//! installs are seen as they come, and their programs are run here over the library's own calls:
//! what it can do without it does not call any more, and where more is missing everything is the
//! kernel's before the filter is in force.

mod calls;
mod inherited;
mod program;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use engine::Reason;
use engine::user_memory::is_readable;
use libc::{c_ushort, c_void};

use crate::guard::contained;
use crate::{process_state, runtime};
use calls::{CALLS, SystemCall, When};
use program::{Call, Instruction, Verdict};

/// A filter leaves too little for the library to work in this process and those that descend from
/// it.
static IS_OUT: AtomicBool = AtomicBool::new(false);
/// Filters that were seen on their way to the kernel.
static SEEN: AtomicU32 = AtomicU32::new(0);
/// One was there before the program.
static IS_INHERITED: AtomicBool = AtomicBool::new(false);

/// Whether the library may begin to work. Asked before it makes its first call.
pub(crate) fn may_start() -> bool {
    if IS_OUT.load(Ordering::Relaxed) {
        return false;
    }
    let unseen = inherited::count() > SEEN.load(Ordering::Relaxed);
    IS_INHERITED.fetch_or(unseen, Ordering::Relaxed);
    if unseen && let Some(call) = inherited::first_deadly() {
        log::info!(
            "nothing is accelerated: a filter of system calls, which was there before the program, forbids {}",
            name_of(call)
        );
        IS_OUT.store(true, Ordering::Relaxed);
        return false;
    }
    true
}

/// Whether the library is to stay out of the way of this process.
pub(crate) fn is_out() -> bool {
    IS_OUT.load(Ordering::Relaxed)
}

/// Whether any filter is in force, as far as the library knows.
pub(crate) fn is_any_in_force() -> bool {
    SEEN.load(Ordering::Relaxed) > 0 || IS_INHERITED.load(Ordering::Relaxed)
}

/// A filter's program is about to be installed, as `struct sock_fprog`.
///
/// # Safety
/// What the pointer leads to must be the program's own.
pub(crate) unsafe fn comes(program: *const c_void) {
    // SAFETY: the caller's promise.
    if let Some(instructions) = unsafe { read(program) } {
        SEEN.fetch_add(1, Ordering::Relaxed);
        judge(|call| {
            let call = Call {
                number: call.number as u32,
                // The kernel shows the address behind the instruction.
                instruction_pointer: comes as *const () as u64,
                arguments: call.arguments,
            };
            program::verdict(&instructions, &call).unwrap_or(Verdict::Allowed)
        });
    }
}

/// `SECCOMP_MODE_STRICT`: read, write and the end are left.
pub(crate) fn strict_mode_comes() {
    SEEN.fetch_add(1, Ordering::Relaxed);
    judge(|call| match call.number {
        libc::SYS_read | libc::SYS_write => Verdict::Allowed,
        _ => Verdict::Deadly,
    });
}

/// # Safety
/// What the pointer leads to must be the program's own.
unsafe fn read(program: *const c_void) -> Option<Vec<Instruction>> {
    /// `struct sock_fprog`
    #[repr(C)]
    struct Filter {
        len: c_ushort,
        instructions: *const Instruction,
    }
    if !is_readable(program, size_of::<Filter>()) {
        return None;
    }
    // SAFETY: readable (checked above), and the program's own.
    let filter = unsafe { program.cast::<Filter>().read_unaligned() };
    let count = usize::from(filter.len);
    if count == 0 || !is_readable(filter.instructions, count * size_of::<Instruction>()) {
        return None;
    }
    let instruction = |index| {
        let at = filter.instructions.wrapping_add(index);
        // SAFETY: as above.
        unsafe { at.read_unaligned() }
    };
    Some((0..count).map(instruction).collect())
}

/// What a filter makes of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// It works on.
    Works,
    /// It cannot work with this call missing.
    Ends(&'static SystemCall),
}

fn judge(verdict: impl Fn(&SystemCall) -> Verdict) {
    let _ = contained(|| {
        let is_at_work = process_state::engine().is_some() || runtime::has_ancestors();
        // It is asked about those only that can be done without.
        for call in CALLS {
            if verdict(call) != Verdict::Allowed {
                engine::do_without(call.number);
            }
        }
        if let Judgement::Ends(call) = judgement(is_at_work, &verdict) {
            retire(Reason::Filtered, name_of(call));
        }
    });
}

/// Where the library is at work a call that fails may be one with which a socket returns to the
/// kernel. Where it is not, what fails leaves sockets to the kernel from the beginning.
fn judgement(is_at_work: bool, verdict: impl Fn(&SystemCall) -> Verdict) -> Judgement {
    let is_missing = |call: &&SystemCall| match (call.when, verdict(call)) {
        (When::IfAllowed, _) | (_, Verdict::Allowed) => false,
        (When::AtFirst, Verdict::Deadly) => !is_at_work,
        (When::AtFirst, Verdict::Refused) => false,
        (When::Always, Verdict::Deadly) => true,
        (When::Always, Verdict::Refused) => is_at_work,
    };
    CALLS
        .iter()
        .find(is_missing)
        .map_or(Judgement::Works, Judgement::Ends)
}

fn name_of(call: &SystemCall) -> &'static str {
    call.name.strip_prefix("SYS_").unwrap_or(call.name)
}

/// The library leaves the process. To be called inside [`contained`].
pub(crate) fn retire(reason: Reason, about: &str) {
    if process_state::is_vfork_child() || IS_OUT.swap(true, Ordering::Relaxed) {
        return;
    }
    log::debug!(
        "{} ({about}): everything is the kernel's from here on",
        reason.text()
    );
    runtime::everything_inherited_is_used();
    if let Some(engine) = process_state::engine() {
        engine.retire(reason, about);
    }
    process_state::retire();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Option<&'static SystemCall> {
        CALLS.iter().find(|call| name_of(call) == name)
    }

    fn ends(is_at_work: bool, missing: &str, as_verdict: Verdict) -> bool {
        assert!(named(missing).is_some(), "{missing}");
        let verdict = |call: &SystemCall| match name_of(call) == missing {
            true => as_verdict,
            false => Verdict::Allowed,
        };
        judgement(is_at_work, verdict) != Judgement::Works
    }

    #[test]
    fn what_is_missing_decides() {
        for (call, at_work, refused, deadly) in [
            ("bpf", true, true, true),
            ("bpf", false, false, true),
            ("clone3", true, false, false),
            ("clone3", false, false, true),
            ("getrusage", true, false, false),
            ("getrusage", false, false, false),
        ] {
            let seen = [Verdict::Refused, Verdict::Deadly].map(|it| ends(at_work, call, it));
            assert_eq!(seen, [refused, deadly], "{call}, at work: {at_work}");
        }
        assert!(!ends(true, "bpf", Verdict::Allowed));
    }

    #[test]
    fn calls_are_listed_once() {
        for call in CALLS {
            let same = CALLS.iter().filter(|it| it.number == call.number);
            assert_eq!(same.count(), 1, "{}", call.name);
        }
    }
}
