//! Receive and send calls as the C ABI makes them.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::RawFd;

use dev_core::Backend;
use engine::{
    Engine, Errno, Follows, Message, Reason, RecvCall, RecvOutcome, SendOutcome, Sleep, UdpSocket,
};
use libc::c_int;

use super::host::{Socket, sockaddr};

/// What a receive call writes beside the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub source: Option<SocketAddrV4>,
    pub name_len: u32,
    pub flags: c_int,
}

/// A receive call in progress, with buffers of its own.
pub struct Receiving<B: Backend> {
    engine: &'static Engine<B>,
    socket: &'static UdpSocket<B>,
    call: RecvCall,
    flags: c_int,
}

impl<B: Backend> Receiving<B> {
    pub fn begin(socket: &Socket<B>, flags: c_int) -> Self {
        Self::of(socket.engine, socket.fd(), socket.ours(), flags)
    }

    pub fn of(
        engine: &'static Engine<B>,
        fd: c_int,
        socket: &'static UdpSocket<B>,
        flags: c_int,
    ) -> Self {
        Self {
            engine,
            socket,
            call: RecvCall::begin(engine, fd, socket, flags),
            flags,
        }
    }

    /// One attempt into one buffer.
    pub fn attempt(&mut self, buffer: &mut [u8]) -> RecvOutcome {
        self.attempt_into(&mut [buffer]).0
    }

    /// One attempt into several buffers.
    pub fn attempt_into(&mut self, buffers: &mut [&mut [u8]]) -> (RecvOutcome, Written) {
        let mut name = sockaddr(0, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
        let mut parts: Vec<_> = buffers.iter_mut().map(|buffer| part(buffer)).collect();
        let mut header = header(&mut parts);
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = size_of_val(&name) as libc::socklen_t;
        let outcome = self.attempt_with(&mut header);
        let written = Written {
            source: (c_int::from(name.sin_family) == libc::AF_INET).then(|| {
                let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
                SocketAddrV4::new(ip, u16::from_be(name.sin_port))
            }),
            name_len: header.msg_namelen,
            flags: header.msg_flags,
        };
        (outcome, written)
    }

    /// One attempt with a header that the test has made; its buffers must be valid.
    pub fn attempt_with(&mut self, header: &mut libc::msghdr) -> RecvOutcome {
        // SAFETY: the callers' headers describe live buffers, or lengths that the engine must not
        // touch.
        let mut message = unsafe { Message::new(header) };
        self.socket
            .receive(self.engine, &mut self.call, &mut message, self.flags)
    }

    /// What a signal that ends the call leaves of it.
    pub fn last_look(&mut self, buffer: &mut [u8]) -> RecvOutcome {
        let mut parts = [part(buffer)];
        let mut header = header(&mut parts);
        // SAFETY: the header describes a live buffer.
        let mut message = unsafe { Message::new(&mut header) };
        let errno = Errno(libc::EINTR);
        self.socket
            .last_look(&self.call, &mut message, self.flags, errno)
    }

    pub fn call(&self) -> &RecvCall {
        &self.call
    }
}

/// A buffer as the kernel's interface describes it.
pub fn part(buffer: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    }
}

/// A header over these buffers, nothing else.
pub fn header(parts: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: all-zero is a value of this struct of integers and pointers.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts.as_mut_ptr();
    header.msg_iovlen = parts.len();
    header
}

/// A whole receive call, with everything that the hook does: sleeps, and asks the kernel when told
/// to.
pub fn receive<B: Backend>(socket: &Socket<B>, flags: c_int) -> Result<Vec<u8>, Errno> {
    receive_on(socket.engine, socket.ours(), socket.fd(), flags)
}

pub fn receive_on<B: Backend>(
    engine: &'static Engine<B>,
    socket: &'static UdpSocket<B>,
    fd: RawFd,
    flags: c_int,
) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 4096];
    let mut call = Receiving::of(engine, fd, socket, flags);
    loop {
        match call.attempt(&mut buffer) {
            RecvOutcome::Done(len) => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            RecvOutcome::Fail(errno) => return Err(errno),
            RecvOutcome::Again => std::thread::yield_now(),
            RecvOutcome::Sleep(sleep) => {
                sleep_until_woken(sleep);
            }
            RecvOutcome::Kernel => {
                // SAFETY: the buffer is writable for its length.
                let len =
                    unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), flags) };
                let result = usize::try_from(len).map_err(|_| last_errno());
                socket.count_os_receive(result);
                buffer.truncate(result?);
                return Ok(buffer);
            }
        }
    }
}

/// Sleeps as prepared. Returns whether something woke it before its time was over.
pub fn sleep_until_woken(mut sleep: Sleep) -> bool {
    let woken = nap(&mut sleep);
    sleep.end();
    woken
}

/// Sleeps as prepared and leaves the registration.
pub fn nap(sleep: &mut Sleep) -> bool {
    let timeout = sleep.timeout();
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    let fds = sleep.fds();
    // SAFETY: the descriptors and the timeout are valid for the call.
    let ready = unsafe {
        libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            timeout,
            std::ptr::null(),
        )
    };
    ready > 0
}

pub fn last_errno() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// One send call of the engine's, without the kernel's part.
pub fn send<B: Backend>(
    socket: &Socket<B>,
    to: Option<SocketAddrV4>,
    payload: &[u8],
) -> SendOutcome {
    send_parts(socket, to, &[payload], 0)
}

pub fn send_parts<B: Backend>(
    socket: &Socket<B>,
    to: Option<SocketAddrV4>,
    payload: &[&[u8]],
    flags: c_int,
) -> SendOutcome {
    let mut parts: Vec<_> = payload
        .iter()
        .map(|bytes| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        })
        .collect();
    let mut name = to.map(|to| sockaddr(libc::AF_INET, to));
    let mut header = header(&mut parts);
    if let Some(name) = &mut name {
        header.msg_name = std::ptr::from_mut(name).cast();
        header.msg_namelen = size_of_val(name) as libc::socklen_t;
    }
    send_header(socket, &mut header, flags)
}

/// A whole `sendto(2)`, with everything that the hook does. Returns why it was the kernel that
/// sent, if it was.
pub fn send_whole<B: Backend>(
    socket: &Socket<B>,
    to: SocketAddrV4,
    payload: &[u8],
    flags: c_int,
) -> Result<Option<Reason>, Errno> {
    let SendOutcome::Kernel(reason) = send_parts(socket, Some(to), &[payload], flags) else {
        return Ok(None);
    };
    let name = sockaddr(libc::AF_INET, to);
    let (bytes, name_len) = (payload.as_ptr().cast(), size_of_val(&name));
    // SAFETY: payload and name are readable for their lengths.
    let len = unsafe {
        libc::sendto(
            socket.fd(),
            bytes,
            payload.len(),
            flags,
            (&raw const name).cast(),
            name_len as libc::socklen_t,
        )
    };
    let result = usize::try_from(len).map_err(|_| last_errno());
    socket.ours().count_os_send_for(reason, result);
    socket.engine.addresses_changed(socket.ours());
    result.map(|_| Some(reason))
}

/// One message of `sendmmsg(2)` that is not its last.
pub fn send_followed<B: Backend>(
    socket: &Socket<B>,
    to: SocketAddrV4,
    payload: &[u8],
) -> SendOutcome {
    let mut parts = [libc::iovec {
        iov_base: payload.as_ptr().cast_mut().cast(),
        iov_len: payload.len(),
    }];
    let mut name = sockaddr(libc::AF_INET, to);
    let mut header = header(&mut parts);
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = size_of_val(&name) as libc::socklen_t;
    // SAFETY: the header describes live buffers.
    let message = unsafe { Message::new(&mut header) };
    socket
        .ours()
        .send(socket.engine, socket.fd(), &message, 0, Follows::Message)
}

/// One send call with a header that the test has made.
pub fn send_header<B: Backend>(
    socket: &Socket<B>,
    header: &mut libc::msghdr,
    flags: c_int,
) -> SendOutcome {
    send_on(socket.engine, socket.fd(), socket.ours(), header, flags)
}

/// Sends on a socket that was looked up at some time.
pub fn send_on<B: Backend>(
    engine: &Engine<B>,
    fd: RawFd,
    socket: &'static UdpSocket<B>,
    header: &mut libc::msghdr,
    flags: c_int,
) -> SendOutcome {
    // SAFETY: the callers' headers describe live buffers, or lengths that the engine must not
    // touch.
    let message = unsafe { Message::new(header) };
    socket.send(engine, fd, &message, flags, Follows::Unknown)
}
