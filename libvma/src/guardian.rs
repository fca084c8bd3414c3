//! A process that outlives this one by a moment and tells the peers of its connections, if it is
//! killed: `vmad --guard`, where no vmad runs. It has a memory, a session and descriptors of its
//! own, and init for a parent, so the program has no child that it does not know.

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use libc::c_int;

use crate::{filters, guard};

/// Where the statistics are that it reads. `None` as long as there is to be no guardian.
static STATISTICS: OnceLock<CString> = OnceLock::new();

/// What starts it needs little of a stack. Two of them run on it, one below the other.
const STACK_BYTES: usize = 64 << 10;
/// Where packages install it.
const INSTALLED: &CStr = c"/usr/sbin/vmad";

/// There is to be one when it is needed, which reads the statistics in this directory.
pub(crate) fn reads(directory: &Path) {
    if let Ok(directory) = CString::new(directory.as_os_str().as_bytes()) {
        let _ = STATISTICS.set(directory);
    }
}

/// Starts it. In the internal thread, which waits until it runs. Not under a filter of system
/// calls, which it would inherit.
pub(crate) fn start() {
    let Some(statistics) = STATISTICS.get().filter(|_| !adopts_orphans()) else {
        return;
    };
    if filters::is_any_in_force() {
        log::debug!("no guardian: it would inherit what the process may not call");
        return;
    }
    let errno = begin(statistics);
    if errno != 0 {
        log::debug!("no guardian: vmad cannot be started: errno {errno}");
    }
}

/// The first process of a PID namespace, with which all others end, and those that ask for it
/// (`PR_SET_CHILD_SUBREAPER`): the guardian would become a child of the program.
fn adopts_orphans() -> bool {
    let mut is_subreaper: c_int = 0;
    // SAFETY: the kernel writes one integer.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is_subreaper) };
    is_subreaper != 0 || stats::process_id() == 1
}

/// All that the processes on the way need, which share this memory.
struct Plan {
    /// Those that may be there.
    programs: [*const c_char; 2],
    arguments: [*const c_char; 6],
    /// Below it is room for the second one.
    second_stack: *mut c_void,
    /// Why it was not started.
    errno: c_int,
}

/// Returns an errno.
fn begin(statistics: &CStr) -> c_int {
    let beside = beside_library();
    let (Ok(pid), Ok(directory)) = (
        CString::new(format!("--guard={}", stats::process_id())),
        CString::new([b"--stats-dir=", statistics.to_bytes()].concat()),
    ) else {
        return libc::EINVAL;
    };
    let mut stack = vec![0_u128; STACK_BYTES / size_of::<u128>()];
    let top = stack.as_mut_ptr_range();
    let beside = beside.as_ref().map_or(ptr::null(), |it| it.as_ptr());
    let mut plan = Plan {
        programs: [beside, INSTALLED.as_ptr()],
        arguments: [
            c"vmad".as_ptr(),
            pid.as_ptr(),
            directory.as_ptr(),
            c"--verbose=0".as_ptr(),
            ptr::null(),
            ptr::null(),
        ],
        // SAFETY: the middle of the stack.
        second_stack: unsafe { top.start.add(stack.len() / 2) }.cast(),
        errno: 0,
    };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    let argument = (&raw mut plan).cast();
    // SAFETY: the stack's upper half is the process's, and this thread goes on when that has ended.
    let first = unsafe { libc::clone(be_forgotten, top.end.cast(), flags, argument) };
    if first < 0 {
        return guard::errno();
    }
    // It is no child that other calls find, and its end sends no signal.
    // SAFETY: no status is written.
    while unsafe { libc::waitpid(first, ptr::null_mut(), libc::__WCLONE) } < 0
        && guard::errno() == libc::EINTR
    {}
    plan.errno
}

/// The first of the processes: its child is nobody's when it has ended.
extern "C" fn be_forgotten(plan: *mut c_void) -> c_int {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: `begin` waits until both are done with it.
    let of = unsafe { &mut *plan.cast::<Plan>() };
    // Both are without the program's descriptors: it may end at any time, and its interfaces with
    // it. Before Linux 5.9 they would keep what it closes. SAFETY: integers, and descriptors of
    // this process only.
    if unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) } != 0 {
        of.errno = guard::errno();
        // SAFETY: ends this process only.
        unsafe { libc::syscall(libc::SYS_exit_group, 1) };
    }
    // SAFETY: the stack's lower half is the process's, and this one goes on when that runs another
    // program or has ended.
    if unsafe { libc::clone(become_guardian, of.second_stack, flags, plan) } < 0 {
        of.errno = guard::errno();
    }
    // SAFETY: ends this process only, without its parent's handlers.
    unsafe { libc::syscall(libc::SYS_exit_group, 0) };
    0
}

/// The second one.
extern "C" fn become_guardian(plan: *mut c_void) -> c_int {
    // SAFETY: `begin` waits until it runs another program, or has ended.
    let plan = unsafe { &mut *plan.cast::<Plan>() };
    let none = 0_u64;
    let environment = [ptr::null::<c_char>()];
    // SAFETY: it takes nothing.
    unsafe { libc::syscall(libc::SYS_setsid) };
    let nowhere = c"/dev/null".as_ptr();
    for _ in 0..3 {
        // SAFETY: a string that ends with a null.
        unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, nowhere, libc::O_RDWR) };
    }
    let (how, set, before) = (libc::SIG_SETMASK, &raw const none, ptr::null_mut::<u64>());
    // SAFETY: the kernel reads a set of eight octets.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, set, before, size_of::<u64>()) };
    let (arguments, environment) = (plan.arguments.as_ptr(), environment.as_ptr());
    for program in plan.programs.into_iter().filter(|it| !it.is_null()) {
        // SAFETY: strings and lists that end with a null.
        unsafe { libc::syscall(libc::SYS_execve, program, arguments, environment) };
    }
    plan.errno = guard::errno();
    // SAFETY: ends this process only.
    unsafe { libc::syscall(libc::SYS_exit_group, 1) };
    1
}

/// vmad in the library's own directory. `None` also if that is known by a relative name only, which
/// may mean another by now.
fn beside_library() -> Option<CString> {
    let library = library_file()?;
    let program = library
        .is_absolute()
        .then(|| library.with_file_name("vmad"))?;
    CString::new(program.as_os_str().as_bytes()).ok()
}

/// The library's own file, by the name that the dynamic linker has for it.
pub(crate) fn library_file() -> Option<&'static Path> {
    let mut found = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    let here: fn() -> Option<&'static Path> = library_file;
    // SAFETY: any address may be asked for, and the struct is writable.
    let known = unsafe { libc::dladdr(here as *const c_void, &raw mut found) } != 0;
    if !known || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the dynamic linker's own string, which lives as long as the library.
    let library = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(Path::new(std::ffi::OsStr::from_bytes(library.to_bytes())))
}
