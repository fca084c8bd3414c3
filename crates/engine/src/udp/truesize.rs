//! What a waiting datagram costs its socket's receive buffer, as the kernel reckons it.

/// `struct sk_buff`, rounded up to cache lines.
const SKB_BYTES: usize = 256;
/// `struct skb_shared_info` behind the data of a buffer.
const SHARED_INFO_BYTES: usize = 320;
/// Ethernet header and alignment before the packet, as `__ip_append_data` leaves room for them
/// (net/ipv4/ip_output.c).
const HEAD_ROOM_BYTES: usize = 31;
/// IPv4 and UDP headers before a payload.
const IP_UDP_HEADERS: usize = 28;
/// Buffers of the kernel's own cache for small packets (`skb_small_head_cache`, net/core/skbuff.c).
const SMALL_HEAD_BYTES: usize = 576;

/// What the kernel charges for a datagram (`skb->truesize`) that its own stack has sent with this payload, as it comes from
/// veth or the loopback interface. Measured with `SO_MEMINFO` on Linux 6.18: 832 bytes up to 197 of payload, 1280 up to 645, 2304
/// above. NICs' drivers charge between that and a page.
#[inline]
pub(super) fn truesize(payload_len: usize) -> usize {
    let needed = payload_len + IP_UDP_HEADERS + HEAD_ROOM_BYTES + SHARED_INFO_BYTES;
    let buffer = if needed <= SMALL_HEAD_BYTES {
        SMALL_HEAD_BYTES
    } else {
        needed.next_power_of_two()
    };
    buffer + SKB_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_those_that_were_measured() {
        for (payload, charge) in [
            (0, 832),
            (160, 832),
            (197, 832),
            (198, 1280),
            (600, 1280),
            (645, 1280),
            (646, 2304),
            (1472, 2304),
            (1700, 4352),
        ] {
            assert_eq!(truesize(payload), charge, "{payload}");
        }
    }
}
