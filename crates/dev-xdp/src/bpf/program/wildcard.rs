//! The part of the XDP program that looks for ports which are redirected at any address of the
//! interface. One entry is enough for all of these, and most packets take two looks into arrays:
//! nothing that could be measured.

use std::os::fd::BorrowedFd;

use super::super::maps::{ANY_WITH_EXEMPTIONS, Tables};
use super::owner::Owners;
use super::{
    Assembler, Equal, Label, NotEqual, OCTET, PORT_KEY, PROTOCOL_UDP, R0, R1, R2, R7, R9, R10,
    Register, SLOT_INDEX, U8, U32, U64, V6_PORT_KEY, frame, ipv6, look_up,
};
use crate::bpf::insn::Width;

/// Where a packet has what counts here.
pub(super) struct Places {
    /// The register that it lies behind, and how far.
    port: (Register, i16),
    address: i16,
    /// The address in so many words.
    words: &'static [(i16, Width)],
    last_octet: i16,
    /// Where its key is put together.
    key: i16,
}

pub(super) const V4: Places = Places {
    port: (R7, frame::DESTINATION_PORT),
    address: frame::DESTINATION_ADDRESS,
    words: &[(0, U32)],
    last_octet: frame::DESTINATION_ADDRESS + 3,
    key: PORT_KEY,
};

/// Of a packet with options in front of its ports: the key is there already.
pub(super) const V4_WITH_OPTIONS: Places = Places {
    port: (R10, PORT_KEY + 4),
    ..V4
};

pub(super) const V6: Places = Places {
    port: (R7, ipv6::frame::DESTINATION_PORT),
    address: ipv6::frame::DESTINATION_ADDRESS,
    words: &[(0, U64), (8, U64)],
    last_octet: ipv6::frame::DESTINATION_ADDRESS + 15,
    // Its last part, which stays, lies behind the address.
    key: V6_PORT_KEY,
};

/// Jumps to `matched` with a packet that is ours, to `with_exemptions` with one whose port has
/// some, and goes on with others. R7 and R9 are as in the rest of the program; R0 to R2 are lost.
pub(super) fn steer<const PORT: usize, const FLOW: usize, const ADDRESS: usize>(
    a: &mut Assembler,
    maps: &Tables<PORT, FLOW, ADDRESS>,
    owners: Owners<'_>,
    places: &Places,
    matched: Label,
    with_exemptions: Label,
) {
    let other = a.label();
    let is_tcp = a.label();
    a.jump_if(R9, NotEqual, PROTOCOL_UDP, is_tcp);
    if owners.maps.is_some() {
        // A port of several processes.
        steer_by_octet(a, maps, 0, places, matched, with_exemptions);
    } else {
        look_for_port(a, maps.wildcards_fd(), 0, places, other);
        look_for_address(a, maps, places, other, |a| {
            a.jump_if(R0, NotEqual, 0, matched);
        });
    }
    a.jump_if(R9, Equal, PROTOCOL_UDP, other);

    a.place(is_tcp);
    steer_segment(a, maps, places, matched, with_exemptions);
    a.place(other);
}

/// The same of a TCP segment.
pub(super) fn steer_segment<const PORT: usize, const FLOW: usize, const ADDRESS: usize>(
    a: &mut Assembler,
    maps: &Tables<PORT, FLOW, ADDRESS>,
    places: &Places,
    matched: Label,
    with_exemptions: Label,
) {
    let first = Tables::<PORT, FLOW, ADDRESS>::FIRST_OF_TCP;
    steer_by_octet(a, maps, first, places, matched, with_exemptions);
}

/// The same where a port's octet says whether it has exemptions.
fn steer_by_octet<const PORT: usize, const FLOW: usize, const ADDRESS: usize>(
    a: &mut Assembler,
    maps: &Tables<PORT, FLOW, ADDRESS>,
    first: u32,
    places: &Places,
    matched: Label,
    with_exemptions: Label,
) {
    let other = a.label();
    look_for_port(a, maps.wildcards_fd(), first, places, other);
    a.store(U32, R10, OCTET, R1);
    look_for_address(a, maps, places, other, |a| {
        let is_not_there = a.label();
        a.jump_if(R0, Equal, 0, is_not_there);
        a.load(R1, U32, R10, OCTET);
        a.jump_if(R1, Equal, i32::from(ANY_WITH_EXEMPTIONS), with_exemptions);
        a.jump_if(R0, NotEqual, 0, matched);
        a.place(is_not_there);
    });
    a.place(other);
}

/// R1 = what the array says of the packet's port, of which the `first` of its protocol has this
/// place; jumps to `other` if that is nothing.
fn look_for_port(
    a: &mut Assembler,
    wildcards: BorrowedFd<'_>,
    first: u32,
    places: &Places,
    other: Label,
) {
    let (base, port) = places.port;
    a.load(R1, U8, base, port);
    if first != 0 {
        a.add(R1, first.cast_signed());
    }
    a.store(U32, R10, SLOT_INDEX, R1);
    look_up(a, wildcards, SLOT_INDEX);
    a.jump_if(R0, Equal, 0, other);
    a.load(R1, U8, base, port + 1);
    a.add(R0, R1);
    a.load(R1, U8, R0, 0);
    a.jump_if(R1, Equal, 0, other);
}

/// Does what `decide` says, which goes on if R0 is 0, and then goes on. Only for the interface's
/// own addresses R0 is not: the others are the kernel's to forward, or to refuse.
fn look_for_address<const PORT: usize, const FLOW: usize, const ADDRESS: usize>(
    a: &mut Assembler,
    maps: &Tables<PORT, FLOW, ADDRESS>,
    places: &Places,
    other: Label,
    decide: impl Fn(&mut Assembler),
) {
    let not_in_slot = a.label();
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
    decide(a);

    // Another one has the slot: the map says whether this one is there, at the price of a hash.
    a.place(not_in_slot);
    for (offset, width) in places.words {
        a.load(R1, *width, R7, places.address + offset);
        a.store(*width, R10, places.key + offset, R1);
    }
    look_up(a, maps.addresses.all_fd(), places.key);
    decide(a);
}
