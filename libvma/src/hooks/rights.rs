//! Calls with which programs give up rights.

use engine::user_memory::is_readable;
use engine::{Reason, RightsChange, UNCHANGED_USER, Whose};
use libc::{c_int, c_long, c_ulong, c_void, uid_t};

use super::define::hook;
use super::filter;
use super::numbers::is_own;
use crate::guard::{contained, fail};
use crate::{adoption, filters, process_state, real};

/// Makes a call that changes what the program may do. What takes the rights that go with it is done
/// before.
fn changing(
    change: Option<RightsChange>,
    whose: Whose,
    name: &'static str,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let Some(change) = change else {
        return call();
    };
    let Some(engine) = process_state::engine() else {
        adoption::before_rights_change(&change);
        return call();
    };
    let went = contained(|| engine.before_rights_change(&change, whose, name)).unwrap_or(false);
    let result = call();
    let _ = contained(|| engine.after_rights_change(went, whose, result != 0));
    result
}

hook! {
    /// `setuid(2)`
    fn setuid(user: uid_t) -> c_int {
        let change = RightsChange::User(user);
        // SAFETY: an integer.
        changing(Some(change), Whose::EveryThreads, "setuid", || unsafe { real::setuid(user) })
    }
}

hook! {
    /// `seteuid(3)`
    fn seteuid(user: uid_t) -> c_int {
        let change = RightsChange::Users([UNCHANGED_USER, user, UNCHANGED_USER]);
        // SAFETY: an integer.
        changing(Some(change), Whose::EveryThreads, "seteuid", || unsafe { real::seteuid(user) })
    }
}

hook! {
    /// `setreuid(2)`
    fn setreuid(real: uid_t, effective: uid_t) -> c_int {
        let change = RightsChange::RealAndEffective(real, effective);
        changing(Some(change), Whose::EveryThreads, "setreuid", || {
            // SAFETY: integers.
            unsafe { real::setreuid(real, effective) }
        })
    }
}

hook! {
    /// `setresuid(2)`
    fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int {
        let change = RightsChange::Users([real, effective, saved]);
        changing(Some(change), Whose::EveryThreads, "setresuid", || {
            // SAFETY: integers.
            unsafe { real::setresuid(real, effective, saved) }
        })
    }
}

hook! {
    /// `capset(2)`
    fn capset(header: *mut c_void, sets: *const c_void) -> c_int {
        // SAFETY: what the pointers lead to is the caller's own.
        let change = unsafe { capabilities(header, sets) };
        changing(change, Whose::ThreadsOwn, "capset", || {
            // SAFETY: the arguments are the caller's own.
            unsafe { real::capset(header, sets) }
        })
    }
}

/// What `capset(2)` is asked for. `None`: it will fail, or asks how the sets are to be written.
///
/// # Safety
/// What the pointers lead to must be the program's own.
unsafe fn capabilities(header: *const c_void, sets: *const c_void) -> Option<RightsChange> {
    /// `_LINUX_CAPABILITY_VERSION_1` of include/uapi/linux/capability.h: sets of 32 bits, in one
    /// part.
    const VERSION_1: u32 = 0x1998_0330;
    const VERSION_2: u32 = 0x2007_1026;
    const VERSION_3: u32 = 0x2008_0522;
    /// The sets of a part: effective, permitted, inheritable.
    type Part = [u32; 3];
    if !is_readable(header, size_of::<u32>()) {
        return None;
    }
    // SAFETY: readable (checked above), and the program's own.
    let parts = match unsafe { header.cast::<u32>().read_unaligned() } {
        VERSION_1 => 1,
        VERSION_2 | VERSION_3 => 2,
        _ => return None,
    };
    if !is_readable(sets, parts * size_of::<Part>()) {
        return None;
    }
    let part = |index: usize| {
        let at = sets.cast::<Part>().wrapping_add(index);
        // SAFETY: readable (checked above), and the program's own.
        unsafe { at.read_unaligned() }
    };
    let high = if parts == 2 { part(1) } else { [0; 3] };
    let low = part(0);
    let set = |index: usize| u64::from(high[index]) << 32 | u64::from(low[index]);
    Some(RightsChange::Capabilities {
        effective: set(0),
        permitted: set(1),
        inheritable: set(2),
    })
}

/// The same calls by number, of which other threads do not know.
///
/// # Safety
/// That of the system call of this number. `straight` makes it.
pub(super) unsafe fn by_number(
    number: c_long,
    arguments: [c_long; 5],
    straight: impl FnOnce() -> c_long,
) -> c_long {
    if matches!(number, libc::SYS_prctl | libc::SYS_seccomp) {
        // SAFETY: the caller's promise.
        unsafe { filter::by_number(number, arguments) };
        return straight();
    }
    match number {
        libc::SYS_unshare => {
            leaves_namespaces(arguments[0] as c_int, "unshare");
            return straight();
        }
        libc::SYS_setns => {
            enters_namespace(arguments[0] as c_int, arguments[1] as c_int);
            return straight();
        }
        _ => {}
    }
    // The kernel takes no more of them.
    let user = |index: usize| arguments[index] as uid_t;
    let pointer = |index: usize| arguments[index] as *const c_void;
    let (change, name) = match number {
        libc::SYS_setuid => (Some(RightsChange::User(user(0))), "setuid"),
        libc::SYS_setreuid => (
            Some(RightsChange::RealAndEffective(user(0), user(1))),
            "setreuid",
        ),
        libc::SYS_setresuid => (
            Some(RightsChange::Users([user(0), user(1), user(2)])),
            "setresuid",
        ),
        libc::SYS_capset => {
            // SAFETY: what the pointers lead to is the caller's own.
            (unsafe { capabilities(pointer(0), pointer(1)) }, "capset")
        }
        _ => (None, ""),
    };
    changing(change, Whose::ThreadsOwn, name, || straight() as c_int).into()
}

hook! {
    /// `unshare(2)`
    fn unshare(flags: c_int) -> c_int {
        leaves_namespaces(flags, "unshare");
        // SAFETY: an integer.
        unsafe { real::unshare(flags) }
    }
}

hook! {
    /// `setns(2)`
    fn setns(fd: c_int, kind: c_int) -> c_int {
        if is_own(fd) {
            return fail(libc::EBADF);
        }
        enters_namespace(fd, kind);
        // SAFETY: integers.
        unsafe { real::setns(fd, kind) }
    }
}

/// A user namespace takes a process of one thread, and gives rights in itself only.
fn leaves_namespaces(kinds: c_int, call: &'static str) {
    if kinds & libc::CLONE_NEWUSER != 0 && process_state::engine().is_some() {
        let _ = contained(|| filters::retire(Reason::UserNamespace, call));
    }
}

fn enters_namespace(fd: c_int, kind: c_int) {
    /// linux/nsfs.h
    const NS_GET_NSTYPE: c_ulong = 0xb703;
    if process_state::engine().is_none() {
        return;
    }
    let kind = match kind {
        // SAFETY: the request takes no argument.
        0 => unsafe { libc::syscall(libc::SYS_ioctl, fd, NS_GET_NSTYPE) as c_int },
        kind => kind,
    };
    leaves_namespaces(kind.max(0), "setns");
}
