//! What the flows of a socket depend on.
//!
//! Every function here runs under the engine's control lock.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use libc::c_int;
use links::family::{Addresses, scope_of};
use links::reason::Reason;
use vma_config::rules::ProcessRules;

use crate::sockets::host::Host;
use crate::sockets::offload::{self, PortSharing, SocketFacts};
use crate::udp::groups::{self};
use crate::udp::port_sharing::port_sharing;
use crate::udp::socket::{UdpSocket, UdpStack};

impl<S: UdpStack> UdpSocket<S> {
    /// Takes note of the addresses that the kernel socket has. Returns the rules that are in force
    /// for the socket.
    pub(super) fn note_addresses(
        &'static self,
        host: &Host<S>,
        addresses: &Addresses,
    ) -> &'static ProcessRules {
        let local = addresses.local;
        let mut attachment = self.attachment();
        attachment.local = local;
        let rules = if local.port() == 0 {
            host.rules()
        } else {
            *attachment.rules.get_or_insert_with(|| host.rules())
        };
        drop(attachment);
        self.remember_addresses(addresses, rules);
        let groups = &mut self.attachment().groups;
        let from = groups.local;
        (groups.local, groups.peer, groups.versions) = (local, addresses.peer, addresses.versions);
        host.ports.change(self.into(), groups, from, local);
        if from != local {
            let inode = self.kernel_socket.inode.load(Ordering::Relaxed);
            host.port_is_ours(local.port(), inode);
        }
        // Until more is known of it.
        groups.is_able = false;
        rules
    }

    /// Not bound yet, or not any more: connect(2) to AF_UNSPEC gives a port back that the kernel
    /// had chosen.
    pub(super) fn note_unbound(&self) {
        if self.reason() != Reason::NotBound {
            self.drop_flows();
            self.release();
            self.set_reason(Reason::NotBound);
            self.interfaces_changed();
        }
    }

    /// What its flows depend on, and takes note of what groups do.
    pub(super) fn gather(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        addresses: &Addresses,
        rules: &'static ProcessRules,
    ) -> SocketFacts<'static> {
        let (local, peer) = (addresses.local, addresses.peer);
        let device = sys::bound_device(fd);
        let is_on = |name| sys::option_int(fd, libc::SOL_SOCKET, name) == Ok(1);
        let shares_port = is_on(libc::SO_REUSEPORT);
        let reuses_address = shares_port || is_on(libc::SO_REUSEADDR);
        let refusal = host.refusal();
        let is_ruled_out =
            peer.is_some_and(|peer| offload::connect_rule(rules, peer, local).is_some());
        let ipsec = host.network().has_ipsec();
        let mut attachment = self.attachment();
        attachment.groups.device = device;
        attachment.shares_port = shares_port;
        attachment.reuses_address = reuses_address;
        let foreign = *attachment
            .foreign
            .get_or_insert_with(|| !host.network().has_socket(fd));
        attachment.groups.is_able =
            !self.is_committed() && refusal.is_none() && !foreign && !ipsec && !is_ruled_out;
        drop(attachment);
        let sharing = if !reuses_address || foreign || local.ip().is_multicast() {
            // For groups only, which are judged one by one.
            PortSharing::Alone
        } else if groups::has_twin(host, self) {
            PortSharing::Shared
        } else {
            port_sharing(host, self, addresses)
        };
        SocketFacts {
            local,
            peer,
            versions: addresses.versions,
            device,
            sharing,
            refusal,
            foreign,
            ipsec,
            rules,
        }
    }

    fn remember_addresses(&self, addresses: &Addresses, rules: &'static ProcessRules) {
        let counters = self.counters();
        counters.local.set(addresses.local);
        match addresses.peer {
            Some(peer) => counters.peer.set(peer),
            None => counters.peer.clear(),
        }
        let mut send = self.send.lock();
        send.set_addresses(addresses, rules);
        // A link-local address binds the kernel's socket to an interface, and a connection that
        // ends lets it go.
        let has_scope = |address: SocketAddr| scope_of(address) != 0;
        let may_be_bound = has_scope(addresses.local) || addresses.peer.is_some_and(has_scope);
        let device_may_differ = may_be_bound || send.options().device != 0;
        drop(send);
        if device_may_differ {
            self.refresh_send_options();
        }
    }
}
