//! Options and queues of a socket, as system calls tell and set them.

use std::io;
use std::mem;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use libc::c_int;

pub(super) fn info(stream: &TcpStream) -> io::Result<libc::tcp_info> {
    // SAFETY: the structure consists of integers.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    get(stream, libc::TCP_INFO, &mut info)?;
    Ok(info)
}

pub(super) fn set<T>(socket: &impl AsFd, option: c_int, value: &T) -> io::Result<()> {
    set_at(socket, libc::IPPROTO_TCP, option, value)
}

pub(super) fn set_at<T>(
    socket: &impl AsFd,
    level: c_int,
    option: c_int,
    value: &T,
) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let len = libc::socklen_t::try_from(size_of::<T>()).expect("a small structure");
    // SAFETY: the pointer and the length describe `value`, which is read.
    let result = unsafe { libc::setsockopt(fd, level, option, ptr::from_ref(value).cast(), len) };
    check(result)
}

/// `value` consists of integers; what the kernel does not fill in stays.
pub(super) fn get<T>(socket: &impl AsFd, option: c_int, value: &mut T) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let mut len = libc::socklen_t::try_from(size_of::<T>()).expect("a small structure");
    // SAFETY: the pointer and the length describe `value`, of which any octets are a value.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            option,
            ptr::from_mut(value).cast(),
            &raw mut len,
        )
    };
    check(result)
}

pub(super) fn integer(socket: &impl AsFd, option: c_int) -> io::Result<u32> {
    let mut value = 0;
    get(socket, option, &mut value)?;
    Ok(value)
}

/// An `ioctl(2)` that counts octets.
pub(super) fn request(socket: &impl AsFd, request: libc::Ioctl) -> io::Result<usize> {
    let mut value: c_int = 0;
    // SAFETY: these requests write an integer.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), request, &raw mut value) };
    check(result)?;
    Ok(usize::try_from(value).expect("a count"))
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
