//! Functions of the C library that start a program by themselves: neither a fork nor an exec of
//! theirs is seen.

use libc::{FILE, c_char, c_int, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};

use super::define::hook;
use super::program::{Program, Strings, can_ask, own_environment};
use crate::guard::contained;
use crate::{process_state, real, runtime, started_with};

/// A program is about to be started.
fn starting(program: Program, environment: Strings) {
    // SAFETY: the arguments are the caller's own.
    let can_ask = || unsafe { can_ask(program, environment) };
    if let Some(engine) = process_state::engine() {
        let _ = contained(|| engine.program_starts(can_ask));
    }
    if runtime::has_ancestors() {
        let _ = contained(|| {
            for engine in process_state::ancestors() {
                engine.descendant_executes(can_ask);
            }
        });
        started_with::are_inherited(|| contained(can_ask).unwrap_or(true));
    }
}

hook! {
    /// `posix_spawn(3)`
    fn posix_spawn(
        pid: *mut pid_t,
        path: *const c_char,
        actions: *const posix_spawn_file_actions_t,
        attributes: *const posix_spawnattr_t,
        arguments: Strings,
        environment: Strings,
    ) -> c_int {
        starting(Program::Path(path), environment);
        // SAFETY: the arguments are the caller's own.
        unsafe { real::posix_spawn(pid, path, actions, attributes, arguments, environment) }
    }
}

hook! {
    /// `posix_spawnp(3)`
    fn posix_spawnp(
        pid: *mut pid_t,
        file: *const c_char,
        actions: *const posix_spawn_file_actions_t,
        attributes: *const posix_spawnattr_t,
        arguments: Strings,
        environment: Strings,
    ) -> c_int {
        starting(Program::Searched(file), environment);
        // SAFETY: the arguments are the caller's own.
        unsafe { real::posix_spawnp(pid, file, actions, attributes, arguments, environment) }
    }
}

const SHELL: Program = Program::Path(c"/bin/sh".as_ptr());

hook! {
    /// `system(3)`
    fn system(command: *const c_char) -> c_int {
        if !command.is_null() {
            starting(SHELL, own_environment());
        }
        // SAFETY: the argument is the caller's own.
        unsafe { real::system(command) }
    }
}

hook! {
    /// `popen(3)`
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
        starting(SHELL, own_environment());
        // SAFETY: the arguments are the caller's own.
        unsafe { real::popen(command, mode) }
    }
}
