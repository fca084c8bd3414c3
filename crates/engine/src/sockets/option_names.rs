//! Names of socket options, for people: a program's documentation has `IP_PKTINFO`, not level 0,
//! option 8.

use std::fmt;

use libc::c_int;

/// A socket option; displayed by its name, or by its numbers where it is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OptionName {
    pub(crate) level: c_int,
    pub(crate) name: c_int,
}

impl fmt::Display for OptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, name } = *self;
        match known(level, name) {
            Some(known) => f.write_str(known),
            None => write!(f, "level {level}, option {name}"),
        }
    }
}

fn known(level: c_int, name: c_int) -> Option<&'static str> {
    let names = match level {
        libc::SOL_SOCKET => SOCKET,
        libc::IPPROTO_IP => IP,
        libc::IPPROTO_IPV6 => IPV6,
        libc::IPPROTO_TCP => TCP,
        libc::IPPROTO_UDP => UDP,
        _ => return None,
    };
    names
        .iter()
        .find(|(number, _)| *number == name)
        .map(|(_, text)| *text)
}

// The numbers of include/uapi/asm-generic/socket.h, linux/in.h, linux/in6.h and linux/udp.h; only
// options that some program may set on a datagram socket.
const SOCKET: &[(c_int, &str)] = &[
    (2, "SO_REUSEADDR"),
    (5, "SO_DONTROUTE"),
    (11, "SO_NO_CHECK"),
    (12, "SO_PRIORITY"),
    (15, "SO_REUSEPORT"),
    (16, "SO_PASSCRED"),
    (25, "SO_BINDTODEVICE"),
    (26, "SO_ATTACH_FILTER"),
    (27, "SO_DETACH_FILTER"),
    (29, "SO_TIMESTAMP"),
    (34, "SO_PASSSEC"),
    (35, "SO_TIMESTAMPNS"),
    (36, "SO_MARK"),
    (37, "SO_TIMESTAMPING"),
    (40, "SO_RXQ_OVFL"),
    (41, "SO_WIFI_STATUS"),
    (42, "SO_PEEK_OFF"),
    (44, "SO_LOCK_FILTER"),
    (45, "SO_SELECT_ERR_QUEUE"),
    (47, "SO_MAX_PACING_RATE"),
    (50, "SO_ATTACH_BPF"),
    (51, "SO_ATTACH_REUSEPORT_CBPF"),
    (52, "SO_ATTACH_REUSEPORT_EBPF"),
    (60, "SO_ZEROCOPY"),
    (61, "SO_TXTIME"),
    (62, "SO_BINDTOIFINDEX"),
    (63, "SO_TIMESTAMP_NEW"),
    (64, "SO_TIMESTAMPNS_NEW"),
    (65, "SO_TIMESTAMPING_NEW"),
    (68, "SO_DETACH_REUSEPORT_BPF"),
    (75, "SO_RCVMARK"),
];
const IP: &[(c_int, &str)] = &[
    (3, "IP_HDRINCL"),
    (4, "IP_OPTIONS"),
    (6, "IP_RECVOPTS"),
    (7, "IP_RETOPTS"),
    (8, "IP_PKTINFO"),
    (9, "IP_PKTOPTIONS"),
    (11, "IP_RECVERR"),
    (12, "IP_RECVTTL"),
    (13, "IP_RECVTOS"),
    (15, "IP_FREEBIND"),
    (16, "IP_IPSEC_POLICY"),
    (17, "IP_XFRM_POLICY"),
    (18, "IP_PASSSEC"),
    (19, "IP_TRANSPARENT"),
    (20, "IP_ORIGDSTADDR"),
    (21, "IP_MINTTL"),
    (22, "IP_NODEFRAG"),
    (23, "IP_CHECKSUM"),
    (24, "IP_BIND_ADDRESS_NO_PORT"),
    (25, "IP_RECVFRAGSIZE"),
    (26, "IP_RECVERR_RFC4884"),
    (37, "IP_BLOCK_SOURCE"),
    (38, "IP_UNBLOCK_SOURCE"),
    (41, "IP_MSFILTER"),
    (42, "MCAST_JOIN_GROUP"),
    (43, "MCAST_BLOCK_SOURCE"),
    (44, "MCAST_UNBLOCK_SOURCE"),
    (45, "MCAST_LEAVE_GROUP"),
    (46, "MCAST_JOIN_SOURCE_GROUP"),
    (47, "MCAST_LEAVE_SOURCE_GROUP"),
    (48, "MCAST_MSFILTER"),
    (50, "IP_UNICAST_IF"),
    (51, "IP_LOCAL_PORT_RANGE"),
];
const IPV6: &[(c_int, &str)] = &[
    (2, "IPV6_2292PKTINFO"),
    (11, "IPV6_FLOWINFO"),
    (24, "IPV6_MTU"),
    (26, "IPV6_V6ONLY"),
    (32, "IPV6_FLOWLABEL_MGR"),
    (33, "IPV6_FLOWINFO_SEND"),
    (35, "IPV6_XFRM_POLICY"),
    (36, "IPV6_HDRINCL"),
    (49, "IPV6_RECVPKTINFO"),
    (50, "IPV6_PKTINFO"),
    (66, "IPV6_RECVTCLASS"),
    (70, "IPV6_AUTOFLOWLABEL"),
    (72, "IPV6_ADDR_PREFERENCES"),
    (74, "IPV6_ORIGDSTADDR"),
    (75, "IPV6_TRANSPARENT"),
    (76, "IPV6_UNICAST_IF"),
    (77, "IPV6_RECVFRAGSIZE"),
    (78, "IPV6_FREEBIND"),
];
/// Those that give a stream to the kernel.
const TCP: &[(c_int, &str)] = &[
    (14, "TCP_MD5SIG"),
    (19, "TCP_REPAIR"),
    (23, "TCP_FASTOPEN"),
    (30, "TCP_FASTOPEN_CONNECT"),
    (31, "TCP_ULP"),
    (32, "TCP_MD5SIG_EXT"),
];
const UDP: &[(c_int, &str)] = &[
    (1, "UDP_CORK"),
    (100, "UDP_ENCAP"),
    (101, "UDP_NO_CHECK6_TX"),
    (102, "UDP_NO_CHECK6_RX"),
    (103, "UDP_SEGMENT"),
    (104, "UDP_GRO"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_the_names_that_programs_use() {
        for (level, name, text) in [
            (libc::IPPROTO_IP, libc::IP_PKTINFO, "IP_PKTINFO"),
            (libc::IPPROTO_IP, libc::IP_RECVERR, "IP_RECVERR"),
            (libc::IPPROTO_IP, libc::IP_TRANSPARENT, "IP_TRANSPARENT"),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMP, "SO_TIMESTAMP"),
            (libc::SOL_SOCKET, libc::SO_BINDTODEVICE, "SO_BINDTODEVICE"),
            (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, "SO_ATTACH_FILTER"),
            (libc::SOL_SOCKET, libc::SO_MARK, "SO_MARK"),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, "SO_RXQ_OVFL"),
            (libc::SOL_SOCKET, libc::SO_TXTIME, "SO_TXTIME"),
            (libc::IPPROTO_TCP, libc::TCP_ULP, "TCP_ULP"),
            (libc::IPPROTO_UDP, libc::UDP_CORK, "UDP_CORK"),
            (libc::IPPROTO_UDP, libc::UDP_SEGMENT, "UDP_SEGMENT"),
            (libc::IPPROTO_UDP, libc::UDP_GRO, "UDP_GRO"),
            (libc::SOL_SOCKET, 4711, "level 1, option 4711"),
            (77, 1, "level 77, option 1"),
        ] {
            assert_eq!(OptionName { level, name }.to_string(), text);
        }
    }
}
