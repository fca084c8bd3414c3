//! Connections that nobody has accepted yet, and that their process cannot put into the queue of
//! the kernel's listening socket for lack of rights: the broker does so.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use dev_core::{Admission, Agreed, Clocks, Protocol, ReceivingHost, WindowShifts};
use rustix::fs::{MemfdFlags, memfd_create};

use super::membership::Membership;
use super::message::Request;

/// What a connection may have received that nobody has read.
const PACKETS_MAX: u64 = 16 << 20;
/// In front of each packet.
const LEN_BYTES: usize = 4;

/// A process's way to have it done.
#[derive(Debug)]
pub(crate) struct ByBroker(pub(crate) Arc<Membership>);

impl Admission for ByBroker {
    fn admit(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        agreed: &Agreed,
        packets: &[Vec<u8>],
        _kernel: &dyn ReceivingHost,
    ) -> io::Result<()> {
        let mut file = File::from(memfd_create("vma_packets", MemfdFlags::CLOEXEC)?);
        for packet in packets {
            file.write_all(&(packet.len() as u32).to_ne_bytes())?;
            file.write_all(packet)?;
        }
        let mut question = Request::Admit(Protocol::Tcp, local, peer).encode();
        question.extend(encode(agreed));
        self.0.ask_with(&question, &[file.as_fd()])
    }
}

/// The packets in a file that a process has passed. `None`: they are none.
pub(super) fn packets_in(file: &OwnedFd) -> Option<Vec<Vec<u8>>> {
    let mut file = File::from(file.try_clone().ok()?);
    // From the beginning, wherever the process is in it.
    file.rewind().ok()?;
    let mut octets = Vec::new();
    let read = file.take(PACKETS_MAX + 1).read_to_end(&mut octets).ok()?;
    if read as u64 > PACKETS_MAX {
        return None;
    }
    let mut rest = &octets[..];
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let mut len = [0; LEN_BYTES];
        rest.read_exact(&mut len).ok()?;
        let (packet, behind) = rest.split_at_checked(u32::from_ne_bytes(len) as usize)?;
        packets.push(packet.to_vec());
        rest = behind;
    }
    Some(packets)
}

/// Whether an IP packet is a segment from the peer to the local end.
pub(super) fn is_between(packet: &[u8], local: SocketAddr, peer: SocketAddr) -> bool {
    let has = |at: usize, octets: &[u8]| packet.get(at..at + octets.len()) == Some(octets);
    let ends = [peer.port().to_be_bytes(), local.port().to_be_bytes()].concat();
    let tcp = [Protocol::Tcp as u8];
    match (peer.ip(), local.ip()) {
        // Without options.
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            has(0, &[0x45])
                && has(9, &tcp)
                && has(12, &from.octets())
                && has(16, &to.octets())
                && has(20, &ends)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            packet.first().is_some_and(|it| it >> 4 == 6)
                && has(6, &tcp)
                && has(8, &from.octets())
                && has(24, &to.octets())
                && has(40, &ends)
        }
        _ => false,
    }
}

fn encode(agreed: &Agreed) -> Vec<u8> {
    let mut octets = agreed.peer_mss.to_ne_bytes().to_vec();
    let scales = agreed.window_scales;
    let clocks = agreed.timestamps;
    octets.extend([
        u8::from(scales.is_some()),
        scales.map_or(0, |it| it.send),
        scales.map_or(0, |it| it.receive),
        u8::from(agreed.has_sack),
        u8::from(agreed.has_ecn),
        u8::from(clocks.is_some()),
    ]);
    octets.extend(clocks.map_or(0, |it| it.ours).to_ne_bytes());
    octets.extend(clocks.map_or(0, |it| it.peers).to_ne_bytes());
    octets
}

pub(super) fn decode(octets: &[u8]) -> Option<Agreed> {
    let octets: &[u8; 16] = octets.try_into().ok()?;
    let [
        m0,
        m1,
        has_scales,
        send,
        receive,
        has_sack,
        has_ecn,
        has_clocks,
        o0,
        o1,
        o2,
        o3,
        p0,
        p1,
        p2,
        p3,
    ] = *octets;
    let shifts = WindowShifts { send, receive };
    if send > 14 || receive > 14 {
        return None;
    }
    Some(Agreed {
        peer_mss: u16::from_ne_bytes([m0, m1]),
        window_scales: (has_scales != 0).then_some(shifts),
        has_sack: has_sack != 0,
        has_ecn: has_ecn != 0,
        timestamps: (has_clocks != 0).then_some(Clocks {
            ours: u32::from_ne_bytes([o0, o1, o2, o3]),
            peers: u32::from_ne_bytes([p0, p1, p2, p3]),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_agreed_is_read_as_it_was_written() {
        let mut agreed = Agreed {
            peer_mss: 1460,
            window_scales: Some(WindowShifts {
                send: 7,
                receive: 10,
            }),
            has_sack: true,
            has_ecn: false,
            timestamps: Some(Clocks { ours: 1, peers: 2 }),
        };
        assert_eq!(decode(&encode(&agreed)), Some(agreed));
        (agreed.window_scales, agreed.timestamps) = (None, None);
        assert_eq!(decode(&encode(&agreed)), Some(agreed));
        let mut octets = encode(&agreed);
        assert_eq!(decode(&octets[1..]), None);
        octets[3] = 15;
        assert_eq!(decode(&octets), None);
    }

    #[test]
    fn packets_are_those_of_the_connection() {
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[9] = 6;
        packet[12..20].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
        packet[20..24].copy_from_slice(&[0, 9, 0, 80]);
        let (local, peer) = (
            SocketAddr::from(([10, 0, 0, 1], 80)),
            SocketAddr::from(([10, 0, 0, 2], 9)),
        );
        assert!(is_between(&packet, local, peer) && !is_between(&packet, peer, local));
        for place in [0, 9, 12, 19, 20, 23] {
            let mut other = packet.clone();
            other[place] ^= 0x11;
            assert!(!is_between(&other, local, peer), "{place}");
        }
        assert!(!is_between(&packet[..23], local, peer));
    }
}
