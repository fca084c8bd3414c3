//! What an interface's thread says of it.

use std::time::{Duration, Instant};

use dev_xdp::shared::MemberFacts;
use stats::{BrokerClient, BrokerInterface, PORTS_SHOWN};

use super::{Port, Served};
use crate::process;

/// How old it may be.
pub(super) const AGE: Duration = Duration::from_secs(1);

impl Port<'_> {
    /// Says it if it was not said for a while.
    pub(super) fn show_if_due(&mut self) {
        if self.shown.is_none_or(|at| at.elapsed() >= AGE) {
            self.show();
        }
    }

    /// Says who has the interface.
    pub(super) fn show(&mut self) {
        self.shown = Some(Instant::now());
        let (mode, queues) = self.host.mode();
        let clients = self.processes.values().filter_map(|served| {
            let facts = self.host.facts_of(served.client)?;
            Some(client(served, &facts))
        });
        let mut clients: Vec<_> = clients.collect();
        clients.sort_by_key(|it| it.pid);
        let interface = BrokerInterface {
            namespace: self.id.namespace.1,
            index: self.id.index,
            name: self.link.name.clone(),
            mode: format!("xdp {mode}"),
            queues: u32::try_from(queues).unwrap_or(u32::MAX),
            clients,
        };
        self.shared.board.put(self.id, interface);
    }
}

fn client(served: &Served, facts: &MemberFacts) -> BrokerClient {
    let named = |(protocol, local): &(dev_core::Protocol, std::net::SocketAddr)| {
        let protocol = match protocol {
            dev_core::Protocol::Tcp => "tcp",
            dev_core::Protocol::Udp => "udp",
        };
        format!("{protocol} {local}")
    };
    BrokerClient {
        pid: served.pid,
        user: served.user,
        program: process::program(served.pid),
        ports: facts.ports.iter().take(PORTS_SHOWN).map(named).collect(),
        ports_held: facts.ports.len() as u64,
        flows: facts.flows as u64,
        frames_received: facts.received.into(),
        frames_sending: facts.sending as u64,
        frames_to_send: facts.to_send.into(),
        dropped: facts.dropped,
        is_late: facts.is_late,
    }
}
