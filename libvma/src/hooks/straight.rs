//! System calls straight to the kernel, past the hooks.

use std::arch::naked_asm;

use libc::{c_int, c_long, c_uint, c_void};

use crate::guard;

/// A system call (System V ABI, AMD64 supplement, A.2.1).
///
/// # Safety
/// That of the system call of this number.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn straight(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
) -> c_long {
    naked_asm!(
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "mov rdi, rax",
        "jmp {failed}",
        failed = sym failed,
    )
}

/// `straight` with the arguments of other system calls.
macro_rules! straight_calls {
    ($($name:ident = $number:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// # Safety
            /// That of the system call.
            pub(super) unsafe fn $name($($argument: $type),*) -> c_long {
                type Call = unsafe extern "C" fn(c_long, $($type),*) -> c_long;
                type Straight = unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
                // SAFETY: it passes on as many arguments as it is called with, by registers and the
                // stack, up to six.
                let call = unsafe { std::mem::transmute::<Straight, Call>(straight) };
                // SAFETY: the caller's promise.
                unsafe { call(libc::$number, $($argument),*) }
            }
        )*
    };
}
straight_calls! {
    setup_straight = SYS_io_uring_setup(entries: c_uint, parameters: *mut c_void);
    enter_straight = SYS_io_uring_enter(
        fd: c_uint, submitted: c_uint, wanted: c_uint, flags: c_uint, argument: *const c_void, len: usize
    );
    register_straight = SYS_io_uring_register(
        fd: c_uint, what: c_uint, argument: *mut c_void, count: c_uint
    );
}

/// What the kernel returns of a call that fails is the error's number, negative.
extern "C" fn failed(result: c_long) -> c_long {
    guard::set_errno(c_int::try_from(-result).unwrap_or(libc::EINVAL));
    -1
}
