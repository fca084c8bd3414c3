//! The part of the XDP program that looks at IPv4 with options in the header.

use super::super::maps::{EXEMPT, FLOW_KEY_BYTES, PORT_KEY_BYTES, Tables};
use super::group::look_for_birth;
use super::owner::Owners;
use super::{
    ACK_OR_RST, AnyBitOf, Assembler, Capacity, ETHERNET_HEADER_BYTES, Equal, FLOW_KEY,
    FRAGMENT_MASK, Greater, IP_HEADER_BYTES, KEY_SHIFTS, Label, NotEqual, PORT_KEY, PROTOCOL_TCP,
    R0, R1, R2, R3, R6, R7, R8, R9, R10, SYN, TCP_FLAGS, TCP_HEADER_BYTES, U8, U16, U32, U64,
    check_source, context, frame, in_memory, look_up, put_flow_key, wildcard,
};

/// Jumps to `matched` with a segment of a connection of ours, and to `pass` with all else:
/// datagrams, and segments that open a connection, for to what the options of these ask for only
/// the kernel answers. R1 is the header's first byte, the other registers are as in the rest of the
/// program.
pub(super) fn steer<const ADDRESS: usize>(
    a: &mut Assembler,
    maps: &Tables<PORT_KEY_BYTES, FLOW_KEY_BYTES, ADDRESS>,
    capacity: Capacity,
    owners: Owners<'_>,
    matched: Label,
    pass: Label,
) {
    a.load(R9, U8, R7, frame::PROTOCOL);
    a.jump_if(R9, NotEqual, PROTOCOL_TCP, pass);
    // R3 = as far behind the frame's first byte as the options are long. A number that is not known
    // beforehand could not be added without `CAP_PERFMON`.
    let is_placed = a.label();
    for words in 1..=OPTION_WORDS_MAX {
        let other = a.label();
        a.jump_if(R1, NotEqual, VERSION_4_NO_OPTIONS + words, other);
        a.mov(R3, R7);
        a.add(R3, 4 * words);
        a.jump_if(R9, Equal, PROTOCOL_TCP, is_placed);
        a.place(other);
    }
    a.jump_if(R9, Equal, PROTOCOL_TCP, pass);

    a.place(is_placed);
    a.mov(R1, R3);
    a.add(
        R1,
        ETHERNET_HEADER_BYTES + IP_HEADER_BYTES + TCP_HEADER_BYTES,
    );
    a.load(R2, U32, R6, context::DATA_END);
    a.jump_if(R1, Greater, R2, pass);
    a.load(R1, U16, R7, frame::FLAGS_AND_OFFSET);
    a.jump_if(R1, AnyBitOf, in_memory(FRAGMENT_MASK.to_be_bytes()), pass);
    check_source(a, pass);
    a.load(R1, U16, R7, frame::TOTAL_LENGTH);
    a.be16(R1);
    a.add(R1, ETHERNET_HEADER_BYTES);
    a.jump_if(R1, Greater, R8, pass);
    if !capacity.in_pieces {
        let frame_bytes = i32::try_from(capacity.frame_bytes).unwrap_or(i32::MAX);
        a.jump_if(R8, Greater, frame_bytes, pass);
    }

    let does_not_open = a.label();
    a.load(R1, U8, R3, frame::SOURCE_PORT + TCP_FLAGS);
    a.jump_if(R1, AnyBitOf, ACK_OR_RST, does_not_open);
    a.jump_if(R1, AnyBitOf, SYN, pass);
    a.place(does_not_open);

    // Both keys, as the rest of the program has them: a call keeps no R3.
    put_flow_key(a, R3);
    owners.note_port(a, R1);
    a.load(R8, U32, R7, frame::DESTINATION_ADDRESS);
    a.shift_left(R8, KEY_SHIFTS.address);
    a.shift_left(R1, KEY_SHIFTS.port);
    a.or(R8, R1);
    a.mov(R1, R9);
    a.shift_left(R1, KEY_SHIFTS.protocol);
    a.or(R8, R1);
    a.store(U64, R10, PORT_KEY, R8);

    let is_no_flow = a.label();
    look_up(a, maps.flows_fd(), FLOW_KEY);
    a.jump_if(R0, Equal, 0, is_no_flow);
    a.load(R1, U32, R0, 0);
    a.jump_if(R1, Equal, EXEMPT as i32, pass);
    owners.note_flow(a);
    a.jump_if(R0, NotEqual, 0, matched);
    a.place(is_no_flow);
    look_for_birth(a, owners, matched);
    look_up(a, maps.ports.all_fd(), PORT_KEY);
    a.jump_if(R0, NotEqual, 0, matched);
    wildcard::steer_segment(a, maps, &wildcard::V4_WITH_OPTIONS, matched, matched);
    a.jump_if(R9, Equal, PROTOCOL_TCP, pass);
}

const VERSION_4_NO_OPTIONS: i32 = 0x45;
const OPTION_WORDS_MAX: i32 = 10;
