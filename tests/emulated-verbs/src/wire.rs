//! The wire: a packet socket, and the thread that listens to it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libc::c_long;

use crate::device::Inner;
use crate::sys::{call, out_of_the_way};
use crate::{queues, sys};

const PACKET_IGNORE_OUTGOING: c_long = 23;
/// What comes while the thread does not run.
const BUFFER_BYTES: i32 = 64 << 20;
const FRAME_BYTES_MAX: usize = 65_536 + 18;
/// How long the thread does not notice that the device is closed.
const PATIENCE_MSEC: i32 = 200;
/// `TP_STATUS_VLAN_VALID`
const HAS_TAG: u32 = 1 << 4;

#[derive(Debug)]
pub(crate) struct Wire {
    fd: i32,
}

#[repr(C)]
struct Buffer {
    header: libc::cmsghdr,
    data: [u32; 16],
}

impl Wire {
    pub(crate) fn open(ifindex: u32) -> io::Result<Self> {
        let every = i32::from((libc::ETH_P_ALL as u16).to_be());
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = out_of_the_way(call!(libc::SYS_socket, libc::AF_PACKET, kind, 0)?)?;
        let wire = Self { fd };
        wire.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        wire.set(libc::SOL_PACKET, c_long::from(libc::PACKET_AUXDATA), 1)?;
        wire.set(
            libc::SOL_SOCKET,
            c_long::from(libc::SO_RCVBUFFORCE),
            BUFFER_BYTES,
        )?;
        wire.set(
            libc::SOL_SOCKET,
            c_long::from(libc::SO_SNDBUFFORCE),
            BUFFER_BYTES,
        )?;
        // SAFETY: zeroes are an address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = every as u16;
        address.sll_ifindex = ifindex as i32;
        let size = size_of_val(&address);
        call!(libc::SYS_bind, fd, &raw const address, size)?;
        Ok(wire)
    }

    fn set(&self, level: i32, name: c_long, value: i32) -> io::Result<()> {
        let size = size_of_val(&value);
        call!(
            libc::SYS_setsockopt,
            self.fd,
            level,
            name,
            &raw const value,
            size
        )
        .map(drop)
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.fd
    }

    /// What a wire loses nobody hears of.
    pub(crate) fn send(&self, frame: &[u8]) {
        let none = std::ptr::null::<libc::c_void>();
        let _ = call!(
            libc::SYS_sendto,
            self.fd,
            frame.as_ptr(),
            frame.len(),
            0,
            none,
            0
        );
    }

    /// A thread gives to the device what comes.
    pub(crate) fn listen(inner: &Arc<Inner>) {
        let inner = Arc::clone(inner);
        sys::spawn(move || {
            let mut frame = vec![0; FRAME_BYTES_MAX];
            while !inner.is_closed.load(Ordering::Relaxed) {
                inner.wire.wait();
                while let Some((len, tag)) = inner.wire.receive(&mut frame) {
                    queues::frame_came(&inner, &frame[..len], tag);
                }
            }
        });
    }

    fn wait(&self) {
        let mut poll = libc::pollfd {
            fd: self.fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let _ = call!(libc::SYS_poll, &raw mut poll, 1, PATIENCE_MSEC);
    }

    /// The length of a frame, and the VLAN tag that the kernel has taken out of it.
    fn receive(&self, frame: &mut [u8]) -> Option<(usize, Option<u16>)> {
        // SAFETY: zeroes are an empty message.
        let (mut control, mut message): (Buffer, libc::msghdr) = unsafe { std::mem::zeroed() };
        let mut part = libc::iovec {
            iov_base: frame.as_mut_ptr().cast(),
            iov_len: frame.len(),
        };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of_val(&control) as _;
        let len = call!(libc::SYS_recvmsg, self.fd, &raw mut message, 0).ok()?;
        // `struct tpacket_auxdata`: the status is its first word, the tag in the last but one.
        let has_tag = control.data[0] & HAS_TAG != 0;
        let tag = control.data[4] as u16;
        Some((usize::try_from(len).ok()?, has_tag.then_some(tag)))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        sys::close(self.fd);
    }
}
