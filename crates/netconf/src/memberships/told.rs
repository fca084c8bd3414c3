//! Memberships as the kernel tells of them (`RTM_GETMULTICAST`, of IPv4 since Linux 6.15).

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::NLM_F_DUMP;

use super::GroupChanges;
use crate::connection::Connection;
use crate::error::Error;
use crate::framing::{Messages, attributes};
use crate::socket::{BUFFER_BYTES, Received, Socket};

/// Kept current by notifications of an interface's first membership in a group and of the end of
/// its last.
#[derive(Debug)]
pub(super) struct Told {
    connection: Connection,
    /// Receives notifications.
    events: Socket,
    buffer: Box<[u8]>,
    known: HashSet<(u32, IpAddr)>,
}

impl Told {
    /// See [`Memberships::open`](super::Memberships::open).
    pub(super) fn open(
        subscribe: impl Fn(BorrowedFd<'_>, u32) -> io::Result<()>,
    ) -> Result<Self, Error> {
        // In this order: a change between the two is seen twice rather than not at all.
        let events = Socket::open(None, 0)?;
        let refused = |source| Error::Refused {
            request: "be told of multicast groups",
            source,
        };
        for group in [RTNLGRP_IPV4_MCADDR, RTNLGRP_IPV6_MCADDR] {
            subscribe(events.as_fd(), group).map_err(refused)?;
        }
        let mut connection = Connection::open()?;
        let known = read(&mut connection)?;
        Ok(Self {
            connection,
            events,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            known,
        })
    }

    pub(super) fn contains(&self, link_index: u32, group: IpAddr) -> bool {
        self.known.contains(&(link_index, group))
    }

    /// Takes in the notifications that have arrived, without waiting.
    pub(super) fn process_events(&mut self) -> Result<Option<GroupChanges>, Error> {
        let mut changed = Vec::new();
        let mut is_lost = false;
        for _ in 0..EVENTS_PER_CALL {
            match self.events.receive_now(&mut self.buffer)? {
                Received::Nothing => break,
                Received::Overrun => is_lost = true,
                Received::Datagram(datagram) => {
                    for message in Messages::new(datagram) {
                        let Ok(message) = message else {
                            is_lost = true;
                            continue;
                        };
                        let Some(place) = membership(message.payload) else {
                            continue;
                        };
                        let differs = match message.header.message_type {
                            RTM_NEWMULTICAST => self.known.insert(place),
                            RTM_DELMULTICAST => self.known.remove(&place),
                            _ => false,
                        };
                        if differs && changed.last() != Some(&place.1) {
                            changed.push(place.1);
                        }
                    }
                }
            }
        }
        if is_lost {
            self.known = read(&mut self.connection)?;
        }
        Ok(match is_lost {
            true => Some(GroupChanges::Any),
            false => GroupChanges::of(changed),
        })
    }
}

fn read(connection: &mut Connection) -> Result<HashSet<(u32, IpAddr)>, Error> {
    let mut known = HashSet::new();
    for family in [AF_INET, AF_INET6] {
        // `struct ifaddrmsg`, of which the family counts.
        let request = [family, 0, 0, 0, 0, 0, 0, 0];
        let kind = (RTM_GETMULTICAST, NLM_F_DUMP);
        let read = connection.ask_raw("list multicast groups", kind, &request, |message| {
            known.extend(membership(message.payload));
            ControlFlow::Continue(())
        });
        match read {
            // It has no IPv6.
            Err(error) if family == AF_INET6 && error.errno() == Some(EOPNOTSUPP) => {}
            read => read?,
        }
    }
    Ok(known)
}

/// Interface and group of a message about a membership: `struct ifaddrmsg` and attributes.
fn membership(payload: &[u8]) -> Option<(u32, IpAddr)> {
    let family = *payload.first()?;
    let link_index = u32::from_ne_bytes(*payload.get(4..)?.first_chunk()?);
    let of_group = |(kind, value): (u16, &[u8])| {
        if kind != IFA_MULTICAST {
            return None;
        }
        match family {
            AF_INET => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
            AF_INET6 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
            _ => None,
        }
    };
    let group = attributes(payload.get(8..)?).find_map(of_group)?;
    Some((link_index, group))
}

/// Notifications that are taken in at once.
const EVENTS_PER_CALL: usize = 16 * 1024;

// linux/rtnetlink.h, linux/if_addr.h and linux/socket.h.
const RTNLGRP_IPV4_MCADDR: u32 = 37;
const RTNLGRP_IPV6_MCADDR: u32 = 38;
const RTM_NEWMULTICAST: u16 = 56;
const RTM_DELMULTICAST: u16 = 57;
const RTM_GETMULTICAST: u16 = 58;
const IFA_MULTICAST: u16 = 7;
const AF_INET: u8 = 2;
const EOPNOTSUPP: i32 = 95;
const AF_INET6: u8 = 10;

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn a_message_names_interface_and_group() {
        // As Linux 6.18 notifies of 239.9.9.9 on interface 1.
        let told: [u8; 20] = [
            2, 0x20, 0x80, 0, 1, 0, 0, 0, 8, 0, 7, 0, 0xef, 9, 9, 9, 0x14, 0, 6, 0,
        ];
        assert_eq!(membership(&told), Some((1, [239, 9, 9, 9].into())));
        for length in 0..16 {
            assert_eq!(membership(&told[..length]), None);
        }
        let mut other = told;
        other[0] = 10;
        assert_eq!(membership(&other), None);
        let header = [10, 128, 0x80, 0, 7, 0, 0, 0, 20, 0, 7, 0];
        let group: Ipv6Addr = "ff05::4d:1".parse().unwrap();
        let told = [&header[..], &group.octets()].concat();
        assert_eq!(membership(&told), Some((7, group.into())));
        assert_eq!(membership(&told[..27]), None);
    }
}
