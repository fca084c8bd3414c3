//! `syscall(2)`: system calls by number. libuv closes descriptors so, sends and receives several
//! datagrams, and uses `io_uring`; of those the hooks have to know, of calls that give up rights,
//! as Go's runtime and libcap make them, and of those on sockets of ours (`by_number.rs`). All
//! others go straight to the kernel, in the instructions of the C library's own function: a child
//! of `clone(2)` may return from here on another stack.

use std::arch::naked_asm;

use libc::{c_int, c_long, c_uint, mmsghdr, timespec};

use super::straight::straight;
use super::{by_number, numbers, receive_many, rights, ring, send};
use crate::{epoll_waits, process_state};

/// `syscall(2)`
///
/// # Safety
/// That of the C library's function of this name.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[allow(unreachable_pub, reason = "exported by its C name")]
pub unsafe extern "C" fn syscall() {
    // The arguments behind the number move down by one register, and the stack stays as it is: the
    // hooks return to the caller.
    naked_asm!(
        "cmp rdi, {close_number}",
        "je 2f",
        "cmp rdi, {last_number}",
        "ja {straight}",
        "lea rax, [rip + {is_by_number}]",
        "cmp byte ptr [rax + rdi], 0",
        "jne 8f",
        // All others have higher numbers than what is called for each packet.
        "cmp rdi, {setuid_number}",
        "jb {straight}",
        "cmp rdi, {recvmmsg_number}",
        "je 3f",
        "cmp rdi, {sendmmsg_number}",
        "je 4f",
        "cmp rdi, {setuid_number}",
        "je {rights}",
        "cmp rdi, {setreuid_number}",
        "je {rights}",
        "cmp rdi, {setresuid_number}",
        "je {rights}",
        "cmp rdi, {capset_number}",
        "je {rights}",
        "cmp rdi, {unshare_number}",
        "je {rights}",
        "cmp rdi, {setns_number}",
        "je {rights}",
        "cmp rdi, {prctl_number}",
        "je {rights}",
        "cmp rdi, {seccomp_number}",
        "je {rights}",
        "cmp rdi, {setup_number}",
        "jb {straight}",
        "je 5f",
        "cmp rdi, {enter_number}",
        "je 6f",
        "cmp rdi, {register_number}",
        "je 7f",
        "jmp {straight}",
        "2:",
        "mov rdi, rsi",
        "jmp {close}",
        "3:",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov rcx, r8",
        "mov r8, r9",
        "jmp {recvmmsg}",
        "4:",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov rcx, r8",
        "jmp {sendmmsg}",
        "5:",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "jmp {setup}",
        "6:",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov rcx, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "jmp {enter}",
        "7:",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov rcx, r8",
        "jmp {register}",
        // The last argument that is on the stack, and where the call returns to; aligned for the
        // call.
        "8:",
        "mov rax, [rsp]",
        "mov r11, [rsp + 8]",
        "sub rsp, 8",
        "push rax",
        "push r11",
        "call {by_number}",
        "add rsp, 24",
        "ret",
        last_number = const by_number::LAST_NUMBER,
        is_by_number = sym by_number::IS_HERE,
        by_number = sym by_number,
        close_number = const libc::SYS_close,
        recvmmsg_number = const libc::SYS_recvmmsg,
        sendmmsg_number = const libc::SYS_sendmmsg,
        setup_number = const libc::SYS_io_uring_setup,
        enter_number = const libc::SYS_io_uring_enter,
        register_number = const libc::SYS_io_uring_register,
        setup = sym ring::io_uring_setup,
        enter = sym ring::io_uring_enter,
        register = sym ring::io_uring_register,
        setuid_number = const libc::SYS_setuid,
        setreuid_number = const libc::SYS_setreuid,
        setresuid_number = const libc::SYS_setresuid,
        capset_number = const libc::SYS_capset,
        unshare_number = const libc::SYS_unshare,
        setns_number = const libc::SYS_setns,
        prctl_number = const libc::SYS_prctl,
        seccomp_number = const libc::SYS_seccomp,
        straight = sym straight,
        rights = sym rights,
        close = sym close,
        recvmmsg = sym recvmmsg,
        sendmmsg = sym sendmmsg,
    )
}

/// Calls that the hooks have by name.
///
/// # Safety
/// That of the system call of this number.
unsafe extern "C" fn by_number(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
    returns_to: usize,
) -> c_long {
    if by_number::is_for_hooks(number, first, returns_to) {
        let arguments = [first, second, third, fourth, fifth, sixth];
        // SAFETY: the caller's promise.
        if let Some(result) = unsafe { by_number::call(number, arguments) } {
            return result;
        }
    }
    type Call =
        unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
    type Straight = unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
    // SAFETY: it passes on as many arguments as it is called with, by registers and the stack, up
    // to six.
    let call = unsafe { std::mem::transmute::<Straight, Call>(straight) };
    // SAFETY: the caller's promise.
    unsafe { call(number, first, second, third, fourth, fifth, sixth) }
}

/// As `close`, for descriptors of ours. Of others only threads are told that wait for them, for
/// memory allocators call here with their locks held, as they begin; and the library's own are
/// closed, as by an instruction of the program's.
///
/// # Safety
/// That of `close(2)`.
unsafe extern "C" fn close(fd: c_int) -> c_long {
    let is_known = process_state::engine_at_hand()
        .is_some_and(|engine| engine.look_up(fd).is_some() || engine.is_listed(fd));
    if is_known {
        numbers::forget(fd);
    } else {
        engine::epoll_may_be_shared(fd);
        epoll_waits::number_closes(fd);
        numbers::ring_closes(fd.cast_unsigned(), fd.cast_unsigned());
    }
    // SAFETY: the caller's promise.
    unsafe { straight(libc::SYS_close, fd.into(), 0, 0, 0, 0) }
}

/// Calls that change what the thread may do, filters of system calls included. They have five
/// arguments at most, which are where the caller has put them.
///
/// # Safety
/// That of the system call of this number.
unsafe extern "C" fn rights(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
) -> c_long {
    // SAFETY: the caller's promise.
    let straight = || unsafe { straight(number, first, second, third, fourth, fifth) };
    // SAFETY: the caller's promise.
    unsafe { rights::by_number(number, [first, second, third, fourth, fifth], straight) }
}

/// # Safety
/// That of `recvmmsg(2)`.
unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_long {
    // SAFETY: the caller's promise.
    unsafe { receive_many::recvmmsg(fd, messages, count, flags, timeout) }.into()
}

/// # Safety
/// That of `sendmmsg(2)`.
unsafe extern "C" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_long {
    // SAFETY: the caller's promise.
    unsafe { send::sendmmsg(fd, messages, count, flags) }.into()
}
