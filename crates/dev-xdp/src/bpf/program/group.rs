//! The part of the XDP program that chooses between the processes which have a port together. A
//! connection is its opener's: the one that the SYN went to.

use super::super::maps::{FIRST_GROUP, OPENERS, OWNER_SHIFT, PRESENT};
use super::owner::Owners;
use super::{
    ACK_OR_RST, AnyBitOf, Assembler, Equal, FLOW_KEY, Greater, Label, Less, NotEqual, OWNER,
    PROTOCOL_UDP, R0, R1, R2, R3, R4, R6, R7, R9, R10, SLOT_INDEX, SYN, TCP_FLAGS, U8, U32,
    V6_FLOW_KEY, context, frame, ipv6, look_up,
};
use crate::bpf::insn::Helper;

/// Where packets of a version have what counts here.
#[derive(Clone, Copy)]
pub(super) struct Version {
    pub(super) is_v6: bool,
    /// The flow's key on the stack.
    key: i16,
    /// In that, four octets of the peer's address, and both ports.
    address: i16,
    both_ports: i16,
    /// In the frame in R7.
    pub(super) ports: i16,
}

pub(super) const V4: Version = Version {
    is_v6: false,
    key: FLOW_KEY,
    address: 0,
    both_ports: 8,
    ports: frame::SOURCE_PORT,
};

pub(super) const V6: Version = Version {
    is_v6: true,
    key: V6_FLOW_KEY,
    address: 12,
    both_ports: 32,
    ports: ipv6::frame::SOURCE_PORT,
};

/// A packet of no flow, whose key is on the stack: if its port is a group's jumps to `matched`,
/// with the owner noted, or to `pass`. Goes on with others. R0 to R4 are lost.
pub(super) fn choose(
    a: &mut Assembler,
    owners: Owners<'_>,
    version: Version,
    matched: Label,
    pass: Label,
) {
    let Some(maps) = owners.maps else {
        return;
    };
    let (no_group, opens, does_not_open) = (a.label(), a.label(), a.label());
    let (choose, is_fresh) = (a.label(), a.label());
    let births = maps.births_fd(version.is_v6);
    owners.look_up_port(a, pass);
    a.jump_if(R1, Less, i32::from(FIRST_GROUP), no_group);
    a.sub(R1, i32::from(FIRST_GROUP));
    a.store(U32, R10, SLOT_INDEX, R1);
    // A datagram.
    a.jump_if(R9, Equal, PROTOCOL_UDP, is_fresh);

    look_up(a, births, version.key);
    a.mov(R1, R7);
    a.add(R1, i32::from(version.ports + TCP_FLAGS) + 1);
    a.load(R2, U32, R6, context::DATA_END);
    a.jump_if(R1, Greater, R2, pass);
    a.load(R1, U8, R7, version.ports + TCP_FLAGS);
    a.jump_if(R1, AnyBitOf, ACK_OR_RST, does_not_open);
    a.jump_if(R1, AnyBitOf, SYN, opens);
    a.place(does_not_open);
    // The kernel's, or nobody's: then the kernel answers.
    a.jump_if(R0, Equal, 0, pass);
    a.load(R1, U32, R0, 0);
    a.store(U32, R10, OWNER, R1);
    a.jump_if(R0, NotEqual, 0, matched);

    // A SYN that is sent again goes where the first one went, if that process still takes any.
    a.place(opens);
    a.jump_if(R0, Equal, 0, is_fresh);
    a.load(R1, U32, R0, 0);
    a.store(U32, R10, OWNER, R1);
    look_up(a, maps.groups_fd(), SLOT_INDEX);
    a.jump_if(R0, Equal, 0, pass);
    a.load(R1, U32, R10, OWNER);
    a.shift_right(R1, OWNER_SHIFT);
    a.jump_if(R1, Greater, i32::from(FIRST_GROUP) - 1, choose);
    a.mov(R2, R0);
    a.add(R2, R1);
    a.load(R2, U8, R2, OPENERS);
    a.jump_if(R2, NotEqual, 0, matched);
    a.jump_if(R2, Equal, 0, choose);

    a.place(is_fresh);
    look_up(a, maps.groups_fd(), SLOT_INDEX);
    a.jump_if(R0, Equal, 0, pass);

    a.place(choose);
    choose_slot(a, version, pass);
    a.store(U32, R10, OWNER, R1);
    a.jump_if(R9, Equal, PROTOCOL_UDP, matched);
    a.load_map(R1, births);
    a.mov(R2, R10);
    a.add(R2, i32::from(version.key));
    a.mov(R3, R10);
    a.add(R3, i32::from(OWNER));
    a.mov(R4, 0);
    a.call(Helper::MapUpdateElement);
    a.jump_if(R0, NotEqual, 0, pass);
    a.jump_if(R0, Equal, 0, matched);
    a.place(no_group);
}

/// R1 = the value of a flow of the process in the slot by the hash of the peer's address and both
/// ports. R0 is the group.
fn choose_slot(a: &mut Assembler, version: Version, pass: Label) {
    a.load(R1, U32, R10, version.key + version.address);
    a.multiply(R1, FACTORS[0]);
    a.load(R2, U32, R10, version.key + version.both_ports);
    a.add(R1, R2);
    a.multiply(R1, FACTORS[1]);
    a.shift_left(R1, 32);
    a.shift_right(R1, 56);
    a.add(R0, R1);
    a.load(R1, U8, R0, 0);
    a.jump_if(R1, Greater, i32::from(FIRST_GROUP) - 1, pass);
    a.shift_left(R1, OWNER_SHIFT);
    a.or(R1, PRESENT.cast_signed());
}

/// Jumps to `matched` with a segment, with options in its header, of a connection that a peer has
/// opened without to a port of several processes. Its key is on the stack.
pub(super) fn look_for_birth(a: &mut Assembler, owners: Owners<'_>, matched: Label) {
    let Some(maps) = owners.maps else {
        return;
    };
    let is_no_birth = a.label();
    look_up(a, maps.births_fd(false), FLOW_KEY);
    a.jump_if(R0, Equal, 0, is_no_birth);
    a.load(R1, U32, R0, 0);
    owners.note_flow(a);
    a.jump_if(R0, NotEqual, 0, matched);
    a.place(is_no_birth);
}

/// Odd, and half their bits set: what changes anywhere below changes the upper octet of a half.
const FACTORS: [i32; 2] = [0x61c8_8647, 0x45d9_f3b5];
