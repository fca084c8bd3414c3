//! TCP segments that the device cuts: AF_XDP has no way to ask for that, a packet socket has
//! (`packet(7)`, `PACKET_VNET_HDR`; `packet_snd` in `net/packet/af_packet.c`,
//! `include/linux/virtio_net.h`).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use descriptors::OwnDescriptor;
use dev_core::{LinkSpec, Segmented, Segmenter};

use crate::ethtool;

const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_QDISC_BYPASS: libc::c_int = 20;

/// `struct virtio_net_hdr`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct VirtioNetHeader {
    flags: u8,
    gso_type: u8,
    hdr_len: u16,
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

const _: () = assert!(size_of::<VirtioNetHeader>() == 10);

const VIRTIO_NET_HDR_F_NEEDS_CSUM: u8 = 1;
const VIRTIO_NET_HDR_GSO_TCPV4: u8 = 1;
const VIRTIO_NET_HDR_GSO_TCPV6: u8 = 4;
const VIRTIO_NET_HDR_GSO_ECN: u8 = 0x80;

/// Where the checksum and the flags are in a TCP header.
const CHECKSUM_OFFSET: u16 = 16;
const FLAGS_OFFSET: usize = 13;
const CWR: u8 = 0x80;

/// Parts of a payload. A send queue has a dozen in one packet at most, for each is as long as those
/// before it together.
const PARTS_MAX: usize = 16;

/// Packets refused in a row for want of memory after which nothing more is expected.
const REFUSALS_MAX: u32 = 32;

/// As much as may wait for the device; the kernel's default holds three packets.
const SEND_BUFFER_BYTES: libc::c_int = 4 << 20;

/// A packet socket on the interface that only sends.
#[derive(Debug)]
pub struct XdpSegmenter {
    fd: Arc<OwnDescriptor>,
    interface: String,
    refusals: AtomicU32,
}

impl XdpSegmenter {
    /// Opens it.
    ///
    /// # Errors
    /// Those of `socket(2)`, `setsockopt(2)` and `bind(2)`.
    pub(crate) fn open(link: &LinkSpec) -> io::Result<Self> {
        // Of protocol 0 it receives nothing.
        // SAFETY: socket(2) touches no memory of ours.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let raw = fd.as_raw_fd();
        set_option(raw, libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
        // As what AF_XDP sends: else segments would overtake each other.
        set_option(raw, libc::SOL_PACKET, PACKET_QDISC_BYPASS, 1)?;
        // Less is enough where this is not allowed.
        let buffer = SEND_BUFFER_BYTES;
        set_option(raw, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, buffer)
            .or_else(|_| set_option(raw, libc::SOL_SOCKET, libc::SO_SNDBUF, buffer))?;
        bind(raw, link.index)?;
        Ok(Self {
            fd: Arc::new(OwnDescriptor::new(fd)),
            interface: link.name.clone(),
            refusals: AtomicU32::new(0),
        })
    }

    /// The packet socket.
    pub(crate) fn descriptor(&self) -> Arc<OwnDescriptor> {
        Arc::clone(&self.fd)
    }

    /// Why nothing was sent.
    #[cold]
    fn failed(&self, asked: RawFd) -> Segmented {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        if asked != self.fd.as_raw_fd() {
            // The program has taken the number meanwhile.
            return Segmented::Full;
        }
        match errno {
            libc::EAGAIN | libc::EINTR => Segmented::Full,
            libc::ENOBUFS | libc::ENOMEM => {
                let refusals = self.refusals.fetch_add(1, Ordering::Relaxed);
                // A device that does not cut any more answers so, too: what the kernel cuts for it
                // does not go past its queue.
                if refusals < REFUSALS_MAX && ethtool::segments_tcp(&self.interface) {
                    Segmented::Full
                } else {
                    Segmented::Refused(errno)
                }
            }
            // The interface is down: what is sent is lost.
            libc::ENETDOWN => Segmented::Sent,
            _ => Segmented::Refused(errno),
        }
    }
}

impl Segmenter for XdpSegmenter {
    fn send<'a>(
        &self,
        headers: &[u8],
        parts: impl Iterator<Item = &'a [u8]>,
        segment_len: u16,
    ) -> Segmented {
        let (tcp_offset, gso_type) = family(headers);
        let mut virtio = VirtioNetHeader {
            flags: VIRTIO_NET_HDR_F_NEEDS_CSUM,
            hdr_len: headers.len() as u16,
            csum_start: tcp_offset,
            csum_offset: CHECKSUM_OFFSET,
            ..VirtioNetHeader::default()
        };
        let mut list = [const { MaybeUninit::<libc::iovec>::uninit() }; PARTS_MAX + 2];
        list[1].write(part(headers));
        let (mut count, mut payload_len) = (2, 0);
        for bytes in parts {
            let Some(place) = list.get_mut(count) else {
                return Segmented::Refused(libc::EMSGSIZE);
            };
            place.write(part(bytes));
            count += 1;
            payload_len += bytes.len();
        }
        if payload_len > usize::from(segment_len) {
            virtio.gso_type = gso_type;
            virtio.gso_size = segment_len;
            if headers
                .get(usize::from(tcp_offset) + FLAGS_OFFSET)
                .is_some_and(|flags| flags & CWR != 0)
            {
                virtio.gso_type |= VIRTIO_NET_HDR_GSO_ECN;
            }
        }
        list[0].write(libc::iovec {
            iov_base: (&raw mut virtio).cast(),
            iov_len: size_of::<VirtioNetHeader>(),
        });
        // SAFETY: all-zero is a value of this struct of integers and null pointers.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = list.as_mut_ptr().cast();
        message.msg_iovlen = count;
        let fd = self.fd.as_raw_fd();
        // SAFETY: the first `count` parts were written, and what they refer to is borrowed by this
        // call; the kernel only reads it.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sendmsg,
                fd,
                &raw const message,
                libc::MSG_DONTWAIT,
            )
        };
        if result < 0 {
            return self.failed(fd);
        }
        if self.refusals.load(Ordering::Relaxed) > 0 {
            self.refusals.store(0, Ordering::Relaxed);
        }
        Segmented::Sent
    }
}

/// Where the TCP header begins in a frame, behind those of Ethernet and IP without options, and
/// what a packet of its kind is called.
fn family(headers: &[u8]) -> (u16, u8) {
    match headers.get(12..14) {
        Some([0x86, 0xdd]) => (54, VIRTIO_NET_HDR_GSO_TCPV6),
        _ => (34, VIRTIO_NET_HDR_GSO_TCPV4),
    }
}

fn part(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

fn set_option(
    fd: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes, the size of `value`.
    match unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn bind(fd: RawFd, link_index: u32) -> io::Result<()> {
    // SAFETY: all-zero is a value of this struct of integers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex =
        i32::try_from(link_index).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes, the size of `address`.
    match unsafe { libc::bind(fd, (&raw const address).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use testkit::{Pair, RawLink, or_skip};
    use wire::{ChecksumPolicy, EthernetAddresses, ip, tcp};

    use super::*;

    /// veth takes it to the other end uncut. The kernel refuses a packet that is not what its
    /// header says.
    #[test]
    fn packets_of_both_families_are_taken_whole() {
        let pair = or_skip!(testkit::Namespaces::new().ipv6().create());
        let there = RawLink::open(&pair.b, "vb").unwrap();
        let here = RawLink::open(&pair.a, "va").unwrap();
        let spec = pair.a.enter(|| LinkSpec {
            // SAFETY: a string that ends with zero.
            index: unsafe { libc::if_nametoindex(c"va".as_ptr()) },
            name: "va".to_owned(),
            mac: here.mac(),
            mtu: 1500,
            upper: None,
        });
        let segmenter = pair.a.enter(|| XdpSegmenter::open(&spec)).unwrap();
        let eth = EthernetAddresses {
            source: here.mac(),
            destination: there.mac(),
        };
        let ends: [[SocketAddr; 2]; 2] = [
            [(Pair::ADDRESS_A, 9).into(), (Pair::ADDRESS_B, 10).into()],
            [
                (Pair::IPV6_ADDRESS_A, 9).into(),
                (Pair::IPV6_ADDRESS_B, 10).into(),
            ],
        ];
        let (payload, segment_len) = (vec![7; 5000], 1000);
        for [source, destination] in ends {
            let template = tcp::Template::new(eth, source, destination, 64, 0, true);
            let header = tcp::Header {
                flags: tcp::Flags::ACK | tcp::Flags::CWR,
                ..tcp::Header::default()
            };
            let mut headers = [0; tcp::Template::MAX_HEADERS_LEN];
            let len = template.emit_headers(&mut headers, 1, 0, &header, 5000);
            let headers = &headers[..len.unwrap()];
            let parts = payload.chunks(3000);
            assert_eq!(segmenter.send(headers, parts, segment_len), Segmented::Sent);
            let timeout = Duration::from_secs(5);
            let frame = there.receive_matching(timeout, |frame| frame.len() > 5000);
            let frame = frame.unwrap().expect("a packet comes");
            let packet = ip::parse(&frame).unwrap();
            let segment = tcp::parse_tcp(&packet, ChecksumPolicy::AcceptPartial).unwrap();
            assert_eq!(segment.endpoints.source(), source);
            assert_eq!(segment.payload_len, 5000);
        }
    }
}
