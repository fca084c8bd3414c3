//! What a mode of XDP takes on an interface, measured with any neighbour: it is asked for its own
//! address, again and again, and its kernel answers. The wire and the neighbour take what they
//! take; the rest is this host's way out and in.
//!
//! The question is an ARP probe (RFC 5227 1.1: the sender's address is 0.0.0.0) to the neighbour's
//! hardware address alone. So no table is changed by it anywhere, and its answers can be told from
//! those that the kernel waits for: every other packet stays the kernel's meanwhile.

use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use dev_core::{Kick, RxRing, TxRing};

use crate::bpf::link::AttachMode;
use crate::bpf::program::Program;
use crate::first_queue::Queue;

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    pub mac: [u8; 6],
    pub address: Ipv4Addr,
}

/// Bytes of an ARP packet for IPv4 in an Ethernet frame (RFC 826).
const FRAME_LEN: usize = 42;
/// Ethernet, IPv4, lengths of their addresses; the operation follows.
const ARP_OF_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];

/// An answer that takes longer is lost, or there is none: the interface is not up again yet, or
/// answers come to another queue.
const LOST_AFTER: Duration = Duration::from_millis(20);
/// Drivers that make their rings anew for the program may take the link down for seconds.
const LINK_PATIENCE: Duration = Duration::from_secs(10);

/// Attaches a program in this mode, and asks for `time`, at most `most` times. Returns the round
/// trips in nanoseconds, none if no answer came in ten seconds. Afterwards all is as it was.
///
/// # Errors
/// What the system refused.
pub fn measure(
    link_index: u32,
    attach: AttachMode,
    mac: [u8; 6],
    neighbour: Neighbour,
    time: Duration,
    most: usize,
) -> io::Result<Vec<u32>> {
    let mut queue = Queue::open(link_index, attach, Program::load_for_arp_probes)?;
    let probe = probe(mac, neighbour);
    let mut round_trips = Vec::new();
    let begun = Instant::now();
    let mut first_answer = None;
    while round_trips.len() < most {
        match first_answer {
            Some(at) if Instant::elapsed(&at) >= time => break,
            None if begun.elapsed() >= LINK_PATIENCE => break,
            _ => {}
        }
        let Some(round_trip) = ask(&mut queue, &probe) else {
            continue;
        };
        // The first one of all finds cold caches, and a link that has just come up.
        if first_answer.is_none() {
            first_answer = Some(Instant::now());
        } else {
            round_trips.push(u32::try_from(round_trip.as_nanos()).unwrap_or(u32::MAX));
        }
    }
    Ok(round_trips)
}

/// One round trip. `None`: no answer.
fn ask(queue: &mut Queue, probe: &[u8; FRAME_LEN]) -> Option<Duration> {
    let Queue {
        pool, rx, tx, kick, ..
    } = queue;
    let sent = Instant::now();
    let mut frame = tx.frame(pool)?;
    pool.chunk_mut(&mut frame)[..FRAME_LEN].copy_from_slice(probe);
    pool.set_len(&mut frame, FRAME_LEN);
    tx.push(pool, frame);
    kick.kick();
    let mut answered = None;
    while answered.is_none() && sent.elapsed() < LOST_AFTER {
        rx.poll(pool, 1, |frame| {
            // Nothing but answers comes here. A late one is taken for that to the last probe, and
            // what it says is too little: it is one of many.
            answered = Some(sent.elapsed());
            pool.give(frame);
        });
    }
    answered
}

fn probe(mac: [u8; 6], neighbour: Neighbour) -> [u8; FRAME_LEN] {
    let no_address = [0; 4];
    let parts: [&[u8]; 9] = [
        &neighbour.mac,
        &mac,
        &[0x08, 0x06],
        &ARP_OF_IPV4,
        &REQUEST,
        &mac,
        &no_address,
        &[0; 6],
        &neighbour.address.octets(),
    ];
    let mut frame = [0; FRAME_LEN];
    let bytes = parts.into_iter().flatten();
    frame
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_an_arp_request_without_a_sender_s_address() {
        let neighbour = Neighbour {
            mac: [2, 0, 0, 0, 0, 2],
            address: Ipv4Addr::new(192, 0, 2, 7),
        };
        let frame = probe([2, 0, 0, 0, 0, 1], neighbour);
        assert_eq!(frame[..14], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 6]);
        assert_eq!(frame[14..22], [0, 1, 8, 0, 6, 4, 0, 1]);
        assert_eq!(frame[22..28], [2, 0, 0, 0, 0, 1]);
        assert_eq!(frame[28..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 7]);
    }
}
