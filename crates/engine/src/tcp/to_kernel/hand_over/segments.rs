//! Segments that came past the kernel, and are its.

use std::net::SocketAddr;

use links::family::link_of;

use ::tcp::{Flags, Header};
use wire::EthernetAddresses;
use wire::tcp::Template;

use super::{ETHERNET_HEADER_LEN, octets};
use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::tcp::state::moving::Moving;
use crate::tcp::state::unmatched::UnmatchedSegment;

/// Gives the kernel what has come so far.
pub(super) fn send_moving<S: Stack>(host: &Host<S>, moving: &mut Moving<S>) {
    let segments = moving.take_segments();
    if let Some(raw) = host.return_socket() {
        for (header, data) in &segments {
            send_parts(raw, moving.local, moving.peer, header, data);
        }
    }
}

/// Has this host receive a segment of the peer's.
pub(in crate::tcp) fn send_on(raw: &sys::RawSocket, segment: &UnmatchedSegment) {
    send_parts(
        raw,
        segment.local,
        segment.peer,
        &segment.header,
        &segment.data,
    );
}

/// Segments that were merged may be longer than what can be sent.
pub(super) fn send_parts(
    raw: &sys::RawSocket,
    local: SocketAddr,
    peer: SocketAddr,
    header: &Header,
    data: &[u8],
) {
    for (index, part) in parts_of(data).enumerate() {
        let is_last = (index + 1) * PART_BYTES >= data.len();
        let header = header_of_part(header, index, is_last);
        if let Some(packet) = packet(local, peer, &header, part) {
            raw.send(&packet, link_of(local, peer));
        }
    }
}

/// What goes into a packet to this host itself.
pub(super) const PART_BYTES: usize = 1400;

/// One part at least.
pub(super) fn parts_of(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let empty = data.is_empty().then_some(&[][..]);
    empty.into_iter().chain(data.chunks(PART_BYTES))
}

fn header_of_part(header: &Header, index: usize, is_last: bool) -> Header {
    let mut flags = header.flags;
    if !is_last {
        let last_only = Flags::FIN | Flags::PSH;
        flags = Flags::from_bits(flags.bits() & !last_only.bits());
    }
    Header {
        seq: header.seq.wrapping_add(octets(index * PART_BYTES)),
        flags,
        ..*header
    }
}

/// A segment of the peer's as an IPv4 packet.
pub(in crate::tcp) fn packet(
    local: SocketAddr,
    peer: SocketAddr,
    header: &Header,
    data: &[u8],
) -> Option<Vec<u8>> {
    let nowhere = EthernetAddresses {
        source: [0; 6],
        destination: [0; 6],
    };
    let template = Template::new(nowhere, peer, local, 64, 0, true);
    let mut frame = vec![0; Template::MAX_HEADERS_LEN + data.len()];
    let len = template.emit(&mut frame, 0, 0, header, [data])?;
    frame.truncate(len);
    Some(frame.split_off(ETHERNET_HEADER_LEN))
}
