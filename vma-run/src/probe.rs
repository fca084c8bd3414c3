//! An AF_XDP socket on a queue of an interface, opened and closed again: whether the kernel gives
//! one here, to this user.

use std::io;

use rustix::io::Errno;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpUmemReg, XdpUmemRegFlags};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// What the attempt came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    Yes,
    /// Somebody else has the queue.
    Busy,
    /// The step that failed, and why.
    No {
        step: &'static str,
        error: String,
    },
}

const CHUNK: u32 = 2048;
const PAGE: usize = 4096;
/// Frames of the attempt's memory, which nobody ever fills.
const LEN: usize = 16 * CHUNK as usize;
const ENTRIES: u32 = 16;

/// Tries queue 0 in copy mode, which leaves the device as it is. No XDP program is attached, so no
/// packet takes another way.
pub(crate) fn open(link_index: u32) -> Opened {
    match attempt(link_index) {
        Ok(()) => Opened::Yes,
        Err((_, Errno::BUSY)) => Opened::Busy,
        Err((step, error)) => Opened::No {
            step,
            error: io::Error::from(error).to_string(),
        },
    }
}

fn attempt(link_index: u32) -> Result<(), (&'static str, Errno)> {
    let at = |step| move |error| (step, error);
    let flags = SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
        .map_err(at("socket(AF_XDP)"))?;
    // The kernel pins the pages for itself until the socket has gone.
    let memory = vec![0_u8; LEN + PAGE];
    let addr = memory.as_ptr().addr().next_multiple_of(PAGE) as u64;
    let registration = XdpUmemReg {
        addr,
        len: LEN as u64,
        chunk_size: CHUNK,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(&socket, registration).map_err(at("XDP_UMEM_REG"))?;
    sockopt::set_xdp_umem_fill_ring_size(&socket, ENTRIES).map_err(at("XDP_UMEM_FILL_RING"))?;
    sockopt::set_xdp_umem_completion_ring_size(&socket, ENTRIES)
        .map_err(at("XDP_UMEM_COMPLETION_RING"))?;
    sockopt::set_xdp_rx_ring_size(&socket, ENTRIES).map_err(at("XDP_RX_RING"))?;
    let address = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, link_index, 0);
    net::bind(&socket, &address).map_err(at("bind"))?;
    drop(socket);
    drop(memory);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_queue_where_there_is_no_interface() {
        let opened = open(u32::MAX);
        // Without rights it fails earlier.
        assert!(matches!(opened, Opened::No { .. }), "{opened:?}");
    }
}
