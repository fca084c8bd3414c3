//! How a process ends, or becomes another program.

#[cfg(target_arch = "x86_64")]
mod variadic;

use libc::{c_char, c_int, posix_spawn_file_actions_t};

use super::define::hook;
use super::program::{Program, Strings, can_ask, own_environment};
use crate::guard::contained;
use crate::{process_end, process_state, real, runtime, started_with};

/// The program that `execute` starts finds in its sockets what waits for it in user space. If it
/// does not start, the sockets are accelerated again. In a child: what it inherits stays with the
/// process that has it, until the program asks for it, if that can.
fn executing(program: Program, environment: Strings, execute: impl FnOnce() -> c_int) -> c_int {
    let engine = process_state::engine();
    // SAFETY: the arguments are the caller's own.
    let can_ask = || unsafe { can_ask(program, environment) };
    if let Some(engine) = engine {
        let _ = contained(|| match process_state::is_vfork_child() {
            true => engine.program_starts(can_ask),
            false => engine.before_exec(),
        });
    }
    if runtime::has_ancestors() {
        let _ = contained(|| {
            for engine in process_state::ancestors() {
                engine.descendant_executes(can_ask);
            }
        });
        let can_ask = || contained(can_ask).unwrap_or(true);
        started_with::are_inherited(can_ask);
    }
    let result = execute();
    if let Some(engine) = engine {
        let _ = contained(|| engine.exec_failed());
    }
    result
}

hook! {
    /// `execve(2)`
    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
        // SAFETY: the arguments are the caller's own.
        executing(Program::Path(path), environment, || unsafe { real::execve(path, arguments, environment) })
    }
}

hook! {
    /// `execv(3)`
    fn execv(path: *const c_char, arguments: Strings) -> c_int {
        // SAFETY: the arguments are the caller's own.
        executing(Program::Path(path), own_environment(), || unsafe { real::execv(path, arguments) })
    }
}

hook! {
    /// `execvp(3)`
    fn execvp(file: *const c_char, arguments: Strings) -> c_int {
        // SAFETY: the arguments are the caller's own.
        executing(Program::Searched(file), own_environment(), || unsafe { real::execvp(file, arguments) })
    }
}

hook! {
    /// `execvpe(3)`
    fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int {
        // SAFETY: the arguments are the caller's own.
        executing(Program::Searched(file), environment, || unsafe { real::execvpe(file, arguments, environment) })
    }
}

hook! {
    /// `fexecve(3)`
    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int {
        // SAFETY: the arguments are the caller's own.
        executing(Program::Other, environment, || unsafe { real::fexecve(fd, arguments, environment) })
    }
}

hook! {
    /// `execveat(2)`
    fn execveat(
        directory: c_int,
        path: *const c_char,
        arguments: Strings,
        environment: Strings,
        flags: c_int,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own.
        executing(Program::Other, environment, || unsafe { real::execveat(directory, path, arguments, environment, flags) })
    }
}

hook! {
    /// `_exit(2)`: a parent that ends this way after `fork(2)` leaves its sockets to the child.
    fn _exit(status: c_int) -> ! {
        process_end::process_ends();
        // SAFETY: an integer.
        unsafe { real::_exit(status) }
    }
}

hook! {
    /// `_Exit(3)`
    #[allow(non_snake_case, reason = "the C library's name")]
    fn _Exit(status: c_int) -> ! {
        process_end::process_ends();
        // SAFETY: an integer.
        unsafe { real::_exit(status) }
    }
}

hook! {
    /// `daemon(3)`: the process forks and ends inside of the C library, and its child goes on with
    /// the sockets.
    fn daemon(stays_in_directory: c_int, keeps_streams: c_int) -> c_int {
        if let Some(engine) = process_state::engine() {
            let _ = contained(|| engine.leave_everything_to_kernel());
        }
        // SAFETY: integers.
        unsafe { real::daemon(stays_in_directory, keeps_streams) }
    }
}

hook! {
    /// `posix_spawn_file_actions_adddup2(3)`: the program that is to be started shall use the
    /// descriptor.
    fn posix_spawn_file_actions_adddup2(
        actions: *mut posix_spawn_file_actions_t,
        fd: c_int,
        new: c_int,
    ) -> c_int {
        runtime::recall(fd);
        if let Some(engine) = process_state::engine() && engine.look_up(fd).is_some() {
            let _ = contained(|| engine.descriptor_passed(fd));
        }
        // SAFETY: the arguments are the caller's own.
        unsafe { real::posix_spawn_file_actions_adddup2(actions, fd, new) }
    }
}
