//! Receiving without copies.

use std::ptr;

use engine::user_memory::{is_readable, is_writable};
use engine::{AnySocket, Engine, HeldPacket, PacketSink};
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use vma_api::abi::{MSG_VMA_ZCOPY, MSG_VMA_ZCOPY_FORCE, Packet, Packets};

use crate::call;
use crate::guard::{contained, fail};
use crate::process_state::Device;
use crate::{adoption, real, runtime};

/// What a packet of one part takes in the program's buffer.
const PACKET_BYTES: usize = size_of::<Packet>() + size_of::<iovec>();
/// More than one call has a use for.
const PACKETS_MAX: usize = 64;

/// `recvfrom(2)` that leaves pointers to packets in the buffer, a `vma_packets_t`, where it can
/// (`MSG_VMA_ZCOPY` in the flags afterwards).
pub(super) unsafe extern "C" fn recvfrom_zcopy(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: *mut c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> c_int {
    if !is_readable(flags, size_of::<c_int>()) || !is_writable(flags, size_of::<c_int>()) {
        return fail(libc::EFAULT);
    }
    // SAFETY: readable (checked above), and the caller's own.
    let asked = unsafe { flags.read_unaligned() };
    let plain = asked & !(MSG_VMA_ZCOPY | MSG_VMA_ZCOPY_FORCE);
    let socket = socket_behind(fd);
    if socket.is_some() && len < size_of::<Packets>() + PACKET_BYTES {
        return fail(libc::ENOBUFS);
    }
    let packets_max = (len.saturating_sub(size_of::<Packets>()) / PACKET_BYTES).min(PACKETS_MAX);
    let mut sink = PacketSink::new(packets_max, asked & MSG_VMA_ZCOPY_FORCE != 0);
    let mut part = iovec {
        iov_base: buffer,
        iov_len: len,
    };
    let mut header = header_of(&mut part, from, from_len);
    let received = socket.and_then(|(engine, socket)| {
        call::cancellation_point();
        let into = (&mut header, Some(&mut sink));
        match socket {
            // SAFETY: buffer and address are the caller's, valid for recvfrom(2).
            AnySocket::Udp(udp) => unsafe { call::receive_into(engine, fd, udp, into, plain) },
            // SAFETY: as above.
            AnySocket::Tcp(stream) => unsafe {
                call::receive_stream_into(engine, fd, stream, into, plain)
            },
        }
    });
    let Some(received) = received else {
        // SAFETY: writable (checked above), and the caller's own.
        unsafe { flags.write_unaligned(plain) };
        // SAFETY: the arguments are the caller's own.
        return unsafe { real::recvfrom(fd, buffer, len, plain, from, from_len) } as c_int;
    };
    if received >= 0 && !from.is_null() && is_writable(from_len, size_of::<socklen_t>()) {
        // SAFETY: writable (checked above), and the caller's own.
        unsafe { from_len.write_unaligned(header.msg_namelen) };
    }
    let is_copied = sink.is_empty();
    // SAFETY: writable (checked above), and the caller's own.
    unsafe {
        flags.write_unaligned(match is_copied {
            true => plain,
            false => plain | MSG_VMA_ZCOPY,
        })
    };
    if let (false, Some((engine, socket))) = (is_copied, socket) {
        let _ = contained(|| {
            // SAFETY: there is room for so many packets (`packets_max`).
            unsafe { tell(buffer, len, engine.hold_packets(socket, sink)) };
        });
    }
    received as c_int
}

/// A message of one part, with the caller's room for an address.
fn header_of(part: &mut iovec, from: *mut sockaddr, from_len: *mut socklen_t) -> msghdr {
    // SAFETY: all-zero is a value of this struct of integers and pointers.
    let mut header: msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    if !from.is_null() && is_readable(from_len, size_of::<socklen_t>()) {
        header.msg_name = from.cast();
        // SAFETY: readable (checked above).
        header.msg_namelen = unsafe { from_len.read_unaligned() };
    }
    header
}

/// Writes a `vma_packets_t`.
///
/// # Safety
/// The buffer must be the caller's own, with room for it in `len` octets.
unsafe fn tell(buffer: *mut c_void, len: size_t, held: impl Iterator<Item = HeldPacket>) {
    let mut used = size_of::<Packets>();
    let mut n_packet_num = 0;
    for packet in held {
        if used + PACKET_BYTES > len || !is_writable(buffer, used + PACKET_BYTES) {
            break;
        }
        let at = buffer.wrapping_byte_add(used);
        let told = Packet {
            packet_id: ptr::without_provenance_mut(packet.id),
            sz_iov: 1,
        };
        let part = iovec {
            iov_base: packet.data.cast_mut().cast(),
            iov_len: packet.len,
        };
        // SAFETY: writable (checked above).
        unsafe { at.cast::<Packet>().write_unaligned(told) };
        let behind = at.wrapping_byte_add(size_of::<Packet>());
        // SAFETY: writable (checked above).
        unsafe { behind.cast::<iovec>().write_unaligned(part) };
        used += PACKET_BYTES;
        n_packet_num += 1;
    }
    if is_writable(buffer, used) {
        // SAFETY: writable (checked above).
        unsafe {
            buffer
                .cast::<Packets>()
                .write_unaligned(Packets { n_packet_num })
        };
    }
}

/// Gives packets back.
pub(super) unsafe extern "C" fn free_packets(
    fd: c_int,
    packets: *mut Packet,
    count: size_t,
) -> c_int {
    let Some((engine, socket)) = socket_behind(fd) else {
        return fail(libc::EINVAL);
    };
    // In what `recvfrom_zcopy` has written there are parts between packets, in arrays of the
    // program's own there are none. A part is no packet's number.
    let ids = (0..count).map(|index| {
        let close = packets.wrapping_add(index);
        let apart = packets.wrapping_byte_add(index * PACKET_BYTES);
        [close, apart].map(|packet| {
            // There are programs that have room for no more than the number.
            let id = packet.cast::<*mut c_void>();
            if !is_readable(id, size_of::<*mut c_void>()) {
                return 0;
            }
            // SAFETY: readable (checked above), and the caller's own.
            unsafe { id.read_unaligned() }.addr()
        })
    });
    match contained(|| engine.free_packets(socket, ids)) {
        Ok(Ok(())) => 0,
        Ok(Err(errno)) => fail(errno.0),
        Err(_) => fail(libc::EINVAL),
    }
}

/// A socket of ours.
pub(super) fn socket_behind(fd: c_int) -> Option<(&'static Engine<Device>, AnySocket<Device>)> {
    let udp = adoption::udp_to_receive(fd).map(|(engine, socket)| (engine, socket.into()));
    udp.or_else(|| runtime::stream(fd).map(|(engine, socket)| (engine, socket.into())))
}

const _: () = assert!(PACKET_BYTES == 32 && size_of::<ssize_t>() == 8);
