//! Redirects packets to and from TAP devices as [`Flow`]s say, by filters of traffic control.
//!
//! A flow to a TAP device is filtered at its interface and at the loopback interface, where what
//! this host sends to itself arrives. The priorities are VMA's numbers for the kinds of flows.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;

use netconf::{Error, FilterPlace, Redirections, Selection};

use crate::flows::{Direction, Flow, Protocol};

/// What it needs to know of the host at the moment.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) loopback: u32,
    pub(crate) addresses: Vec<Ipv4Addr>,
}

/// The filters that are in place.
#[derive(Debug, Default)]
pub(crate) struct Redirector {
    /// Opened with the first flow.
    redirections: Option<Redirections>,
    links: HashMap<u32, Ingress>,
    filters: HashMap<Flow, Vec<(FilterPlace, Selection)>>,
}

/// Why packets are not redirected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0} (CAP_NET_ADMIN is needed)")]
    NotAllowed(Error),
    #[error("{0}: errno {number}", number = .0.errno().unwrap_or(0))]
    Kernel(Error),
    #[error("what comes from the TAP device goes elsewhere already")]
    Taken,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.errno() {
            Some(EPERM) => Self::NotAllowed(error),
            _ => Self::Kernel(error),
        }
    }
}

/// Of a link.
#[derive(Debug, Default)]
struct Ingress {
    /// It was not there before.
    is_ours: bool,
    /// The filters of each priority: lower half of the destination port, number.
    tables: HashMap<u16, BTreeSet<(u8, u16)>>,
}

impl Redirector {
    /// Puts the filters of a flow in place. After an error none of them is.
    pub(crate) fn add(&mut self, flow: Flow, host: &Host) -> Result<(), Failure> {
        let is_egress = |other: &&Flow| other.direction == Direction::Egress;
        let mut others = self.filters.keys().filter(is_egress);
        if flow.direction == Direction::Egress && others.any(|other| other.tap == flow.tap) {
            return Err(Failure::Taken);
        }
        if self.redirections.is_none() {
            self.redirections = Some(Redirections::open()?);
        }
        self.filters.insert(flow, Vec::new());
        let added = match flow.direction {
            Direction::Egress => self.add_egress(&flow, host),
            Direction::Ingress {
                protocol,
                destination,
                source,
            } => {
                let selection = Selection {
                    destination,
                    source,
                };
                let is_of_this_host =
                    source.is_some_and(|source| host.addresses.contains(source.ip()));
                // What this host sends does not arrive at the interface.
                let links = [Some(host.loopback), (!is_of_this_host).then_some(flow.link)];
                links
                    .into_iter()
                    .flatten()
                    .try_for_each(|link| self.add_selected(flow, link, protocol, selection))
            }
        };
        if added.is_err() {
            self.remove(&flow);
        }
        added.map_err(Failure::from)
    }

    /// Takes the filters of a flow away. What cannot be removed is gone with its device.
    pub(crate) fn remove(&mut self, flow: &Flow) {
        let Some(redirections) = &mut self.redirections else {
            return;
        };
        for (place, selection) in self.filters.remove(flow).unwrap_or_default() {
            // The device may be gone.
            let _ = redirections.remove(place, &selection);
            let Some(ingress) = self.links.get_mut(&place.link_index) else {
                continue;
            };
            if let Some(table) = ingress.tables.get_mut(&place.priority) {
                table.remove(&(bucket(&selection), place.number));
                if table.is_empty() {
                    let _ = redirections.remove_table(place.link_index, place.priority);
                    ingress.tables.remove(&place.priority);
                }
            }
        }
        if flow.direction == Direction::Egress
            && let Some(ingress) = self.links.get_mut(&flow.tap)
        {
            for priority in EGRESS_PRIORITIES {
                if ingress.tables.remove(&priority).is_some() {
                    let _ = redirections.remove_table(flow.tap, priority);
                }
            }
        }
        self.links.retain(|link, ingress| {
            let is_used = !ingress.tables.is_empty();
            if !is_used && ingress.is_ours {
                let _ = redirections.remove_ingress(*link);
            }
            is_used
        });
    }

    fn add_selected(
        &mut self,
        flow: Flow,
        link: u32,
        protocol: Protocol,
        selection: Selection,
    ) -> Result<(), Error> {
        let (priority, number) = match (protocol, selection.source) {
            (Protocol::Udp, Some(_)) => (1, UDP),
            (Protocol::Udp, None) => (2, UDP),
            (Protocol::Tcp, Some(_)) => (3, TCP),
            (Protocol::Tcp, None) => (4, TCP),
        };
        self.add_ingress(link)?;
        let Some((redirections, ingress)) = self.parts(link) else {
            return Ok(());
        };
        if !ingress.tables.contains_key(&priority)
            && let Err(error) = redirections.add_table(link, priority, number)
        {
            // A part of it may be there.
            let _ = redirections.remove_table(link, priority);
            return Err(error);
        }
        let table = ingress.tables.entry(priority).or_default();
        let bucket = bucket(&selection);
        // As many flows as there may be leave one.
        let number = (1..=FilterPlace::NUMBER_MAX)
            .find(|number| !table.contains(&(bucket, *number)))
            .unwrap_or(FilterPlace::NUMBER_MAX);
        let place = FilterPlace {
            link_index: link,
            priority,
            number,
        };
        table.insert((bucket, number));
        // Noted first, so that an error takes back the table, too.
        self.filters
            .entry(flow)
            .or_default()
            .push((place, selection));
        let Some((redirections, _)) = self.parts(link) else {
            return Ok(());
        };
        redirections.add(place, &selection, flow.tap)
    }

    fn add_egress(&mut self, flow: &Flow, host: &Host) -> Result<(), Error> {
        self.add_ingress(flow.tap)?;
        let Some((redirections, ingress)) = self.parts(flow.tap) else {
            return Ok(());
        };
        let [to_host, to_others] = EGRESS_PRIORITIES;
        ingress.tables.entry(to_host).or_default();
        for address in &host.addresses {
            redirections.add_all(flow.tap, to_host, Some(*address), host.loopback)?;
        }
        ingress.tables.entry(to_others).or_default();
        redirections.add_all(flow.tap, to_others, None, flow.link)
    }

    fn add_ingress(&mut self, link: u32) -> Result<(), Error> {
        let Some(redirections) = &mut self.redirections else {
            return Ok(());
        };
        if self.links.contains_key(&link) {
            return Ok(());
        }
        let is_ours = match redirections.add_ingress(link) {
            Ok(()) => true,
            // The administrator's; it stays when the filters go.
            Err(error) if error.errno() == Some(EEXIST) => false,
            Err(error) => return Err(error),
        };
        let ingress = Ingress {
            is_ours,
            ..Ingress::default()
        };
        self.links.insert(link, ingress);
        Ok(())
    }

    fn parts(&mut self, link: u32) -> Option<(&mut Redirections, &mut Ingress)> {
        self.redirections.as_mut().zip(self.links.get_mut(&link))
    }
}

impl Drop for Redirector {
    fn drop(&mut self) {
        let flows: Vec<Flow> = self.filters.keys().copied().collect();
        flows.iter().for_each(|flow| self.remove(flow));
    }
}

fn bucket(selection: &Selection) -> u8 {
    let [_, lower] = selection.destination.port().to_be_bytes();
    lower
}

/// At the TAP device: to this host, to others.
const EGRESS_PRIORITIES: [u16; 2] = [1, 2];
const UDP: u8 = 17;
const TCP: u8 = 6;
const EPERM: i32 = 1;
const EEXIST: i32 = 17;
