//! The part of the XDP program that looks for UDP ports which are redirected at any address of the interface. One entry is enough for all
//! of these, and most packets take two looks into arrays: nothing that could be measured.

use super::super::maps::Tables;
use super::{
    Assembler, Equal, Label, NotEqual, PORT_KEY, PROTOCOL_UDP, R0, R1, R2, R7, R9, R10, SLOT_INDEX,
    U8, U32, U64, V6_PORT_KEY, frame, ipv6, look_up,
};
use crate::bpf::insn::Width;

/// Where a packet has what counts here.
pub(super) struct Places {
    port: i16,
    address: i16,
    /// The address in so many words.
    words: &'static [(i16, Width)],
    last_octet: i16,
    /// Where its key is put together.
    key: i16,
}

pub(super) const V4: Places = Places {
    port: frame::DESTINATION_PORT,
    address: frame::DESTINATION_ADDRESS,
    words: &[(0, U32)],
    last_octet: frame::DESTINATION_ADDRESS + 3,
    key: PORT_KEY,
};

pub(super) const V6: Places = Places {
    port: ipv6::frame::DESTINATION_PORT,
    address: ipv6::frame::DESTINATION_ADDRESS,
    words: &[(0, U64), (8, U64)],
    last_octet: ipv6::frame::DESTINATION_ADDRESS + 15,
    // Its last part, which stays, lies behind the address.
    key: V6_PORT_KEY,
};

/// Jumps to `matched` with a packet that is ours, and goes on with others. R7 and R9 are as in the rest of the program; R0 to R2 are lost.
pub(super) fn steer<const PORT: usize, const FLOW: usize, const ADDRESS: usize>(
    a: &mut Assembler,
    maps: &Tables<PORT, FLOW, ADDRESS>,
    places: &Places,
    matched: Label,
) {
    let other = a.label();
    let not_in_slot = a.label();
    a.jump_if(R9, NotEqual, PROTOCOL_UDP, other);
    a.load(R1, U8, R7, places.port);
    a.store(U32, R10, SLOT_INDEX, R1);
    look_up(a, maps.wildcards_fd(), SLOT_INDEX);
    a.jump_if(R0, Equal, 0, other);
    a.load(R1, U8, R7, places.port + 1);
    a.add(R0, R1);
    a.load(R1, U8, R0, 0);
    a.jump_if(R1, Equal, 0, other);

    // Only for the interface's own addresses: the others are the kernel's to forward, or to refuse.
    a.load(R1, U8, R7, places.last_octet);
    a.store(U32, R10, SLOT_INDEX, R1);
    look_up(a, maps.addresses.slots_fd(), SLOT_INDEX);
    a.jump_if(R0, Equal, 0, other);
    for (offset, width) in places.words {
        a.load(R1, *width, R0, *offset);
        a.jump_if(R1, Equal, 0, if *offset == 0 { other } else { not_in_slot });
        a.load(R2, *width, R7, places.address + offset);
        a.jump_if(R1, NotEqual, R2, not_in_slot);
    }
    a.jump_if(R0, NotEqual, 0, matched);

    // Another one has the slot: the map says whether this one is there, at the price of a hash.
    a.place(not_in_slot);
    for (offset, width) in places.words {
        a.load(R1, *width, R7, places.address + offset);
        a.store(*width, R10, places.key + offset, R1);
    }
    look_up(a, maps.addresses.all_fd(), places.key);
    a.jump_if(R0, NotEqual, 0, matched);
    a.place(other);
}
