//! `dprintf(3)` takes what it prints as arguments of its own. Rust cannot define such functions, so
//! a few instructions do what the C compiler does at the beginning of one: they put the registers
//! where a list of arguments finds them, and make the list (System V ABI, AMD64 supplement, 3.5.7).

use std::arch::naked_asm;

use libc::{c_char, c_int, c_void};

macro_rules! with_list {
    ($(#[$doc:meta])* $name:ident: $named_bytes:literal, $list:literal => $target:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// That of the C library's function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(unreachable_pub, reason = "exported by its C name")]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "lea r11, [rsp + 8]",
                // The list, and from 32 on the registers. Aligned for the call.
                "sub rsp, 216",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                // Where the next argument is among the registers, of either kind, on the stack, and
                // where the registers are.
                concat!("mov dword ptr [rsp], ", $named_bytes),
                "mov dword ptr [rsp + 4], 48",
                "mov [rsp + 8], r11",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $list, ", rsp"),
                "call {target}",
                "add rsp, 216",
                "ret",
                target = sym $target,
            )
        }
    };
}

with_list!(
    /// `dprintf(3)`
    dprintf: 16, "rdx" => print
);
with_list!(
    /// `dprintf(3)` with `_FORTIFY_SOURCE`
    __dprintf_chk: 24, "rcx" => print_checked
);

/// # Safety
/// That of `vdprintf(3)`.
unsafe extern "C" fn print(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { super::vdprintf(fd, format, list) }
}

/// # Safety
/// As [`print()`].
unsafe extern "C" fn print_checked(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { super::__vdprintf_chk(fd, flag, format, list) }
}
