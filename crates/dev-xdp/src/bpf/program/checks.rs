//! What a packet must be to be taken.

use super::*;

/// Jumps to `pass` if the packet in R7 carries neither UDP nor TCP, by the protocol in R9, or is
/// not as long as it should be. R1 is the length of its payload and of `header_bytes` before it, R8
/// that of the frame.
pub(super) fn check_transport(
    a: &mut Assembler,
    capacity: Capacity,
    udp_length: i16,
    header_bytes: i32,
    pass: Label,
) {
    let is_udp = a.label();
    let is_good = a.label();
    let frame_bytes = i32::try_from(capacity.frame_bytes).unwrap_or(i32::MAX);
    a.jump_if(R9, Equal, PROTOCOL_UDP, is_udp);
    a.jump_if(R9, NotEqual, PROTOCOL_TCP, pass);

    // TCP has its ports at the same place, and the rest of its header is the stack's to check. The
    // segments of a connection must not be split between two stacks: what is longer than a receive
    // buffer comes in pieces where that is possible.
    if !capacity.in_pieces {
        a.jump_if(R8, Greater, frame_bytes, pass);
    }
    a.jump_if(R1, Less, header_bytes + TCP_HEADER_BYTES, pass);
    a.jump_if(R9, Equal, PROTOCOL_TCP, is_good);

    // UDP: the frame fits into a receive buffer; its length is that of the IP payload, and covers
    // at least its header.
    a.place(is_udp);
    a.jump_if(R8, Greater, frame_bytes, pass);
    a.load(R2, U16, R7, udp_length);
    a.be16(R2);
    a.jump_if(R2, Less, UDP_HEADER_BYTES, pass);
    if header_bytes > 0 {
        a.sub(R1, header_bytes);
    }
    a.jump_if(R1, NotEqual, R2, pass);
    a.place(is_good);
}

/// Jumps to `pass` unless the packet is from a source that the kernel believes: not this network
/// (0/8), loopback (127/8), multicast or reserved (224/3), and not ourselves. What to do with the
/// others is the kernel's decision (`ip_route_input_slow`).
pub(super) fn check_source(a: &mut Assembler, pass: Label) {
    a.load(R1, U8, R7, frame::SOURCE_ADDRESS);
    a.jump_if(R1, Equal, 0, pass);
    a.jump_if(R1, Equal, 127, pass);
    a.jump_if(R1, Greater, 223, pass);
    a.load(R1, U32, R7, frame::SOURCE_ADDRESS);
    a.load(R2, U32, R7, frame::DESTINATION_ADDRESS);
    a.jump_if(R1, Equal, R2, pass);
}

/// Jumps to `is_ipv4` if the frame is of IPv4 and the rest of its Ethernet address that of the IP
/// packet's multicast group (RFC 1112 §6.4: 01:00:5e and the lower 23 bits), else to `pass`. A
/// frame with another pair of addresses is the kernel's to judge.
pub(super) fn check_group_mac(a: &mut Assembler, is_ipv4: Label, pass: Label) {
    a.load(R1, U16, R7, frame::ETHER_TYPE);
    a.jump_if(R1, NotEqual, in_memory(ETHER_TYPE_IPV4), pass);
    a.load(R1, U8, R7, frame::DESTINATION_ADDRESS);
    a.jump_if(R1, Less, 224, pass);
    a.jump_if(R1, Greater, 239, pass);
    a.load(R1, U8, R7, frame::DESTINATION_MAC + 2);
    a.jump_if(R1, NotEqual, 0x5e, pass);
    a.load(R1, U16, R7, frame::DESTINATION_MAC + 4);
    a.load(R2, U16, R7, frame::DESTINATION_ADDRESS + 2);
    a.jump_if(R1, NotEqual, R2, pass);
    a.load(R1, U8, R7, frame::DESTINATION_MAC + 3);
    a.jump_if(R1, Greater, 127, pass);
    a.load(R2, U8, R7, frame::DESTINATION_ADDRESS + 1);
    a.jump_if(R1, Equal, R2, is_ipv4);
    // The highest bit is not in the Ethernet address.
    a.sub(R2, 128);
    a.jump_if(R1, Equal, R2, is_ipv4);
    a.jump_if(R1, NotEqual, R2, pass);
}
