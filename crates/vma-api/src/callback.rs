//! Seeing packets before they are received.

use std::ffi::c_void;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::slice;

use libc::{c_int, iovec, sockaddr_in, sockaddr_in6};

use crate::abi::{Info, Packet, VMA_PACKET_DROP, VMA_PACKET_HOLD, VMA_PACKET_RECV};
use crate::{Api, check};

/// What becomes of a packet that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is gone.
    Drop,
    /// It is received as usual.
    Receive,
}

/// A packet that has come, and is in no queue yet.
#[derive(Debug)]
pub struct Seen<'a> {
    api: Api,
    fd: RawFd,
    octets: &'a [u8],
    info: Info,
    is_held: bool,
}

/// A packet that is kept where it is until this is dropped.
#[derive(Debug)]
pub struct Held {
    api: Api,
    fd: RawFd,
    id: *mut c_void,
    data: *const u8,
    len: usize,
}

// SAFETY: memory that nobody changes, and a number.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the library's memory, which is this packet's until it is given back; of a socket
        // that is closed it never is.
        unsafe { slice::from_raw_parts(self.data, self.len) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut packet = Packet {
            packet_id: self.id,
            sz_iov: 0,
        };
        // SAFETY: one packet; what is not true of it is an error.
        unsafe { (self.api.table.free_packets)(self.fd, &raw mut packet, 1) };
    }
}

impl Seen<'_> {
    /// What it carries.
    pub fn octets(&self) -> &[u8] {
        self.octets
    }

    /// Who has sent it.
    pub fn source(&self) -> Option<SocketAddr> {
        address(self.info.src)
    }

    /// Whom to.
    pub fn destination(&self) -> Option<SocketAddr> {
        address(self.info.dst)
    }

    /// How many packets wait to be received, and their octets.
    pub fn waiting(&self) -> (u32, u32) {
        let Info {
            socket_ready_queue_pkt_count: packets,
            socket_ready_queue_byte_count: octets,
            ..
        } = self.info;
        (packets, octets)
    }

    /// Keeps it, whatever the verdict is. It can be given back when the function has returned, as
    /// long as the socket is open.
    pub fn hold(&mut self) -> Option<Held> {
        if std::mem::replace(&mut self.is_held, true) {
            return None;
        }
        Some(Held {
            api: self.api,
            fd: self.fd,
            id: self.info.packet_id,
            data: self.octets.as_ptr(),
            len: self.octets.len(),
        })
    }
}

/// An address of the library's; `None`: it is none.
pub(crate) fn address(address: *const sockaddr_in) -> Option<SocketAddr> {
    // SAFETY: null, or an address of the library's, which is of either version.
    let v4 = unsafe { address.as_ref() }?;
    let port = u16::from_be(v4.sin_port);
    match c_int::from(v4.sin_family) {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            return Some(SocketAddr::from((ip, port)));
        }
        libc::AF_INET6 => {}
        _ => return None,
    }
    // SAFETY: the family says so.
    let v6 = unsafe { &*address.cast::<sockaddr_in6>() };
    Some(SocketAddr::from((
        Ipv6Addr::from(v6.sin6_addr.s6_addr),
        port,
    )))
}

type Look = Box<dyn Fn(&mut Seen<'_>) -> Verdict + Send + Sync>;

/// What a callback is called with.
struct Context {
    api: Api,
    look: Look,
}

unsafe extern "C" fn call(
    fd: c_int,
    _: usize,
    iov: *mut iovec,
    info: *mut Info,
    context: *mut c_void,
) -> c_int {
    // SAFETY: it was made in `watch`, and lasts.
    let context = unsafe { &*context.cast::<Context>() };
    // SAFETY: the library has one part.
    let part = unsafe { iov.read() };
    // SAFETY: the library's own.
    let info = unsafe { info.read_unaligned() };
    let mut seen = Seen {
        api: context.api,
        fd,
        // SAFETY: the library's memory, which stays while the function runs.
        octets: unsafe { slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) },
        info,
        is_held: false,
    };
    let verdict = catch_unwind(AssertUnwindSafe(|| (context.look)(&mut seen)));
    match verdict {
        _ if seen.is_held => VMA_PACKET_HOLD,
        Ok(Verdict::Drop) => VMA_PACKET_DROP,
        Ok(Verdict::Receive) | Err(_) => VMA_PACKET_RECV,
    }
}

impl Api {
    /// Has a function see what comes to a socket before it is received, in threads that receive or
    /// wait. It may use sockets. The function stays in memory for good: another thread may be in it
    /// when [it ends](Self::unwatch).
    ///
    /// ```
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// use std::os::fd::AsFd;
    /// use vma_api::{Api, Verdict};
    ///
    /// if let Some(api) = Api::get() {
    ///     api.watch(socket.as_fd(), |packet| match packet.octets() {
    ///         [b'!', ..] => Verdict::Receive,
    ///         _ => Verdict::Drop,
    ///     })?;
    /// }
    /// # Ok::<_, std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `EINVAL`: the socket is the kernel's.
    pub fn watch(
        self,
        socket: BorrowedFd<'_>,
        look: impl Fn(&mut Seen<'_>) -> Verdict + Send + Sync + 'static,
    ) -> io::Result<()> {
        let context = Box::into_raw(Box::new(Context {
            api: self,
            look: Box::new(look),
        }));
        let register = self.table.register_recv_callback;
        // SAFETY: a function of this type, and what it expects, which lasts.
        check(unsafe { register(socket.as_raw_fd(), Some(call), context.cast()) }).map(drop)
    }

    /// Nobody sees what comes to a socket from here on.
    ///
    /// # Errors
    /// `EINVAL`: the socket is the kernel's.
    pub fn unwatch(self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let register = self.table.register_recv_callback;
        // SAFETY: no function.
        check(unsafe { register(socket.as_raw_fd(), None, ptr::null_mut()) }).map(drop)
    }
}
