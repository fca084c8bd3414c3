//! What a batch of notifications changed.

use std::net::IpAddr;

/// What [`Netconf::process_events`](crate::Netconf::process_events) found changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent classes")]
pub struct Changes {
    /// A link appeared, disappeared or changed; see `changed_links`.
    pub links: bool,
    /// An address was added, removed or changed.
    pub addresses: bool,
    /// A neighbour was added, removed or changed, if only in its state.
    pub neighbours: bool,
    /// A route or a policy rule was added, removed or replaced.
    pub routes: bool,
    /// Notifications were lost (or could not be read), so the whole configuration was read again.
    /// The other fields are then the difference between before and after, `routes` always among
    /// them.
    pub resynchronised: bool,
    /// The indexes of the links that appeared, disappeared or changed, each once.
    pub changed_links: Vec<u32>,
    /// The destinations (address, prefix length) of routes that were added, removed or replaced.
    /// Each once.
    pub changed_routes: Vec<(IpAddr, u8)>,
    /// Any destination may have another route: a policy rule or a next hop has changed, or too many
    /// routes to tell.
    pub all_routes: bool,
    /// The neighbours (link index, address) that frames go to at another hardware address, or no
    /// longer, or now. Each once.
    pub changed_neighbours: Vec<(u32, IpAddr)>,
    /// The neighbours (link index, address) that became stale: those in use need
    /// [`Netconf::probe_neighbour`](crate::Netconf::probe_neighbour). Each once.
    pub stale_neighbours: Vec<(u32, IpAddr)>,
}

impl Changes {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn link(&mut self, index: u32) {
        self.links = true;
        if !self.changed_links.contains(&index) {
            self.changed_links.push(index);
        }
    }

    pub(crate) fn route(&mut self, destination: (IpAddr, u8)) {
        self.routes = true;
        if self.changed_routes.len() >= CHANGED_ROUTES_MAX {
            self.every_route();
        }
        if !self.all_routes && !self.changed_routes.contains(&destination) {
            self.changed_routes.push(destination);
        }
    }

    pub(crate) fn every_route(&mut self) {
        self.routes = true;
        self.all_routes = true;
        self.changed_routes.clear();
    }

    pub(crate) fn neighbour(&mut self, key: (u32, IpAddr)) {
        if !self.changed_neighbours.contains(&key) {
            self.changed_neighbours.push(key);
        }
    }

    pub(crate) fn stale(&mut self, key: (u32, IpAddr)) {
        if !self.stale_neighbours.contains(&key) {
            self.stale_neighbours.push(key);
        }
    }
}

/// More are not told apart.
const CHANGED_ROUTES_MAX: usize = 64;
