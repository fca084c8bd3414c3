//! SocketXtreme: a program takes what has come by its rings, as it is in the library's memory.

use engine::{Completion, Errno, News, timespec_of_nsec};
use libc::{c_int, c_uint, sockaddr, sockaddr_in, socklen_t};
use vma_api::abi::{self, Buff, PacketDesc};

use super::buffers;
use super::packets::socket_behind;
use crate::guard::{contained, fail};
use crate::process_state::{Device, engine};

/// Events of a completion beside those of epoll.
const PACKET: u64 = 1 << 32;
const NEW_CONNECTION_ACCEPTED: u64 = 1 << 33;
/// More than one call has a use for.
const COMPLETIONS_MAX: usize = 1024;

/// `EOPNOTSUPP`, unless the program is one of SocketXtreme.
fn is_xtreme() -> bool {
    engine().is_some_and(|engine| engine.is_xtreme())
}

/// Takes what has come to the sockets of a ring.
pub(super) unsafe extern "C" fn socketxtreme_poll(
    fd: c_int,
    completions: *mut abi::Completion,
    count: c_uint,
    _flags: c_int,
) -> c_int {
    let Some(engine) = engine() else {
        return fail(libc::EOPNOTSUPP);
    };
    let max = (count as usize).min(COMPLETIONS_MAX);
    if completions.is_null() && max > 0 {
        return fail(libc::EINVAL);
    }
    let mut taken = 0;
    let found = contained(|| {
        let ring = engine.program_ring(fd)?;
        Ok(engine.complete(ring, max, |completion| {
            let place = completions.wrapping_add(taken);
            taken += 1;
            // SAFETY: the program has room for `count` of them.
            unsafe { place.write_unaligned(told(completion)) };
        }))
    });
    match found {
        Ok(Ok(count)) => c_int::try_from(count).unwrap_or(c_int::MAX),
        Ok(Err(Errno(errno))) => fail(errno),
        Err(_) => 0,
    }
}

fn told(completion: Completion<Device>) -> abi::Completion {
    // SAFETY: all-zero is a value of this struct of integers and pointers.
    let mut told: abi::Completion = unsafe { std::mem::zeroed() };
    told.user_data = completion.user_data;
    match completion.news {
        News::Packet(packet) => {
            told.events = PACKET;
            told.packet = PacketDesc {
                num_bufs: 1,
                total_len: packet.octets().len() as u16,
                buff_lst: buffers::lend(packet),
                hw_timestamp: timespec_of_nsec(completion.device_nsec),
            };
        }
        News::Events(events) => told.events = events.into(),
        News::Accepted(listener) => {
            told.events = NEW_CONNECTION_ACCEPTED;
            told.listen_fd = listener;
        }
    }
    if let Some(source) = completion.source {
        told.src = address(source);
    }
    told
}

/// There is room for an address of IPv4 only: of one of IPv6 the port is told.
fn address(address: std::net::SocketAddr) -> sockaddr_in {
    let (family, ip) = match address.ip() {
        std::net::IpAddr::V4(ip) => (libc::AF_INET, u32::from(ip).to_be()),
        std::net::IpAddr::V6(_) => (libc::AF_INET6, 0),
    };
    sockaddr_in {
        sin_family: family as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: ip },
        sin_zero: [0; 8],
    }
}

/// The program is through with packets.
pub(super) unsafe extern "C" fn socketxtreme_free_vma_packets(
    packets: *mut PacketDesc,
    count: c_int,
) -> c_int {
    if !is_xtreme() {
        return fail(libc::EOPNOTSUPP);
    }
    let Ok(count) = usize::try_from(count) else {
        return fail(libc::EINVAL);
    };
    let freed = contained(|| {
        for index in 0..count {
            let place = packets.wrapping_add(index);
            if !engine::user_memory::is_readable(place, size_of::<PacketDesc>()) {
                return None;
            }
            // SAFETY: readable (checked above), and the program's own.
            let packet = unsafe { place.read_unaligned() };
            buffers::free_list(packet.buff_lst)?;
        }
        Some(())
    });
    match freed {
        Ok(Some(())) => 0,
        _ => fail(libc::EINVAL),
    }
}

/// One user more of a buffer.
pub(super) unsafe extern "C" fn socketxtreme_ref_vma_buff(buff: *mut Buff) -> c_int {
    change(buff, buffers::keep)
}

/// One user less.
pub(super) unsafe extern "C" fn socketxtreme_free_vma_buff(buff: *mut Buff) -> c_int {
    change(buff, buffers::free)
}

fn change(buff: *mut Buff, change: impl FnOnce(*mut Buff) -> Option<u32>) -> c_int {
    if !is_xtreme() {
        return fail(libc::EOPNOTSUPP);
    }
    match contained(|| change(buff)) {
        Ok(Some(users)) => c_int::try_from(users).unwrap_or(c_int::MAX),
        _ => fail(libc::EINVAL),
    }
}

/// Those of a socket of ours; none of the kernel's.
fn rings_of(fd: c_int) -> Result<Vec<c_int>, c_int> {
    let Some((engine, socket)) = socket_behind(fd) else {
        return Err(libc::EINVAL);
    };
    contained(|| engine.rings_of(socket)).map_err(|_| libc::EINVAL)
}

/// How many rings a socket receives by.
pub(super) unsafe extern "C" fn get_socket_rings_num(fd: c_int) -> c_int {
    match rings_of(fd) {
        Ok(rings) => rings.len() as c_int,
        Err(errno) => fail(errno),
    }
}

/// Their descriptors.
pub(super) unsafe extern "C" fn get_socket_rings_fds(
    fd: c_int,
    ring_fds: *mut c_int,
    count: c_int,
) -> c_int {
    let Ok(count) = usize::try_from(count) else {
        return fail(libc::EINVAL);
    };
    if count == 0 || ring_fds.is_null() {
        return fail(libc::EINVAL);
    }
    match rings_of(fd) {
        Ok(rings) => {
            let given = rings.into_iter().take(count).enumerate();
            given
                .map(|(index, ring)| {
                    // SAFETY: the program has room for `count` of them.
                    unsafe { ring_fds.wrapping_add(index).write_unaligned(ring) };
                })
                .count() as c_int
        }
        Err(errno) => fail(errno),
    }
}

/// The ring by which a socket sends to an address: a device receives and sends by one.
pub(super) unsafe extern "C" fn get_socket_tx_ring_fd(
    fd: c_int,
    _to: *mut sockaddr,
    _len: socklen_t,
) -> c_int {
    match rings_of(fd) {
        Ok(rings) => rings
            .first()
            .copied()
            .unwrap_or_else(|| fail(libc::ENODATA)),
        Err(errno) => fail(errno),
    }
}
