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

/// `packet(7)`: a header in front of what is sent says what is left to the kernel.
const PACKET_VNET_HDR: c_long = 15;

#[derive(Debug)]
pub(crate) struct Wire {
    fd: i32,
    /// For frames whose checksums are to be computed, and that are to be cut.
    cutter: i32,
}

/// A frame, and what the card does to it.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) frame: Vec<u8>,
    pub(crate) checksums: bool,
    /// 0: it is not cut.
    pub(crate) segment_len: u16,
    pub(crate) headers_len: usize,
}

#[repr(C)]
struct Buffer {
    header: libc::cmsghdr,
    data: [u32; 16],
}

impl Wire {
    pub(crate) fn open(ifindex: u32) -> io::Result<Self> {
        let every = i32::from((libc::ETH_P_ALL as u16).to_be());
        let fd = packet_socket()?;
        let wire = Self {
            fd,
            cutter: packet_socket()?,
        };
        let is_wanted = 1_i32;
        let size = size_of_val(&is_wanted);
        let (level, at) = (libc::SOL_PACKET, &raw const is_wanted);
        call!(
            libc::SYS_setsockopt,
            wire.cutter,
            level,
            PACKET_VNET_HDR,
            at,
            size
        )?;
        bind(wire.cutter, 0, ifindex)?;
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
        bind(fd, every as u16, ifindex)?;
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

    /// The same of what the card does something to, which the kernel does here.
    pub(crate) fn send_leaving(&self, leaving: &Leaving) {
        if !leaving.checksums {
            return self.send(&leaving.frame);
        }
        let tag = if leaving.frame[12] == 0x81 { 4 } else { 0 };
        let is_v6 = leaving.frame[12 + tag] == 0x86;
        let tcp_at = tag + if is_v6 { 54 } else { 34 };
        let kind = match (leaving.segment_len, is_v6) {
            (0, _) => 0,
            (_, false) => 1,
            (_, true) => 4,
        };
        // `struct virtio_net_hdr`: flags, kind, and lengths.
        let numbers = [
            leaving.headers_len as u16,
            leaving.segment_len,
            tcp_at as u16,
            16,
        ];
        let mut whole = vec![1, kind];
        whole.extend(numbers.iter().flat_map(|it| it.to_ne_bytes()));
        whole.extend_from_slice(&leaving.frame);
        let none = std::ptr::null::<libc::c_void>();
        let (from, len) = (whole.as_ptr(), whole.len());
        let _ = call!(libc::SYS_sendto, self.cutter, from, len, 0, none, 0);
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
        sys::close(self.cutter);
    }
}

fn packet_socket() -> io::Result<i32> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    out_of_the_way(call!(libc::SYS_socket, libc::AF_PACKET, kind, 0)?)
}

/// With 0 for the protocol the socket receives nothing.
fn bind(fd: i32, protocol: u16, ifindex: u32) -> io::Result<()> {
    // SAFETY: zeroes are an address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = ifindex as i32;
    call!(
        libc::SYS_bind,
        fd,
        &raw const address,
        size_of_val(&address)
    )
    .map(drop)
}
