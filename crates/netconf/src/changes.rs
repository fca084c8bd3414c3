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
    /// Notifications were lost (or could not be read), so the whole configuration was read again. The
    /// other fields are then the difference between before and after, `routes` always among them.
    pub resynchronised: bool,
    /// The indexes of the links that appeared, disappeared or changed, each once.
    pub changed_links: Vec<u32>,
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

    pub(crate) fn stale(&mut self, key: (u32, IpAddr)) {
        if !self.stale_neighbours.contains(&key) {
            self.stale_neighbours.push(key);
        }
    }
}
