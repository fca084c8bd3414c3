//! The way into user space and back: which flows a socket has, following what the kernel's socket says of itself.
//!
//! Every function here runs under the engine's control lock.

use std::net::SocketAddrV4;
use std::sync::atomic::Ordering;

use config::rules::{ProcessRule, ProcessRules};
use ring::{Backend, Flow};

use crate::engine::Engine;
use crate::interface::Interface;
use crate::offload::{self, Refusal, SocketFacts};
use crate::reason::Reason;
use crate::sys;
use crate::udp::UdpSocket;

/// The flows of a socket and how many descriptors stand for it.
#[derive(Debug)]
pub(crate) struct Attachment<B: Backend> {
    pub(crate) descriptors: u32,
    /// The rules that were in force when the socket was first looked at; later ones are for later sockets.
    rules: Option<&'static ProcessRules>,
    /// Number of the rule that decided last, or 0.
    rule: u32,
    flows: Vec<(&'static Interface<B>, Flow)>,
}

impl<B: Backend> Default for Attachment<B> {
    fn default() -> Self {
        Self {
            descriptors: 0,
            rules: None,
            rule: 0,
            flows: Vec::new(),
        }
    }
}

impl<B: Backend> Attachment<B> {
    pub(super) fn opened() -> Self {
        Self {
            descriptors: 1,
            ..Self::default()
        }
    }
}

impl<B: Backend> UdpSocket<B> {
    /// Brings the flows in line with the addresses that the kernel's socket has. To be called after every call that may
    /// have changed them, and when the network's configuration has changed.
    pub(crate) fn follow_kernel(&'static self, engine: &Engine<B>) {
        let fd = self.shadow.fd.load(Ordering::Relaxed);
        let (Ok(Some(local)), Ok(peer)) = (sys::local_address(fd), sys::peer_address(fd)) else {
            return;
        };
        let bound = local.port() != 0;
        let rules = if bound {
            *self
                .attachment()
                .rules
                .get_or_insert_with(|| engine.rules())
        } else {
            engine.rules()
        };
        self.remember_addresses(local, peer, rules);
        // What such a socket receives is the kernel's for good; what it sends may come to be.
        let only_sends = self.is_committed() && self.reason() == Reason::ReceiverRule && bound;
        if self.is_committed() && !only_sends {
            return;
        }
        if !bound {
            // Not bound yet, or not any more: connect(2) to AF_UNSPEC gives a port back that the kernel had chosen.
            if self.reason() != Reason::NotBound {
                self.drop_flows();
                self.release();
                self.set_reason(Reason::NotBound);
                self.interfaces_changed();
            }
            return;
        }
        let reuse_port = sys::option_int(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT) == Ok(1);
        let enabled = engine.settings().offloaded_sockets;
        let facts = SocketFacts {
            local,
            peer,
            reuse_port,
            enabled,
            rules,
        };
        let interfaces = engine.interface_facts();
        let refusal = match offload::plan(&facts, &interfaces) {
            Ok(_) if only_sends => return,
            Ok(_) if !self.hold() => {
                self.commit();
                self.drop_flows();
                Reason::Forked.into()
            }
            Ok(flows) => self.change_flows(engine, &flows).into(),
            Err(refusal) => {
                self.drop_flows();
                refusal
            }
        };
        let reason = refusal.reason;
        if reason == Reason::ReceiverRule {
            // So that changes of the network are followed, on which the ways of what it sends depend.
            engine.open_owner_of(local, &interfaces);
        }
        let rule = refusal.rule.map_or(0, |rule| rule.number);
        let had_rule = std::mem::replace(&mut self.attachment().rule, rule);
        if reason != self.reason() || rule != had_rule {
            engine.count_reason(reason);
            log::debug!("fd {fd}: {local}: {refusal}");
            self.set_reason_by_rule(reason, refusal.rule);
            if reason == Reason::Offloaded && self.is_committed() {
                // A thread has gone to wait in the kernel meanwhile.
                self.drop_flows();
                self.set_reason(Reason::NoInterface);
            }
        }
        if self.reason() != Reason::Offloaded {
            self.release();
        }
        self.interfaces_changed();
    }

    /// Leaves the socket to the kernel for good. What is queued stays to be read.
    pub(crate) fn leave_to_kernel(&self, engine: &Engine<B>, reason: Reason) {
        if !self.commit() && self.reason() != Reason::ReceiverRule {
            return;
        }
        self.drop_flows();
        self.give_queue_to_kernel(engine);
        self.release();
        let fd = self.shadow.fd.load(Ordering::Relaxed);
        log::debug!("fd {fd}: back to the kernel: {}", reason.text());
        engine.count_reason(reason);
        self.set_reason(reason);
        self.interfaces_changed();
    }

    /// Leaves a socket that was just opened to the kernel for good.
    pub(crate) fn leave_to_kernel_by_rule(&self, engine: &Engine<B>, rule: &ProcessRule) {
        self.commit();
        let (reason, rule) = (Reason::Rule, Some(rule));
        let fd = self.shadow.fd.load(Ordering::Relaxed);
        log::debug!("fd {fd}: {}", Refusal { reason, rule });
        engine.count_reason(reason);
        self.set_reason_by_rule(reason, rule);
    }

    /// Takes every flow away from the socket.
    pub(crate) fn drop_flows(&self) {
        let flows = std::mem::take(&mut self.attachment().flows);
        for (interface, flow) in flows {
            interface.detach(&flow);
        }
        self.interfaces.clear();
    }

    fn remember_addresses(
        &self,
        local: SocketAddrV4,
        peer: Option<SocketAddrV4>,
        rules: &'static ProcessRules,
    ) {
        let counters = self.counters();
        counters.local.set(local.into());
        match peer {
            Some(peer) => counters.peer.set(peer.into()),
            None => counters.peer.clear(),
        }
        let mut send = self.send.lock();
        send.local = Some(local);
        send.peer = peer;
        send.rules = Some(rules);
        send.forget_destinations();
    }

    /// Goes over from the flows it has to those it should have. New ones come first, so that no packet falls between.
    fn change_flows(&'static self, engine: &Engine<B>, wanted: &[(u32, Flow)]) -> Reason {
        let had = std::mem::take(&mut self.attachment().flows);
        let has = |index: u32, flow: &Flow| {
            had.iter()
                .any(|(interface, other)| interface.spec().index == index && other == flow)
        };
        let mut reason = Reason::OpenFailed;
        let mut flows = Vec::new();
        for (index, flow) in wanted {
            let interface = match engine.open_interface(*index) {
                Ok(interface) => interface,
                Err(refused) => {
                    reason = refused;
                    continue;
                }
            };
            let attached = if has(*index, flow) {
                Ok(())
            } else {
                interface.attach(flow, self)
            };
            match attached {
                Ok(()) => flows.push((interface, *flow)),
                Err(None) => reason = Reason::SteeringFailed,
                Err(Some(owner)) => {
                    // Only the kernel knows which of several sockets on one port a packet is for.
                    reason = Reason::PortShared;
                    self.commit();
                    owner.leave_to_kernel(engine, reason);
                    break;
                }
            }
        }
        let keep = |interface: &Interface<B>, flow: &Flow| {
            reason != Reason::PortShared
                && flows.iter().any(|(other, kept): &(&Interface<B>, Flow)| {
                    std::ptr::eq(*other, interface) && kept == flow
                })
        };
        for (interface, flow) in had
            .iter()
            .filter(|(interface, flow)| !keep(interface, flow))
        {
            interface.detach(flow);
        }
        if reason == Reason::PortShared {
            flows
                .drain(..)
                .for_each(|(interface, flow)| interface.detach(&flow));
        }
        self.interfaces.clear();
        for (interface, _) in &flows {
            if !self.interfaces.add(interface) {
                log::warn!(
                    "{}: a socket receives from at most 8 interfaces",
                    interface.spec().name
                );
            }
        }
        let offloaded = !flows.is_empty();
        self.attachment().flows = flows;
        if offloaded { Reason::Offloaded } else { reason }
    }
}
