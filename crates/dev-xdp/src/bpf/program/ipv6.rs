//! The part of the XDP program that looks at IPv6.

use super::super::maps::V6Tables;
use super::decision::{decide, flows_of_port};
use super::owner::Owners;
use super::{
    Assembler, Capacity, Equal, Greater, KeyShifts, Label, Less, NotEqual, R0, R1, R2, R6, R7, R8,
    R9, R10, SLOT_INDEX, U8, U16, U32, U64, V6_FLOW_KEY, V6_PORT_KEY, check_transport, context,
    in_memory, look_up, wildcard,
};

/// Jumps to `pass` with a frame that is not ours, and goes on or jumps to `matched` with one that
/// is. R1 is the EtherType, the other registers are as in the rest of the program.
///
/// A packet with an extension header is the kernel's, a fragment among them, and so is ICMPv6 with
/// all that neighbours say.
pub(super) fn steer(
    a: &mut Assembler,
    maps: &V6Tables,
    capacity: Capacity,
    owners: Owners<'_>,
    matched: Label,
    pass: Label,
) {
    a.jump_if(R1, NotEqual, in_memory(ETHER_TYPE), pass);
    a.mov(R1, R7);
    a.add(R1, frame::HEADERS_BYTES);
    a.load(R2, U32, R6, context::DATA_END);
    a.jump_if(R1, Greater, R2, pass);
    a.load(R1, U8, R7, frame::VERSION);
    a.jump_if(R1, Less, 0x60, pass);
    a.jump_if(R1, Greater, 0x6f, pass);

    // From a source that the kernel believes: not multicast (ff00::/8), and not of 0::/64, where
    // the unspecified address, loopback and those of IPv4 are. What to do with the others is the
    // kernel's decision (`ip6_rcv_core`), and with our own address, too.
    let is_foreign = a.label();
    a.load(R1, U8, R7, frame::SOURCE_ADDRESS);
    a.jump_if(R1, Equal, 0xff, pass);
    a.load(R1, U64, R7, frame::SOURCE_ADDRESS);
    a.jump_if(R1, Equal, 0, pass);
    a.load(R2, U64, R7, frame::DESTINATION_ADDRESS);
    a.jump_if(R1, NotEqual, R2, is_foreign);
    a.load(R1, U64, R7, frame::SOURCE_ADDRESS + 8);
    a.load(R2, U64, R7, frame::DESTINATION_ADDRESS + 8);
    a.jump_if(R1, Equal, R2, pass);
    a.place(is_foreign);

    // R1 = length behind the header, and the frame must reach so far. What lies behind is padding.
    // Of a jumbogram it is zero.
    a.load(R1, U16, R7, frame::PAYLOAD_LENGTH);
    a.be16(R1);
    a.mov(R2, R1);
    a.add(R2, frame::IP_HEADERS_BYTES);
    a.jump_if(R2, Greater, R8, pass);
    a.load(R9, U8, R7, frame::NEXT_HEADER);
    check_transport(a, capacity, frame::UDP_LENGTH, 0, pass);

    // Is the port one of ours? The key, as `maps` builds it; its last part is in R8, too.
    a.load(R1, U64, R7, frame::DESTINATION_ADDRESS);
    a.store(U64, R10, V6_PORT_KEY, R1);
    a.load(R1, U64, R7, frame::DESTINATION_ADDRESS + 8);
    a.store(U64, R10, V6_PORT_KEY + 8, R1);
    a.load(R8, U16, R7, frame::DESTINATION_PORT);
    owners.note_port(a, R8);
    a.shift_left(R8, KEY_SHIFTS.port);
    a.mov(R1, R9);
    a.shift_left(R1, KEY_SHIFTS.protocol);
    a.or(R8, R1);
    a.store(U64, R10, V6_PORT_KEY + 16, R8);

    // At any address of the interface, perhaps.
    let with_exemptions = a.label();
    wildcard::steer(a, maps, owners, &wildcard::V6, matched, with_exemptions);

    // Mostly it is the one in the slot of its lower byte. If the slot is empty, no port is for
    // everybody that would have it.
    let not_in_slot = a.label();
    let not_for_all = a.label();
    a.load(R1, U8, R7, frame::DESTINATION_PORT + 1);
    a.store(U32, R10, SLOT_INDEX, R1);
    look_up(a, maps.ports.slots_fd(), SLOT_INDEX);
    a.jump_if(R0, Equal, 0, pass);
    a.load(R1, U64, R0, 16);
    a.jump_if(R1, Equal, 0, not_for_all);
    a.jump_if(R1, NotEqual, R8, not_in_slot);
    a.load(R1, U64, R0, 0);
    a.load(R2, U64, R7, frame::DESTINATION_ADDRESS);
    a.jump_if(R1, NotEqual, R2, not_in_slot);
    a.load(R1, U64, R0, 8);
    a.load(R2, U64, R7, frame::DESTINATION_ADDRESS + 8);
    a.jump_if(R1, Equal, R2, matched);

    a.place(not_in_slot);
    look_up(a, maps.ports.all_fd(), V6_PORT_KEY);
    a.jump_if(R0, Equal, 0, not_for_all);
    let flows = flows_of_port(a, matched, with_exemptions);

    // Is this one of the flows? Both addresses and both ports lie as in the key.
    a.place(not_for_all);
    a.mov(R8, 0);
    a.place(flows);
    for offset in [0, 8, 16, 24] {
        a.load(R1, U64, R7, frame::SOURCE_ADDRESS + offset);
        a.store(U64, R10, V6_FLOW_KEY + offset, R1);
    }
    a.load(R1, U32, R7, frame::SOURCE_PORT);
    a.store(U32, R10, V6_FLOW_KEY + 32, R1);
    a.store(U32, R10, V6_FLOW_KEY + 36, 0);
    a.store(U8, R10, V6_FLOW_KEY + 36, R9);
    look_up(a, maps.flows_fd(), V6_FLOW_KEY);
    decide(a, owners, super::group::V6, matched, pass);
    a.jump_if(R0, Equal, 0, pass);
}

/// Goes on, with the EtherType in R1, with a frame of IPv6 whose Ethernet address is that of the
/// packet's multicast group (RFC 2464 §7: 33:33 and the lower 32 bits), and jumps to `pass` with
/// others. R1 is the upper third of that address.
pub(super) fn check_group_mac(a: &mut Assembler, pass: Label) {
    a.jump_if(R1, NotEqual, in_memory([0x33, 0x33]), pass);
    a.mov(R1, R7);
    a.add(R1, frame::HEADERS_BYTES);
    a.load(R2, U32, R6, context::DATA_END);
    a.jump_if(R1, Greater, R2, pass);
    a.load(R1, U8, R7, frame::DESTINATION_ADDRESS);
    a.jump_if(R1, NotEqual, 0xff, pass);
    for offset in [0, 2] {
        a.load(R1, U16, R7, frame::DESTINATION_MAC + 2 + offset);
        a.load(R2, U16, R7, frame::DESTINATION_ADDRESS + 12 + offset);
        a.jump_if(R1, NotEqual, R2, pass);
    }
    a.load(R1, U16, R7, frame::ETHER_TYPE);
    a.jump_if(R1, NotEqual, in_memory(ETHER_TYPE), pass);
}

/// Offsets in a frame with UDP in IPv6.
pub(super) mod frame {
    pub(in super::super) const DESTINATION_MAC: i16 = 0;
    pub(in super::super) const ETHER_TYPE: i16 = 12;
    pub(in super::super) const VERSION: i16 = 14;
    pub(in super::super) const PAYLOAD_LENGTH: i16 = 18;
    pub(in super::super) const NEXT_HEADER: i16 = 20;
    pub(in super::super) const SOURCE_ADDRESS: i16 = 22;
    pub(in super::super) const DESTINATION_ADDRESS: i16 = 38;
    pub(in super::super) const SOURCE_PORT: i16 = 54;
    pub(in super::super) const DESTINATION_PORT: i16 = 56;
    pub(in super::super) const UDP_LENGTH: i16 = 58;
    pub(in super::super) const HEADERS_BYTES: i32 = 62;
    /// Those of Ethernet and IPv6.
    pub(in super::super) const IP_HEADERS_BYTES: i32 = 54;
}

const ETHER_TYPE: [u8; 2] = [0x86, 0xdd];

/// How far left port and protocol are in the last eight bytes of a port's key.
const KEY_SHIFTS: KeyShifts = if cfg!(target_endian = "little") {
    KeyShifts {
        address: 0,
        port: 0,
        protocol: 16,
    }
} else {
    KeyShifts {
        address: 0,
        port: 48,
        protocol: 40,
    }
};
