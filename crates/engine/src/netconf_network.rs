//! The kernel's network configuration by netlink.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netconf::{Link, Netconf, RouteKind, RouteQuery};
use ring::LinkSpec;

use crate::network::{InterfaceFacts, Network, NetworkChange, NextHop};
use crate::own_descriptors;
use crate::reason::Reason;

/// The network namespace of the process. Clones share one snapshot.
#[derive(Clone, Debug)]
pub struct NetconfNetwork {
    inner: Arc<Mutex<Inner>>,
    events_fd: RawFd,
}

#[derive(Debug)]
struct Inner {
    netconf: Netconf,
    /// Names of drivers by link index; a driver does not change while its link exists.
    drivers: HashMap<u32, String>,
    /// Neighbours that sockets send to, so that the kernel keeps verifying them.
    used_neighbours: Vec<(u32, IpAddr)>,
}

/// Neighbours in use that are remembered; more are not kept verified beyond what the kernel does by itself.
const USED_NEIGHBOURS_MAX: usize = 4096;

impl NetconfNetwork {
    /// Reads the configuration.
    ///
    /// # Errors
    /// What netlink answered.
    pub fn open() -> Result<Self, netconf::Error> {
        let netconf = Netconf::open()?;
        let events_fd = netconf.events_fd();
        netconf
            .descriptors()
            .into_iter()
            .for_each(own_descriptors::add);
        let inner = Inner {
            netconf,
            drivers: HashMap::new(),
            used_neighbours: Vec::new(),
        };
        Ok(Self {
            inner: Arc::new(Mutex::new(inner)),
            events_fd,
        })
    }

    /// Becomes readable when something has changed.
    pub(crate) fn events_fd(&self) -> RawFd {
        self.events_fd
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Network for NetconfNetwork {
    fn interfaces(&self) -> Vec<InterfaceFacts> {
        let Inner {
            netconf, drivers, ..
        } = &mut *self.lock();
        let facts = |link: &Link| {
            let driver = drivers
                .entry(link.index)
                .or_insert_with(|| netconf::driver_name(&link.name).unwrap_or_default());
            InterfaceFacts {
                spec: LinkSpec {
                    index: link.index,
                    name: link.name.clone(),
                    mac: link.mac.unwrap_or_default(),
                    mtu: link.mtu,
                    driver: driver.clone(),
                },
                addresses: ipv4_addresses(netconf, link.index),
                up: link.up,
                loopback: link.loopback,
                eligible: is_eligible(link),
            }
        };
        netconf.links().map(facts).collect()
    }

    /// Neighbours in use that became stale are verified: traffic past the kernel does not do it.
    fn take_changes(&self) -> Option<NetworkChange> {
        let mut inner = self.lock();
        let before = inner.netconf.generation();
        let changes = match inner.netconf.process_events() {
            Ok(changes) => changes,
            Err(error) => {
                log::error!("the network configuration cannot be followed: {error}");
                return None;
            }
        };
        for link in &changes.changed_links {
            inner.drivers.remove(link);
        }
        for stale in &changes.stale_neighbours {
            if inner.used_neighbours.contains(stale)
                && let Err(error) = inner.netconf.probe_neighbour(stale.0, stale.1)
            {
                log::debug!(
                    "cannot have the kernel verify neighbour {}: {error}",
                    stale.1
                );
            }
        }
        let interfaces = changes.links || changes.addresses || changes.resynchronised;
        let changed = interfaces || inner.netconf.generation() != before;
        changed.then_some(NetworkChange { interfaces })
    }

    fn next_hop(&self, destination: Ipv4Addr, source: Option<Ipv4Addr>, tos: u8) -> NextHop {
        let mut inner = self.lock();
        let mut query = RouteQuery::to(destination.into());
        query.source = source.map(IpAddr::from);
        query.tos = tos;
        let Ok(route) = inner.netconf.route(&query) else {
            // The kernel's own send returns the error.
            return NextHop::Kernel(Reason::Route);
        };
        match route.kind {
            RouteKind::Unicast => {}
            RouteKind::Broadcast | RouteKind::Multicast => {
                return NextHop::Kernel(Reason::NotUnicast);
            }
            _ => return NextHop::Kernel(Reason::Route),
        }
        let Some(link) = inner
            .netconf
            .link(route.output_interface)
            .filter(|link| is_eligible(link))
        else {
            return NextHop::Kernel(Reason::Route);
        };
        let (link_index, link_mtu) = (link.index, link.mtu);
        let ((Some(source), _) | (None, Some(IpAddr::V4(source)))) =
            (source, route.preferred_source)
        else {
            return NextHop::Kernel(Reason::Route);
        };
        let next_hop = route.gateway.unwrap_or_else(|| destination.into());
        let mac = inner
            .netconf
            .neighbour(link_index, next_hop)
            .filter(|it| it.usable());
        let Some(mac) = mac.and_then(|neighbour| neighbour.mac) else {
            return NextHop::Kernel(Reason::Neighbour);
        };
        let used = (link_index, next_hop);
        if inner.used_neighbours.len() < USED_NEIGHBOURS_MAX
            && !inner.used_neighbours.contains(&used)
        {
            inner.used_neighbours.push(used);
        }
        let mtu = route.mtu.map_or(link_mtu, |mtu| mtu.min(link_mtu));
        NextHop::Link {
            link_index,
            mac,
            source,
            mtu,
        }
    }
}

fn ipv4_addresses(netconf: &Netconf, link_index: u32) -> Vec<Ipv4Addr> {
    let ipv4 = |address: &netconf::Address| match address.address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    };
    netconf.addresses_of(link_index).filter_map(ipv4).collect()
}

/// Hardware, veth and tap devices of their own. Bonds, bridges, VLANs and their parts have packets steered beneath or
/// above them in ways that a program on the device would get wrong.
fn is_eligible(link: &Link) -> bool {
    let kind = link.kind.as_deref();
    link.ethernet
        && !link.loopback
        && link.mac.is_some()
        && link.master.is_none()
        && matches!(kind, None | Some("veth" | "tun"))
}
