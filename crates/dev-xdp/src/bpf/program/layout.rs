//! Where things are: in a frame, in the context, on the stack.

use crate::bpf::maps::{FLOW_KEY_BYTES, PORT_KEY_BYTES, V6_FLOW_KEY_BYTES, V6_PORT_KEY_BYTES};
use crate::bpf::syscall::Name;

/// Offsets in the context (`struct xdp_md`).
pub(super) mod context {
    pub(in crate::bpf::program) const DATA: i16 = 0;
    pub(in crate::bpf::program) const DATA_END: i16 = 4;
    pub(in crate::bpf::program) const DATA_META: i16 = 8;
    pub(in crate::bpf::program) const RX_QUEUE_INDEX: i16 = 16;
}

/// Offsets in a frame with UDP in IPv4 without options.
pub(super) mod frame {
    pub(in crate::bpf::program) const DESTINATION_MAC: i16 = 0;
    pub(in crate::bpf::program) const ETHER_TYPE: i16 = 12;
    pub(in crate::bpf::program) const VERSION_AND_IHL: i16 = 14;
    pub(in crate::bpf::program) const TOTAL_LENGTH: i16 = 16;
    pub(in crate::bpf::program) const FLAGS_AND_OFFSET: i16 = 20;
    pub(in crate::bpf::program) const PROTOCOL: i16 = 23;
    pub(in crate::bpf::program) const SOURCE_ADDRESS: i16 = 26;
    pub(in crate::bpf::program) const DESTINATION_ADDRESS: i16 = 30;
    pub(in crate::bpf::program) const SOURCE_PORT: i16 = 34;
    pub(in crate::bpf::program) const DESTINATION_PORT: i16 = 36;
    pub(in crate::bpf::program) const UDP_LENGTH: i16 = 38;
    pub(in crate::bpf::program) const HEADERS_BYTES: i32 = 42;
}

/// An ARP packet for IPv4 in Ethernet (RFC 826): offsets in the frame, and values.
pub(super) mod arp {
    pub(in crate::bpf::program) const LEN: i32 = 42;
    pub(in crate::bpf::program) const ETHER_TYPE: u16 = 0x0806;
    pub(in crate::bpf::program) const OPERATION: i16 = 20;
    pub(in crate::bpf::program) const REPLY: u16 = 2;
    pub(in crate::bpf::program) const TARGET_ADDRESS: i16 = 38;
}

pub(super) const ETHER_TYPE_IPV4: [u8; 2] = [0x08, 0x00];
/// "More fragments" and the fragment offset.
pub(super) const FRAGMENT_MASK: u16 = 0x3fff;
pub(super) const ETHERNET_HEADER_BYTES: i32 = 14;
pub(super) const IP_HEADER_BYTES: i32 = 20;
pub(super) const PROTOCOL_UDP: i32 = dev_core::Protocol::Udp as i32;
pub(super) const UDP_HEADER_BYTES: i32 = 8;
pub(in crate::bpf) const PROTOCOL_TCP: i32 = dev_core::Protocol::Tcp as i32;
pub(super) const TCP_HEADER_BYTES: i32 = 20;
/// Where a segment's flags are, from its ports on.
pub(super) const TCP_FLAGS: i16 = 13;
pub(super) const SYN: i32 = 0x02;
pub(super) const ACK_OR_RST: i32 = 0x14;

/// How far left address, port and protocol are in the eight bytes of a port's key, seen as a number
/// in the machine's order.
pub(super) const KEY_SHIFTS: KeyShifts = if cfg!(target_endian = "little") {
    KeyShifts {
        address: 0,
        port: 32,
        protocol: 48,
    }
} else {
    KeyShifts {
        address: 32,
        port: 16,
        protocol: 8,
    }
};

/// In bits.
pub(super) struct KeyShifts {
    pub(super) address: i32,
    pub(super) port: i32,
    pub(super) protocol: i32,
}

/// Where the keys are, from the end of the stack frame.
pub(super) const PORT_KEY: i16 = -8;
pub(super) const FLOW_KEY: i16 = -24;
pub(super) const SLOT_INDEX: i16 = -28;
pub(super) const TAG: i16 = -32;
/// The two are needed one after the other.
pub(super) const OCTET: i16 = TAG;
pub(super) const IN_SLOT: i16 = -40;
/// Nothing else is needed any more.
pub(super) const DEVICE_TIME: i16 = IN_SLOT;
pub(super) const V6_PORT_KEY: i16 = -56;
pub(super) const V6_FLOW_KEY: i16 = -96;
/// Where several processes have the interface: whose the packet is as far as its flow says, and the
/// port that it is for.
pub(super) const OWNER: i16 = -100;
pub(super) const OWNED_PORT: i16 = -104;
/// Nothing is kept from here on.
pub(super) const BELOW_KEYS: i16 = -104;
const _: () = assert!(PORT_KEY_BYTES == 8 && FLOW_KEY_BYTES == 16);
const _: () = assert!(V6_PORT_KEY_BYTES == 24 && V6_FLOW_KEY_BYTES == 40);

pub(super) const FLOOR_NAME: [u8; 16] = *b"vma_floor\0\0\0\0\0\0\0";
pub(super) const PROGRAM_NAME: Name = *b"vma_xdp\0\0\0\0\0\0\0\0\0";
