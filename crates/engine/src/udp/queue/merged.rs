//! Datagrams that are received as one (`UDP_GRO`): those of one sender and one length that lie
//! behind each other in the queue. The kernel joins them when they arrive
//! (`udp_gro_receive_segment`, net/ipv4/udp_offload.c), and has them in the queue as one.

use dev_core::FramePool;

use crate::udp::queue::receive_queue::ReceiveQueue;

/// As many as the kernel joins (`UDP_GRO_CNT_MAX`).
const COUNT_MAX: usize = 64;
/// Payload of the longest packet of IPv4, which is what the kernel makes of them.
const LEN_MAX: usize = 65_507;

/// The oldest datagrams of a queue, as many as are received together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) count: usize,
    /// Payload of all.
    pub(super) len: usize,
    /// Payload of each but the last, which may be shorter.
    each: usize,
}

impl Run {
    pub(super) fn of_one(len: usize) -> Self {
        Self {
            count: 1,
            len,
            each: len,
        }
    }

    /// What a program is told of it: the kernel says nothing of a datagram that it has not joined
    /// with another.
    pub(super) fn segment_len(&self) -> Option<usize> {
        (self.count > 1).then_some(self.each)
    }
}

impl ReceiveQueue {
    /// What a call with so much room gets: no datagram that it has no room for is joined to others.
    pub(super) fn run(&self, pool: &FramePool, room: usize) -> Run {
        let Some(oldest) = self.datagrams.front() else {
            return Run::of_one(0);
        };
        let first = oldest.header(pool);
        let mut run = Run::of_one(oldest.len());
        let interfaces = self.facts.iter().map(|facts| facts.interface());
        let first_interface = interfaces.clone().next();
        let others = self.datagrams.iter().zip(interfaces).skip(1);
        for (next, interface) in others.take(COUNT_MAX - 1) {
            let len = next.len();
            if len == 0
                || len > run.each
                || run.len + len > LEN_MAX.min(room)
                || Some(interface) != first_interface
                || !are_joined(first, next.header(pool))
            {
                break;
            }
            run.count += 1;
            run.len += len;
            if len < run.each {
                break;
            }
        }
        run
    }
}

/// Whether the kernel would join two packets, as far as their headers say: it looks at addresses
/// and ports, at what is the same for all of a flow (class, hop limit, "don't fragment", flow
/// label), and leaves alone what has no checksum.
fn are_joined(first: &[u8], next: &[u8]) -> bool {
    const DONT_FRAGMENT: u8 = 0x40;
    let (Some(version), Some(next_version)) = (first.first(), next.first()) else {
        return false;
    };
    match (version >> 4, next_version >> 4) {
        (4, 4) => {
            let (Some(a), Some(b)) = (first.first_chunk::<28>(), next.first_chunk::<28>()) else {
                return false;
            };
            a[12..24] == b[12..24]
                && (a[1], a[8]) == (b[1], b[8])
                && (a[6] ^ b[6]) & DONT_FRAGMENT == 0
                && a[26..] != [0; 2]
                && b[26..] != [0; 2]
        }
        (6, 6) => {
            let (Some(a), Some(b)) = (first.first_chunk::<48>(), next.first_chunk::<48>()) else {
                return false;
            };
            a[..4] == b[..4] && a[7..44] == b[7..44]
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_joined_that_differ_in_nothing_that_a_program_is_told() {
        let mut v4 = [1; 28];
        v4[0] = 0x45;
        let mut v6 = [1; 48];
        v6[0] = 0x60;
        for (packet, indifferent) in [
            // Length, identification and header checksum; length and checksum of UDP.
            (&v4[..], &[2, 3, 4, 5, 7, 10, 11, 24, 25, 26, 27][..]),
            (&v6, &[4, 5, 6, 44, 45, 46, 47]),
        ] {
            assert!(are_joined(packet, packet));
            for at in 1..packet.len() {
                let mut other = packet.to_vec();
                other[at] ^= 0x40;
                // The protocol is the same for all, and of flags and offset one bit counts.
                let joined = indifferent.contains(&at) || (packet.len() == 28 && at == 9);
                assert_eq!(are_joined(packet, &other), joined, "byte {at}");
            }
            assert!(!are_joined(packet, &packet[..20]));
        }
        assert!(!are_joined(&v4, &v6));
        let mut without_sum = v4;
        without_sum[26..].fill(0);
        assert!(!are_joined(&v4, &without_sum) && !are_joined(&without_sum, &v4));
    }
}
