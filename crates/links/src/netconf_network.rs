//! The kernel's network configuration by netlink.

mod addresses;
mod connections;
mod next_hop;
mod settings;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use descriptors::OwnDescriptor;
use netconf::{GroupChanges, IpVersion, IpsecPolicies, Link, Memberships, Netconf};

use crate::family::scoped;
use crate::network::{
    InterfaceFacts, KernelConnections, Network, NetworkChange, NextHopKey, PortUser, Resolution,
};
use addresses::{broadcast, ipv4, usable_addresses};
use settings::{conf, hop_limit_of, setting};

/// The network namespace of the process. Clones share one snapshot.
#[derive(Clone, Debug)]
pub struct NetconfNetwork {
    inner: Arc<Mutex<Inner>>,
    events: Arc<OwnDescriptor>,
    ipsec_events: Option<Arc<OwnDescriptor>>,
    namespace: Option<sys::NamespaceId>,
    /// See [`Network::routes_by_flow`].
    routes_by_flow: Arc<AtomicBool>,
    /// `None` where raw sockets are not allowed; then no interface can be opened either.
    paths: Option<Arc<sys::PathNotices>>,
}

#[derive(Debug)]
struct Inner {
    netconf: Netconf,
    /// `None` where the kernel has no IPsec, or the process no right to ask; then no interface can
    /// be opened either.
    ipsec: Option<IpsecPolicies>,
    /// Which groups the host is a member of.
    members: Members,
    /// Whether policy rules ask for protocols or ports.
    rules_by_flow: bool,
    /// Neighbours that sockets send to, so that the kernel keeps verifying them.
    used_neighbours: Vec<(u32, IpAddr)>,
}

/// The multicast groups of the host, which only those need to know who send to groups.
#[derive(Debug)]
enum Members {
    Unasked,
    /// The kernel does not say.
    Unknown,
    Known(Memberships),
}

/// Messages about paths that are looked at in one go.
const PATHS_MAX: usize = 256;

impl NetconfNetwork {
    /// Reads the configuration.
    ///
    /// # Errors
    /// What netlink answered.
    pub fn open() -> Result<Self, netconf::Error> {
        let netconf = Netconf::open()?;
        let events = Arc::clone(netconf.events_descriptor());
        let ipsec = IpsecPolicies::open().ok();
        let ipsec_events = ipsec
            .as_ref()
            .map(|ipsec| Arc::clone(ipsec.events_descriptor()));
        let inner = Inner {
            netconf,
            ipsec,
            members: Members::Unasked,
            rules_by_flow: false,
            used_neighbours: Vec::new(),
        };
        let network = Self {
            inner: Arc::new(Mutex::new(inner)),
            namespace: sys::namespace_of(events.as_raw_fd()),
            events,
            ipsec_events,
            routes_by_flow: Arc::default(),
            paths: sys::PathNotices::open().ok().map(Arc::new),
        };
        network.look_at_policy(&mut network.lock(), true);
        Ok(network)
    }

    /// Finds out whether ports matter to the ways of packets.
    fn look_at_policy(&self, inner: &mut Inner, rules_have_changed: bool) {
        if rules_have_changed {
            // It may be so where it cannot be found out.
            inner.rules_by_flow = inner.netconf.routes_by_flow().unwrap_or(true);
        }
        // The kernel tells of no change of the setting; it matters little before there are routes
        // that depend on it.
        let choice_by_flow = self.is_here() && setting("ipv4/fib_multipath_hash_policy") != 0;
        let by_flow = inner.rules_by_flow || choice_by_flow;
        self.routes_by_flow.store(by_flow, Ordering::Relaxed);
    }

    /// Becomes readable when something has changed.
    pub fn events_fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }

    /// The same for IPsec policies.
    pub fn ipsec_fd(&self) -> Option<RawFd> {
        self.ipsec_events.as_ref().map(|events| events.as_raw_fd())
    }

    /// Become readable when the kernel changes the way to a destination without a notification,
    /// just before it does.
    pub fn paths_fds(&self) -> impl Iterator<Item = RawFd> {
        self.paths.iter().flat_map(|paths| paths.fds())
    }

    /// The destinations to which the way has changed in such a manner, and errors about segments.
    pub fn take_paths(&self) -> (NetworkChange, Vec<sys::SegmentError>) {
        let mut change = NetworkChange::default();
        let mut errors = Vec::new();
        let paths = self.paths.iter();
        for notice in paths
            .flat_map(|paths| std::iter::from_fn(|| paths.next()))
            .take(PATHS_MAX)
        {
            let route = notice.route();
            if notice.changes_route && !change.routes.contains(&route) {
                change.routes.push(route);
            }
            errors.extend(notice.error.map(|error| sys::SegmentError {
                local: scoped(error.local, error.link_index),
                peer: scoped(error.peer, error.link_index),
                ..error
            }));
        }
        // What is left in the socket makes it readable again.
        (change, errors)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Network for NetconfNetwork {
    fn has_socket(&self, fd: RawFd) -> bool {
        // Where the system does not tell them apart, there is one.
        self.namespace.is_none() || sys::namespace_of(fd) == self.namespace
    }

    fn is_here(&self) -> bool {
        self.namespace.is_none() || sys::namespace_of_thread() == self.namespace
    }

    fn interfaces(&self) -> Vec<InterfaceFacts> {
        let netconf = &self.lock().netconf;
        let facts = |link: &Link| InterfaceFacts {
            spec: netconf.spec(link),
            addresses: usable_addresses(netconf, link),
            up: link.up,
            loopback: link.loopback,
            obstacle: netconf.obstacle(link).unwrap_or_default(),
        };
        netconf.links().map(facts).collect()
    }

    fn port_users(&self, port: Option<u16>) -> Option<Vec<PortUser>> {
        if !self.is_here() {
            return None;
        }
        let users = netconf::udp_sockets(port).ok()?.into_iter();
        let user = |socket: netconf::UdpSocketInfo| PortUser {
            local: socket.local,
            peer: socket.peer,
            inode: socket.inode.into(),
        };
        Some(users.map(user).collect())
    }

    fn listeners(&self, port: Option<u16>) -> Option<Vec<PortUser>> {
        if !self.is_here() {
            return None;
        }
        let found = netconf::TcpSockets::open().and_then(|mut it| it.listeners(port));
        let user = |listener: netconf::TcpListenerInfo| PortUser {
            local: listener.local,
            peer: None,
            inode: listener.inode.into(),
        };
        Some(found.ok()?.into_iter().map(user).collect())
    }

    fn end_connection(&self, local: SocketAddr, peer: SocketAddr, link: u32) -> io::Result<bool> {
        if !self.is_here() {
            return Err(io::Error::other("the thread is in another namespace"));
        }
        let ended = netconf::TcpSockets::open()
            .and_then(|mut sockets| sockets.end(local, peer, link))
            .map_err(io::Error::other)?;
        if ended {
            log::debug!("{local}: the kernel has ended an earlier connection of {peer}");
        }
        Ok(ended)
    }

    fn has_connection(&self, local: SocketAddr, peer: SocketAddr) -> io::Result<bool> {
        if !self.is_here() {
            return Err(io::Error::other("the thread is in another namespace"));
        }
        let found = netconf::TcpSockets::open()
            .and_then(|mut sockets| sockets.find(local, peer))
            .map_err(io::Error::other)?;
        Ok(found.is_some_and(|socket| !socket.listening))
    }

    fn kernel_connections(&self) -> io::Result<Box<dyn KernelConnections>> {
        if !self.is_here() {
            return Err(io::Error::other("the thread is in another namespace"));
        }
        let connections = connections::Connections::open().map_err(io::Error::other)?;
        Ok(Box::new(connections))
    }

    fn passed_by(&self, link_index: u32) -> Vec<String> {
        if !self.is_here() {
            return Vec::new();
        }
        let mut found = Vec::new();
        let versions = [IpVersion::V4, IpVersion::V6];
        let has_rules = |version| netconf::has_nftables_rules(version).unwrap_or(false);
        if versions.into_iter().any(has_rules) {
            found.push("nftables rules".to_owned());
        }
        if netconf::has_iptables_tables(IpVersion::V4) {
            found.push("iptables tables".to_owned());
        }
        if netconf::has_iptables_tables(IpVersion::V6) {
            found.push("ip6tables tables".to_owned());
        }
        if sys::has_cgroup_programs() {
            found.push("programs of its control group".to_owned());
        }
        let disciplines = self.lock().netconf.queueing_disciplines(link_index);
        if let Ok(kinds) = disciplines
            && !kinds.is_empty()
        {
            found.push(format!("traffic control ({})", kinds.join(", ")));
        }
        found
    }

    /// The file is that of the thread's namespace.
    fn hop_limit(&self, link_index: u32) -> u8 {
        let link = self
            .lock()
            .netconf
            .link(link_index)
            .map(|link| link.name.clone());
        hop_limit_of(&link.filter(|_| self.is_here()).unwrap_or_default())
    }

    fn ask_for_neighbour(&self, link_index: u32, address: IpAddr) {
        if let Err(error) = self.lock().netconf.probe_neighbour(link_index, address) {
            log::debug!("cannot have the kernel find neighbour {address}: {error}");
        }
    }

    fn has_route(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        self.knows_route(local, peer)
    }

    fn has_ipsec(&self) -> bool {
        self.lock().ipsec.as_ref().is_some_and(IpsecPolicies::any)
    }

    fn refused_sources(&self, link_index: u32) -> Vec<Ipv4Addr> {
        let inner = self.lock();
        let netconf = &inner.netconf;
        // The files are those of the thread's namespace.
        let name = netconf.link(link_index).map(|link| link.name.clone());
        let name = name.filter(|_| self.is_here());
        let setting = |setting| {
            name.as_deref()
                .map_or(0, |name| conf("ipv4", name, setting))
        };
        let of_host = netconf.addresses().iter();
        let mut refused = Vec::new();
        if setting("accept_local") == 0 {
            refused.extend(of_host.clone().filter_map(ipv4));
        }
        if setting("rp_filter") != 0 {
            refused.extend(of_host.filter_map(broadcast));
        }
        refused
    }

    fn xdp_program(&self, link_index: u32) -> Option<u32> {
        let answer = self.lock().netconf.xdp_program(link_index);
        answer.unwrap_or_else(|error| {
            log::debug!("interface {link_index}: {error}");
            None
        })
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
        if changes.all_routes || !changes.changed_routes.is_empty() {
            self.look_at_policy(&mut inner, changes.all_routes);
        }
        let ipsec = inner.ipsec.as_mut().map(IpsecPolicies::process_events);
        let ipsec = ipsec.is_some_and(|changed| {
            changed.unwrap_or_else(|error| {
                log::error!("IPsec policies cannot be followed: {error}");
                false
            })
        });
        let interfaces = ipsec || changes.links || changes.addresses || changes.resynchronised;
        let changed = interfaces || inner.netconf.generation() != before;
        changed.then_some(NetworkChange {
            interfaces,
            all_routes: changes.all_routes,
            routes: changes.changed_routes,
            neighbours: changes.changed_neighbours,
        })
    }

    fn has_members(&self, link_index: u32, group: IpAddr) -> Option<bool> {
        let is_here = self.is_here();
        let mut inner = self.lock();
        if matches!(inner.members, Members::Unasked) && is_here {
            inner.members = match Memberships::open(sys::subscribe) {
                Ok(members) => {
                    if members.are_listed() {
                        log::debug!("the kernel does not tell of its groups: its files are read");
                    }
                    Members::Known(members)
                }
                Err(error) => {
                    log::debug!(
                        "datagrams to groups that are looped back go through the kernel: {error}"
                    );
                    Members::Unknown
                }
            };
        }
        match &inner.members {
            Members::Known(members) => Some(members.contains(link_index, group)),
            Members::Unasked | Members::Unknown => None,
        }
    }

    fn take_member_changes(&self) -> Option<NetworkChange> {
        let mut inner = self.lock();
        let Members::Known(members) = &mut inner.members else {
            return None;
        };
        let changed = match members.process_events() {
            Ok(changed) => changed?,
            Err(error) => {
                log::error!("the host's multicast groups cannot be followed: {error}");
                inner.members = Members::Unknown;
                GroupChanges::Any
            }
        };
        let routes = match changed {
            GroupChanges::Some(groups) => {
                let len = |group: IpAddr| if group.is_ipv4() { 32 } else { 128 };
                groups
                    .into_iter()
                    .map(|group| (group, len(group)))
                    .collect()
            }
            GroupChanges::Any => vec![
                (Ipv4Addr::new(224, 0, 0, 0).into(), 4),
                (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0).into(), 8),
            ],
        };
        Some(NetworkChange {
            routes,
            ..NetworkChange::default()
        })
    }

    fn routes_by_flow(&self) -> bool {
        self.routes_by_flow.load(Ordering::Relaxed)
    }

    fn next_hop(&self, key: &NextHopKey) -> Resolution {
        self.find_next_hop(key)
    }
}
