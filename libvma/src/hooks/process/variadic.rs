//! `execl(3)` and its relatives take the new program's arguments as their own. Rust cannot define
//! such functions, so a few instructions make a vector of the arguments: five come in registers and
//! the others on the stack, above the return address (System V ABI, AMD64 supplement, 3.2.3). With
//! the return address out of the way, the registers pushed in its place lie right below the others.

use std::arch::naked_asm;

use libc::{c_char, c_int};

use super::{Strings, execv, execve, execvp};

macro_rules! with_vector {
    ($(#[$doc:meta])* $name:ident => $target:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// That of the C library's function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(unreachable_pub, reason = "exported by its C name")]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "pop r11",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                // The sixth push aligns the stack for the call.
                "push r11",
                "call {target}",
                "pop r11",
                "add rsp, 40",
                "push r11",
                "ret",
                target = sym $target,
            )
        }
    };
}

with_vector!(
    /// `execl(3)`
    execl => execv
);
with_vector!(
    /// `execlp(3)`
    execlp => execvp
);
with_vector!(
    /// `execle(3)`
    execle => execve_with_environment_behind
);

/// # Safety
/// `arguments` must end with a null pointer, with the environment's address behind it.
unsafe extern "C" fn execve_with_environment_behind(
    path: *const c_char,
    arguments: Strings,
) -> c_int {
    let mut end = arguments;
    // SAFETY: the caller's promise: the list has an end.
    while !unsafe { end.read() }.is_null() {
        // SAFETY: as above.
        end = unsafe { end.add(1) };
    }
    // SAFETY: as above.
    let behind = unsafe { end.add(1) };
    // SAFETY: the environment's address lies there.
    let environment = unsafe { behind.cast::<Strings>().read() };
    // SAFETY: the caller's promise is that of execle(3).
    unsafe { execve(path, arguments, environment) }
}
