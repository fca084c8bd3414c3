//! How large frames are, and where their memory comes from: `VMA_MEM_ALLOC_TYPE`.

use std::io;

use dev_core::{FrameMemory, FramePool, HUGE_PAGE_BYTES, MemoryKind};

use crate::network::InterfaceFacts;
use crate::notice::warn_in_a_box;
use crate::settings::Settings;

/// What AF_XDP takes as a frame (kernel `net/xdp/xdp_umem.c`): a power of two, from this ...
const FRAME_BYTES_MIN: u16 = 2048;
/// ... to a page.
const FRAME_BYTES_MAX: u16 = 4096;
/// Bytes of a frame that hold nothing of an IP packet: what the kernel keeps free in front
/// (`XDP_PACKET_HEADROOM`), and the Ethernet header.
const OVERHEAD_BYTES: u32 = 256 + 14;

/// Bytes of a frame: so many that the packets of every interface fit, if any frame is large enough.
/// An interface that comes later, or whose MTU grows, has to do with them.
pub fn frame_bytes(interfaces: &[InterfaceFacts]) -> u16 {
    let usable = interfaces.iter().filter(|it| it.is_usable());
    let mtus = usable.map(|it| it.spec.mtu);
    match mtus.max() {
        Some(mtu) if mtu > u32::from(FRAME_BYTES_MIN) - OVERHEAD_BYTES => FRAME_BYTES_MAX,
        _ => FRAME_BYTES_MIN,
    }
}

/// What to say of an interface with packets that do not fit into a frame; empty if all do.
pub fn note_on_mtu(mtu: u32, mtu_max: u32) -> String {
    if mtu <= mtu_max {
        return String::new();
    }
    let payload_max = mtu_max - IP_UDP_HEADERS_BYTES;
    format!(
        "the MTU is {mtu}, and a frame holds {mtu_max}: datagrams of more than {payload_max} bytes go through the kernel"
    )
}

const IP_UDP_HEADERS_BYTES: u32 = 28;

/// Makes the pool of the pages that are asked for, or of ordinary ones. Who asked for huge pages is
/// told if there are none.
pub fn make_pool(settings: &Settings, frame_bytes: u16) -> io::Result<FramePool> {
    if let Some(allocate) = settings.program_memory {
        let bytes = settings.pool_frames as usize * usize::from(frame_bytes);
        // SAFETY: what the program has promised of its function.
        match unsafe { FrameMemory::of_program(bytes, allocate) } {
            Ok(memory) => {
                let mode = settings.thread_mode;
                return Ok(FramePool::in_memory(memory, frame_bytes, mode));
            }
            Err(error) => log::warn!("frames in memory of the program's, {bytes} bytes: {error}"),
        }
    }
    let make = |pages| {
        FramePool::with_pages(
            settings.pool_frames,
            frame_bytes,
            settings.thread_mode,
            pages,
        )
    };
    if settings.memory != MemoryKind::HugePages {
        return make(settings.memory);
    }
    make(MemoryKind::HugePages).or_else(|error| {
        let needed =
            (settings.pool_frames as usize * usize::from(frame_bytes)).div_ceil(HUGE_PAGE_BYTES);
        if settings.memory_is_asked_for {
            warn_in_a_box(&no_huge_pages(needed));
        } else {
            log::debug!("no reserved huge pages for frames, {needed} of 2 MiB: {error}");
        }
        make(MemoryKind::Contiguous)
    })
}

fn no_huge_pages(needed: usize) -> [String; 5] {
    [
        "NO IMMEDIATE ACTION NEEDED!".to_owned(),
        "Not enough hugepage resources for VMA memory allocation.".to_owned(),
        "VMA will continue working with regular memory allocation.".to_owned(),
        format!("Each process takes {needed} pages of 2 MiB: raise /proc/sys/vm/nr_hugepages,"),
        "or choose another kind of memory with VMA_MEM_ALLOC_TYPE.".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use dev_core::LinkSpec;

    use super::*;

    fn interface(mtu: u32, eligible: bool, up: bool) -> InterfaceFacts {
        InterfaceFacts {
            spec: LinkSpec {
                index: 2,
                name: "eth0".to_owned(),
                mac: [2; 6],
                mtu,
                upper: None,
            },
            addresses: Vec::new(),
            up,
            loopback: false,
            obstacle: if eligible { "" } else { "a bridge" }.to_owned(),
        }
    }

    #[test]
    fn frames_are_large_where_an_interface_needs_it() {
        let bytes = |mtus: &[u32]| {
            let all: Vec<_> = mtus.iter().map(|mtu| interface(*mtu, true, true)).collect();
            frame_bytes(&all)
        };
        assert_eq!(bytes(&[]), 2048);
        assert_eq!((bytes(&[1500, 1778]), bytes(&[1500, 1779])), (2048, 4096));
        assert_eq!(bytes(&[9000]), 4096);
        assert_eq!(
            frame_bytes(&[interface(9000, false, true), interface(9000, true, false)]),
            2048
        );
    }

    #[test]
    fn the_note_names_mtu_and_limit() {
        assert_eq!(note_on_mtu(3826, 3826), "");
        let note = note_on_mtu(9000, 3826);
        assert!(
            note.contains("9000") && note.contains("3826") && note.contains("3798"),
            "{note}"
        );
    }
}
