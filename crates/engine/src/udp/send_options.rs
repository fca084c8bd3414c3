//! What a program says of how its datagrams are sent: options of the socket, and control data of a
//! message. In `udp_sendmsg` and `ip_cmsg_send` (net/ipv4) is what they mean.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::c_int;

use crate::sockets::control::ControlCopy;
use crate::sockets::option_names::OptionName;
use crate::sockets::pacing::limit::{Rate, RateLimit};
use crate::sockets::stamps::wants_sending_times;

/// Options of a socket beyond those that every socket has. Read when one of them is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendOptions {
    /// `SO_BINDTODEVICE`: index of the interface, or 0.
    pub(super) device: u32,
    /// `UDP_SEGMENT`: bytes of payload in each datagram, or 0.
    pub(super) segment_len: u16,
    /// `IP_RECVERR`: an unconnected socket learns of errors, too.
    pub(super) reports_errors: bool,
    /// `SO_MAX_PACING_RATE`
    pub(super) rate: Rate,
    /// `SO_TXTIME`: the clock that messages name their time by.
    pub(super) clock: Option<c_int>,
    /// `SO_SNDBUF`, where the queue of a sender with a rate needs it.
    pub(super) send_buffer: usize,
    /// One whose effect only the kernel brings about, which has to send.
    pub(super) kernels: Option<OptionName>,
}

/// Options with which the kernel has to send, and the value that means nothing.
const KERNELS: [(c_int, c_int, c_int); 6] = [
    (libc::SOL_SOCKET, libc::SO_DONTROUTE, 0),
    (libc::SOL_SOCKET, libc::SO_NO_CHECK, 0),
    (libc::SOL_SOCKET, libc::SO_MARK, 0),
    (libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_TX, 0),
    (libc::IPPROTO_IP, IP_UNICAST_IF, 0),
    // None.
    (libc::IPPROTO_IP, libc::IP_OPTIONS, 0),
];

const IP_UNICAST_IF: c_int = 50;

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            device: 0,
            segment_len: 0,
            reports_errors: false,
            rate: Rate::NONE,
            clock: None,
            send_buffer: 0,
            kernels: None,
        }
    }
}

impl SendOptions {
    /// Those of the kernel's socket; `rate_limit` is what it does not know of its rate.
    pub(super) fn read(fd: c_int, rate_limit: Option<RateLimit>) -> Self {
        let value = |level, name| sys::option_int(fd, level, name).unwrap_or(0);
        let is_set = |(level, name, nothing): &(c_int, c_int, c_int)| {
            sys::option_int(fd, *level, *name).is_ok_and(|value| value != *nothing)
        };
        let kernels = if wants_sending_times(fd) {
            Some((libc::SOL_SOCKET, libc::SO_TIMESTAMPING))
        } else {
            let set = KERNELS.iter().find(|option| is_set(option));
            set.map(|(level, name, _)| (*level, *name))
        };
        let (rate, clock) = (Rate::read(fd, rate_limit), clock_of_times(fd));
        let send_buffer = match rate.is_limited() || clock.is_some() {
            true => value(libc::SOL_SOCKET, libc::SO_SNDBUF),
            false => 0,
        };
        Self {
            device: sys::bound_device(fd),
            segment_len: value(libc::IPPROTO_UDP, libc::UDP_SEGMENT) as u16,
            reports_errors: value(libc::IPPROTO_IP, libc::IP_RECVERR) != 0
                || value(libc::IPPROTO_IPV6, libc::IPV6_RECVERR) != 0,
            rate,
            clock,
            send_buffer: usize::try_from(send_buffer).unwrap_or(0),
            kernels: kernels.map(|(level, name)| OptionName { level, name }),
        }
    }

    /// Whether datagrams may have to wait before they leave.
    pub(super) fn is_paced(&self) -> bool {
        self.rate.is_limited() || self.clock.is_some()
    }
}

/// `SO_TXTIME`, if it is set. Its flags mean nothing to fq, which it is here.
fn clock_of_times(fd: c_int) -> Option<c_int> {
    // `struct sock_txtime`: a clock, and flags.
    let mut value = [0; 8];
    let (level, name) = (libc::SOL_SOCKET, libc::SO_TXTIME);
    let len = sys::streams::option_bytes(fd, level, name, &mut value).ok()?;
    let [a, b, c, d, ..] = value;
    let clock = c_int::from_ne_bytes([a, b, c, d]);
    // A socket without has clock 0, which is that of the wall, and no flags.
    (len == value.len() && value != [0; 8]).then_some(clock)
}

/// What a message says of the headers of its datagrams, in place of the socket's options. Those of
/// IPv6 are the same things under other names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Overrides {
    /// Which version they are for; `None`: there are none.
    pub(super) is_v6: Option<bool>,
    /// `IP_PKTINFO`: the source address; unspecified: the route chooses.
    pub(super) source: Option<IpAddr>,
    /// `IP_PKTINFO`: index of the interface, or 0.
    pub(super) device: u32,
    pub(super) tos: Option<u8>,
    pub(super) ttl: Option<u8>,
}

/// The control data of a message to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SendControl {
    pub(super) overrides: Overrides,
    /// `UDP_SEGMENT`
    pub(super) segment_len: Option<u16>,
    /// `SCM_TXTIME`: when it is to leave, in nanoseconds of the clock that the socket has for that;
    /// 0: at once.
    pub(super) at: Option<u64>,
}

impl SendControl {
    /// `None`: the kernel has to judge it.
    pub(super) fn parse(control: &ControlCopy) -> Option<Self> {
        let mut said = Self::default();
        let overrides = &mut said.overrides;
        for item in control.items() {
            let item = item.ok()?;
            match (item.level, item.kind) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let [a, b, c, d, source @ .., _, _, _, _] =
                        <[u8; 12]>::try_from(item.data).ok()?;
                    let device = u32::from_ne_bytes([a, b, c, d]);
                    if device != 0 {
                        overrides.device = device;
                    }
                    overrides.source = Some(Ipv4Addr::from(source).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let [source @ .., a, b, c, d] = <[u8; 20]>::try_from(item.data).ok()?;
                    let device = u32::from_ne_bytes([a, b, c, d]);
                    if device != 0 {
                        overrides.device = device;
                    }
                    overrides.source = Some(Ipv6Addr::from(source).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    let hops = c_int::from_ne_bytes(item.data.try_into().ok()?);
                    // -1 asks for the route's, whatever the socket has.
                    overrides.ttl = Some(u8::try_from(hops).ok().filter(|hops| *hops > 0)?);
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    let class = c_int::from_ne_bytes(item.data.try_into().ok()?);
                    overrides.tos = Some(u8::try_from(class).ok()?);
                }
                (libc::IPPROTO_IP, libc::IP_TTL) => {
                    let ttl = c_int::from_ne_bytes(item.data.try_into().ok()?);
                    overrides.ttl = Some(u8::try_from(ttl).ok().filter(|ttl| *ttl > 0)?);
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => {
                    let tos = match item.data {
                        [tos] => c_int::from(*tos),
                        data => c_int::from_ne_bytes(data.try_into().ok()?),
                    };
                    overrides.tos = Some(u8::try_from(tos).ok()?);
                }
                (libc::SOL_SOCKET, libc::SCM_TXTIME) => {
                    said.at = Some(u64::from_ne_bytes(item.data.try_into().ok()?));
                }
                (libc::IPPROTO_UDP, libc::UDP_SEGMENT) => {
                    said.segment_len = Some(u16::from_ne_bytes(item.data.try_into().ok()?));
                }
                _ => return None,
            }
            let is_v6 = match item.level {
                libc::IPPROTO_IP => Some(false),
                libc::IPPROTO_IPV6 => Some(true),
                _ => None,
            };
            if overrides.is_v6.is_some() && is_v6.is_some() && overrides.is_v6 != is_v6 {
                return None;
            }
            overrides.is_v6 = overrides.is_v6.or(is_v6);
        }
        Some(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(items: &[(c_int, c_int, &[u8])]) -> Option<SendControl> {
        let mut memory = Vec::new();
        for (level, kind, data) in items {
            memory.extend((16 + data.len()).to_ne_bytes());
            memory.extend(level.to_ne_bytes());
            memory.extend(kind.to_ne_bytes());
            memory.extend(*data);
            memory.resize(memory.len().next_multiple_of(8), 0);
        }
        // SAFETY: the memory is the test's.
        let copy = unsafe { ControlCopy::of(memory.as_ptr(), memory.len()) };
        SendControl::parse(&copy.unwrap())
    }

    #[test]
    fn control_data_say_what_the_headers_are() {
        let info = [3, 0, 0, 0, 10, 0, 0, 1, 9, 9, 9, 9];
        let said = parse(&[
            (libc::IPPROTO_IP, libc::IP_PKTINFO, &info),
            (libc::IPPROTO_IP, libc::IP_TTL, &9_i32.to_ne_bytes()),
            (libc::IPPROTO_IP, libc::IP_TOS, &2_i32.to_ne_bytes()),
            (libc::IPPROTO_IP, libc::IP_TOS, &[1]),
            (
                libc::IPPROTO_UDP,
                libc::UDP_SEGMENT,
                &1200_u16.to_ne_bytes(),
            ),
            (libc::SOL_SOCKET, libc::SCM_TXTIME, &7_u64.to_ne_bytes()),
        ]);
        let expected = SendControl {
            overrides: Overrides {
                is_v6: Some(false),
                source: Some(Ipv4Addr::new(10, 0, 0, 1).into()),
                device: u32::from_ne_bytes([3, 0, 0, 0]),
                tos: Some(1),
                ttl: Some(9),
            },
            segment_len: Some(1200),
            at: Some(7),
        };
        assert_eq!(said, Some(expected));
        assert_eq!(parse(&[]), Some(SendControl::default()));
        let mut info = [0; 20];
        info[..16].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
        info[16] = 3;
        let said = parse(&[
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info),
            (
                libc::IPPROTO_IPV6,
                libc::IPV6_HOPLIMIT,
                &9_i32.to_ne_bytes(),
            ),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &7_i32.to_ne_bytes()),
        ]);
        let overrides = Overrides {
            is_v6: Some(true),
            source: Some(Ipv6Addr::LOCALHOST.into()),
            device: u32::from_ne_bytes([3, 0, 0, 0]),
            tos: Some(7),
            ttl: Some(9),
        };
        assert_eq!(said.map(|said| said.overrides), Some(overrides));
        let mixed = [
            (libc::IPPROTO_IP, libc::IP_TTL, &9_i32.to_ne_bytes()[..]),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &7_i32.to_ne_bytes()),
        ];
        assert_eq!(parse(&mixed), None);
    }

    #[test]
    fn the_rest_is_for_the_kernel_to_judge() {
        let zero = 0_i32.to_ne_bytes();
        for (level, kind, data) in [
            (libc::IPPROTO_IP, libc::IP_PKTINFO, &zero[..]),
            (libc::IPPROTO_IP, libc::IP_TTL, &zero),
            (libc::IPPROTO_IP, libc::IP_TTL, &256_i32.to_ne_bytes()),
            (libc::IPPROTO_IP, libc::IP_TTL, &[1]),
            (libc::IPPROTO_IP, libc::IP_TOS, &(-1_i32).to_ne_bytes()),
            (libc::IPPROTO_IP, libc::IP_TOS, &[1, 2]),
            (libc::IPPROTO_UDP, libc::UDP_SEGMENT, &zero),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &zero),
            (
                libc::IPPROTO_IPV6,
                libc::IPV6_HOPLIMIT,
                &(-1_i32).to_ne_bytes(),
            ),
            (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &zero),
            (
                libc::IPPROTO_IPV6,
                libc::IPV6_TCLASS,
                &(-1_i32).to_ne_bytes(),
            ),
            (libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, &[0; 8]),
            (libc::SOL_SOCKET, libc::SCM_TXTIME, &[0; 4]),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &zero),
        ] {
            assert_eq!(
                parse(&[(level, kind, data)]),
                None,
                "{level} {kind} {data:?}"
            );
        }
    }
}
