//! Receive and send calls as the hooks make them.

use std::os::fd::{AsRawFd, RawFd};

use engine::user_memory::is_writable;
use engine::{DUMMY_SEND, Errno, Follows, Message, RecvCall, RecvOutcome, SendOutcome, Sleep};
use libc::{c_int, iovec, msghdr, sockaddr_in};

use crate::host::{Host, PEER, Pair};
use crate::input::Input;
use crate::memory::{PARTS_MAX, written};

/// Attempts of a call that polls nothing, until it ends or sleeps.
pub const ATTEMPTS_MAX: u32 = 64;

/// Most bytes of one call (`MAX_RW_COUNT`), to which the hooks of calls with one buffer cut its
/// length.
const BYTES_MAX: usize = 0x7fff_f000;

pub type Answer = Result<usize, c_int>;

pub fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The result of a system call.
pub fn answer(result: isize) -> Answer {
    usize::try_from(result).map_err(|_| errno())
}

/// A sleep as the hooks prepare it, that ends at once.
pub fn sleep_a_moment(mut sleep: Sleep) {
    sleep.begins();
    if let Some(timeout) = sleep.timeout() {
        assert!(timeout.tv_sec >= 0 && (0..1_000_000_000).contains(&timeout.tv_nsec));
    }
    let fds = sleep.fds();
    // SAFETY: the descriptors are writable for their number.
    let result = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, 0) };
    assert!(result >= 0, "poll: {}", errno());
    let _ = sleep.end();
}

/// A message header as a program may make it: what is in it, and what a call has to write where.
struct Header {
    header: msghdr,
    parts: Vec<iovec>,
}

impl Header {
    /// One of `recvmsg(2)` or `sendmsg(2)`.
    fn any(host: &Host, input: &mut Input<'_>) -> Self {
        // SAFETY: all-zero is a value of this struct of integers and pointers.
        let mut header: msghdr = unsafe { std::mem::zeroed() };
        let count = usize::from(input.byte()) % (PARTS_MAX + 1);
        let parts: Vec<_> = (0..count)
            .map(|_| iovec {
                iov_base: host.memory.pointer(input).cast(),
                iov_len: input.len(),
            })
            .collect();
        header.msg_iov = host.memory.place(&parts, input);
        header.msg_iovlen = match input.byte() % 8 {
            0 => input.len(),
            _ => count,
        };
        let used = parts[..count.min(header.msg_iovlen)].to_vec();
        if input.byte().is_multiple_of(8) {
            header.msg_control = host.memory.pointer(input).cast();
            header.msg_controllen = input.len();
        }
        header.msg_flags = c_int::from(input.byte());
        Self {
            header,
            parts: used,
        }
    }

    /// One of `recvfrom(2)`, `sendto(2)` and their like.
    fn one(host: &Host, part: &mut iovec, input: &mut Input<'_>) -> Self {
        *part = iovec {
            iov_base: host.memory.pointer(input).cast(),
            iov_len: input.len().min(BYTES_MAX),
        };
        // SAFETY: all-zero is a value of this struct of integers and pointers.
        let mut header: msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = part;
        header.msg_iovlen = 1;
        let parts = vec![*part];
        Self { header, parts }
    }
}

/// `recvmsg(2)`, or what a simpler call makes of it: with the engine first, then with the kernel on
/// the twin.
pub fn receive(host: &Host, pair: &Pair, input: &mut Input<'_>) {
    let mut part = iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let is_message = input.byte().is_multiple_of(2);
    let Header { mut header, parts } = if is_message {
        Header::any(host, input)
    } else {
        Header::one(host, &mut part, input)
    };
    if input.byte().is_multiple_of(2) {
        header.msg_name = host.memory.pointer(input).cast();
        header.msg_namelen = input.int().cast_unsigned();
    }
    let flags = input.flags();
    let mut twins = header;
    let ours = if !header.msg_name.is_null() && header.msg_namelen.cast_signed() < 0 {
        receive_from_kernel(pair.fd(), &mut header, flags)
    } else {
        receive_here(host, pair, &mut header, flags)
    };
    let data = ours.map(|len| written_if_whole(&parts, len));
    let kernels = receive_from_kernel(pair.twin.as_raw_fd(), &mut twins, flags);
    if !pair.is_alike || !pair.is_accelerated(host) {
        return;
    }
    // A signal has ended what would have waited.
    let ours = match ours {
        Err(libc::EINTR) => Err(libc::EAGAIN),
        ours => ours,
    };
    let shown = (is_message, flags, twins.msg_iovlen, &parts);
    assert_eq!(ours, kernels, "ours and the kernel's: {shown:?}");
    let Ok(len) = kernels else { return };
    // The two have other senders, and a name may be where the data is.
    if header.msg_name.is_null() {
        assert_eq!(data, Ok(written_if_whole(&parts, len)), "{shown:?}");
    }
    let fields = |header: &msghdr| (header.msg_flags, header.msg_namelen, header.msg_controllen);
    assert_eq!(fields(&header), fields(&twins), "{shown:?}");
}

/// With `MSG_TRUNC` a call says more than it has written.
fn written_if_whole(parts: &[iovec], len: usize) -> Vec<u8> {
    let room = parts
        .iter()
        .fold(0usize, |room, part| room.saturating_add(part.iov_len));
    written(parts, len.min(room))
}

fn receive_from_kernel(fd: RawFd, header: &mut msghdr, flags: c_int) -> Answer {
    // SAFETY: what the header leads to is the target's memory, or none; the kernel finds that out.
    answer(unsafe { libc::recvmsg(fd, header, flags | libc::MSG_DONTWAIT) })
}

fn receive_here(host: &Host, pair: &Pair, header: &mut msghdr, flags: c_int) -> Answer {
    let (engine, socket) = (host.engine, pair.socket(host));
    let mut call = RecvCall::begin(engine, pair.fd(), socket, flags);
    let mut ended = None;
    for _ in 0..ATTEMPTS_MAX {
        // SAFETY: what the header leads to is the target's memory, or none.
        let mut message = unsafe { Message::new(header) };
        let outcome = match ended {
            None => socket.receive(engine, &mut call, &mut message, flags),
            Some(errno) => socket.last_look(&call, &mut message, flags, errno),
        };
        match outcome {
            RecvOutcome::Done(len) => {
                header.msg_flags |= flags & libc::MSG_CMSG_CLOEXEC;
                return Ok(len);
            }
            RecvOutcome::Fail(Errno(errno)) => return Err(errno),
            RecvOutcome::Kernel => {
                let result = receive_from_kernel(pair.fd(), header, flags);
                socket.count_os_receive(result.map_err(Errno));
                return result;
            }
            RecvOutcome::Again => {}
            RecvOutcome::Sleep(sleep) => {
                assert_eq!(flags & libc::MSG_DONTWAIT, 0, "sleeps though it must not");
                sleep_a_moment(sleep);
                ended = Some(Errno(libc::EINTR));
            }
        }
    }
    panic!("a receive call without end");
}

/// `sendmsg(2)`, or what a simpler call makes of it. What the engine leaves to the kernel is not
/// sent: it may be for anybody.
pub fn send(host: &Host, pair: &Pair, input: &mut Input<'_>) {
    let mut part = iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let Header { mut header, .. } = if input.byte().is_multiple_of(2) {
        Header::any(host, input)
    } else {
        Header::one(host, &mut part, input)
    };
    let to_peer = !input.byte().is_multiple_of(8);
    let address = if to_peer {
        PEER.ip().octets()
    } else {
        input.long().to_ne_bytes()
    };
    let port = if input.byte().is_multiple_of(16) {
        0
    } else {
        host.peer_port
    };
    let family = match input.byte() % 16 {
        0 => libc::AF_UNSPEC,
        1 => c_int::from(input.byte()),
        _ => libc::AF_INET,
    };
    let name = |address| sockaddr_in {
        sin_family: family as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(address),
        },
        sin_zero: [0; 8],
    };
    let mut place = host.memory.pointer(input);
    header.msg_namelen = match input.byte() % 8 {
        0 => input.int().cast_unsigned(),
        _ => size_of::<sockaddr_in>() as u32,
    };
    if place.is_null() && input.byte().is_multiple_of(2) {
        place = host.memory.pointer(input);
    }
    let is_good = put(place, &name(address));
    header.msg_name = place.cast();
    let flags = input.flags();
    let follows = match input.byte() % 2 {
        0 => Follows::Message,
        _ => Follows::Unknown,
    };
    let mut ours = header;
    // SAFETY: what the header leads to is the target's memory, or none.
    let message = unsafe { Message::new(&mut ours) };
    let socket = pair.socket(host);
    let outcome = socket.send(host.engine, pair.fd(), &message, flags, follows);
    let SendOutcome::Done(len) = outcome else {
        return;
    };
    if flags & DUMMY_SEND != 0 {
        return;
    }
    assert!(is_good && !place.is_null(), "sent to nobody");
    if !to_peer {
        return;
    }
    // The payload may be where the name is: it is of no interest.
    assert!(put(place, &name([127, 0, 0, 1])));
    // SAFETY: as for the receive call.
    let kernels = answer(unsafe {
        libc::sendmsg(
            pair.twin.as_raw_fd(),
            &raw const header,
            flags | libc::MSG_DONTWAIT,
        )
    });
    // What does not wait may find the send buffer full.
    assert!(
        kernels == Ok(len) || kernels == Err(libc::EAGAIN),
        "sent {len} bytes, the kernel: {kernels:?}, flags {flags:#x}, family {family}, port {port}, {} bytes of name at {place:p}",
        header.msg_namelen
    );
    let mut buffer = [0; 1 << 16];
    let _ = host.peer.set_nonblocking(true);
    while host.peer.recv(&mut buffer).is_ok() {}
}

/// Writes a value where that is possible.
pub fn put<T>(place: *mut u8, value: &T) -> bool {
    let is_good = is_writable(place, size_of::<T>());
    if is_good {
        // SAFETY: writable (checked above), the target's own memory.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::from_ref(value).cast::<u8>(),
                place,
                size_of::<T>(),
            );
        }
    }
    is_good
}

/// `FIONREAD`
pub fn next_len(host: &Host, pair: &Pair) {
    let ours = pair.socket(host).next_len_after_poll().unwrap_or(0);
    let mut kernels: c_int = 0;
    // SAFETY: the kernel writes an int there.
    let result = unsafe { libc::ioctl(pair.twin.as_raw_fd(), libc::FIONREAD, &raw mut kernels) };
    assert_eq!(result, 0);
    if pair.is_alike {
        assert_eq!(ours, kernels as usize, "FIONREAD");
    }
}
