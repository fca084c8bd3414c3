//! The system calls of scripts, each behind a safe function that returns its result or an error
//! number.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use libc::{c_int, c_void, socklen_t};

use crate::sysctl::Setting;

type Answer = Result<i64, i32>;

/// The sysctl that only the host may set freely; its value is given to each socket instead.
pub(crate) const CONGESTION_CONTROL: &str = "tcp_congestion_control";

/// Sets sysctls of the calling thread's namespace, but for [`CONGESTION_CONTROL`].
pub(crate) fn set_sysctls(settings: &[Setting]) -> Result<(), String> {
    for (name, value) in settings {
        if name == CONGESTION_CONTROL {
            continue;
        }
        let path = Path::new("/proc/sys/net/ipv4").join(name);
        // What this kernel does not have (any more) it cannot do differently.
        if path.exists() {
            fs::write(&path, value).map_err(|error| format!("sysctl {name}={value}: {error}"))?;
        }
    }
    Ok(())
}

pub(crate) fn socket(kind: c_int) -> Answer {
    // SAFETY: `socket` takes plain integers.
    answer(unsafe { libc::socket(libc::AF_INET, kind, libc::IPPROTO_TCP) })
}

pub(crate) fn bind(fd: c_int, address: (Ipv4Addr, u16)) -> Answer {
    let address = socket_address(address);
    // SAFETY: pointer and length describe `address`.
    answer(unsafe {
        libc::bind(
            fd,
            ptr::from_ref(&address).cast(),
            length::<libc::sockaddr_in>(),
        )
    })
}

pub(crate) fn connect(fd: c_int, address: (Ipv4Addr, u16)) -> Answer {
    let address = socket_address(address);
    // SAFETY: pointer and length describe `address`.
    answer(unsafe {
        libc::connect(
            fd,
            ptr::from_ref(&address).cast(),
            length::<libc::sockaddr_in>(),
        )
    })
}

pub(crate) fn listen(fd: c_int, backlog: c_int) -> Answer {
    // SAFETY: `listen` takes plain integers.
    answer(unsafe { libc::listen(fd, backlog) })
}

pub(crate) fn accept(fd: c_int, flags: c_int) -> Answer {
    // SAFETY: no address is asked for.
    answer(unsafe { libc::accept4(fd, ptr::null_mut(), ptr::null_mut(), flags) })
}

pub(crate) fn send(fd: c_int, data: &[u8], flags: c_int) -> Answer {
    let flags = flags | libc::MSG_NOSIGNAL;
    // SAFETY: pointer and length describe `data`.
    answer(unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), flags) })
}

/// As [`send`], to an address, or to one of the family `AF_UNSPEC`.
pub(crate) fn send_to(
    fd: c_int,
    data: &[u8],
    flags: c_int,
    address: Option<(Ipv4Addr, u16)>,
) -> Answer {
    let flags = flags | libc::MSG_NOSIGNAL;
    let mut target = socket_address(address.unwrap_or((Ipv4Addr::UNSPECIFIED, 0)));
    if address.is_none() {
        target.sin_family = 0; // AF_UNSPEC
    }
    // SAFETY: pointers and lengths describe `data` and `target`.
    answer(unsafe {
        libc::sendto(
            fd,
            data.as_ptr().cast(),
            data.len(),
            flags,
            ptr::from_ref(&target).cast(),
            length::<libc::sockaddr_in>(),
        )
    })
}

pub(crate) fn receive(fd: c_int, buffer: &mut [u8], flags: c_int) -> Answer {
    // SAFETY: pointer and length describe `buffer`.
    answer(unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), flags) })
}

pub(crate) fn shutdown(fd: c_int, how: c_int) -> Answer {
    // SAFETY: `shutdown` takes plain integers.
    answer(unsafe { libc::shutdown(fd, how) })
}

/// Wakes whoever waits for a socket.
pub(crate) fn shut_down(fd: c_int) {
    // What is not a connected socket needs no waking.
    let _ = shutdown(fd, libc::SHUT_RDWR);
}

pub(crate) fn close(fd: c_int) -> Answer {
    // SAFETY: the caller owns the descriptor.
    answer(unsafe { libc::close(fd) })
}

pub(crate) fn set_option(fd: c_int, level: c_int, name: c_int, value: &[u8]) -> Answer {
    let length = socklen_t::try_from(value.len()).expect("option values are short");
    // SAFETY: pointer and length describe `value`.
    answer(unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), length) })
}

/// Fills `value`; the length that the kernel gave.
pub(crate) fn option(fd: c_int, level: c_int, name: c_int, value: &mut [u8]) -> Result<usize, i32> {
    let mut length = socklen_t::try_from(value.len()).expect("option values are short");
    let target: *mut c_void = value.as_mut_ptr().cast();
    // SAFETY: the pointers describe `value` and its length.
    answer(unsafe { libc::getsockopt(fd, level, name, target, &raw mut length) })?;
    Ok(usize::try_from(length).expect("a length"))
}

pub(crate) fn file_flags(fd: c_int) -> Answer {
    // SAFETY: F_GETFL takes no argument.
    answer(unsafe { libc::fcntl(fd, libc::F_GETFL) })
}

pub(crate) fn set_file_flags(fd: c_int, flags: c_int) -> Answer {
    // SAFETY: F_SETFL takes an integer.
    answer(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) })
}

/// An `ioctl` that writes one `int`, and that `int`.
pub(crate) fn ioctl(fd: c_int, request: libc::Ioctl) -> (Answer, i64) {
    let mut value: c_int = 0;
    // SAFETY: the requests of scripts (SIOCINQ, SIOCOUTQ, SIOCATMARK, ...) write one `int`.
    let result = answer(unsafe { libc::ioctl(fd, request, &raw mut value) });
    (result, i64::from(value))
}

/// Since an origin that all processes of this machine share.
pub(crate) fn monotonic() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer describes `time`.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    assert_eq!(result, 0, "every kernel has this clock");
    let seconds = u64::try_from(time.tv_sec).expect("it counts from the start of the machine");
    let nanos = u32::try_from(time.tv_nsec).expect("less than a second");
    Duration::new(seconds, nanos)
}

pub(crate) fn poll(entries: &mut [libc::pollfd], timeout: Option<Duration>) -> Answer {
    let count = libc::nfds_t::try_from(entries.len()).expect("scripts are short");
    // SAFETY: pointer and length describe `entries`.
    answer(unsafe { libc::poll(entries.as_mut_ptr(), count, milliseconds(timeout)) })
}

pub(crate) fn epoll_create() -> Answer {
    // SAFETY: `epoll_create1` takes a plain integer.
    answer(unsafe { libc::epoll_create1(0) })
}

pub(crate) fn epoll_control(set: c_int, operation: c_int, fd: c_int, events: u32) -> Answer {
    let token = u64::from(fd.unsigned_abs());
    let mut event = libc::epoll_event { events, u64: token };
    // SAFETY: the pointer describes `event`.
    answer(unsafe { libc::epoll_ctl(set, operation, fd, &raw mut event) })
}

/// Descriptor and events of each entry, by turns.
pub(crate) fn epoll_wait(set: c_int, room: usize, timeout: Option<Duration>) -> (Answer, Vec<i64>) {
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; room.clamp(1, 64)];
    let count = c_int::try_from(events.len()).expect("at most 64");
    // SAFETY: pointer and length describe `events`.
    let result =
        answer(unsafe { libc::epoll_wait(set, events.as_mut_ptr(), count, milliseconds(timeout)) });
    let filled = result.ok().and_then(|count| usize::try_from(count).ok());
    let output = events.iter().take(filled.unwrap_or(0)).flat_map(|event| {
        let (token, events) = (event.u64, event.events);
        [i64::try_from(token).unwrap_or(-1), i64::from(events)]
    });
    (result, output.collect())
}

fn milliseconds(timeout: Option<Duration>) -> c_int {
    timeout.map_or(-1, |timeout| {
        c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX)
    })
}

fn socket_address((address, port): (Ipv4Addr, u16)) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::sa_family_t::try_from(libc::AF_INET).expect("a small number"),
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(address.octets()),
        },
        sin_zero: [0; 8],
    }
}

fn length<T>() -> socklen_t {
    socklen_t::try_from(size_of::<T>()).expect("socket structures are small")
}

fn answer(result: impl TryInto<i64>) -> Answer {
    let result = result.try_into().unwrap_or(i64::MAX);
    if result < 0 {
        let errno = io::Error::last_os_error().raw_os_error();
        return Err(errno.expect("an error number of the system"));
    }
    Ok(result)
}
