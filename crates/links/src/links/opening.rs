//! Opening an interface, by the first socket that has a use for it.

use std::sync::atomic::{AtomicBool, Ordering};

use dev_core::{Backend, LinkSpec, OpenError, Port, RingsMax};
use stats::RingSlot;

use crate::interface::Interface;
use crate::interface::ring_set::RINGS_MAX;
use crate::links::Links;
use crate::links::not_open::NotOpen;
use crate::links::states::{Absent, Opening};
use crate::network::InterfaceFacts;
use crate::reason::Reason;
use crate::receiver::Receiver;
use crate::{frames, notice};

impl<S: Receiver> Links<S> {
    /// An interface, opened if it was not. While another thread opens it, there is none.
    pub fn open(&'static self, index: u32) -> Result<&'static Interface<S>, Reason> {
        loop {
            match self.states.get(index) {
                Ok(interface) => return Ok(interface),
                Err(Absent::Refused(reason)) => return Err(reason),
                Err(Absent::Opening) => return Err(Reason::Opening),
                Err(Absent::Closed) => {}
            }
            if let Ok(opening) = self.states.begin(index) {
                return self.open_with_patience(index, opening);
            }
        }
    }

    /// The same; waits if another thread opens it, no longer than a call may.
    pub fn open_for_flows(&'static self, index: u32) -> Result<&'static Interface<S>, Reason> {
        let wait = self.settings.open_wait;
        let interface = match self.states.get_when_opened(index, wait) {
            Ok(interface) => interface,
            Err(_) => self.open(index)?,
        };
        if self.may_steer(interface) {
            Ok(interface)
        } else {
            Err(Reason::Namespace)
        }
    }

    /// An interface that is open, for new flows.
    pub fn get_for_flows(&self, index: u32) -> Result<&'static Interface<S>, Absent> {
        let interface = self.states.get(index)?;
        if self.may_steer(interface) {
            Ok(interface)
        } else {
            Err(Absent::Refused(Reason::Namespace))
        }
    }

    /// What steers a resting interface comes back to the one that has its index where the thread
    /// is.
    fn may_steer(&self, interface: &Interface<S>) -> bool {
        !interface.is_resting() || self.network.is_here()
    }

    pub(super) fn open_closed(
        &self,
        index: u32,
        mut opening: Opening<'_, S>,
    ) -> Result<&'static Interface<S>, Reason> {
        if !self.network.is_here() {
            // The device would be one of the thread's own namespace. Another thread may open it.
            opening.given_up();
            return Err(Reason::Namespace);
        }
        let mut present = self.network.interfaces().into_iter();
        let facts = present.find(|facts| facts.spec.index == index);
        let Some(facts) = facts.filter(|facts| facts.is_eligible() && facts.up) else {
            opening.given_up();
            return Err(Reason::Route);
        };
        let before = opening.before.take();
        let interface = match self.open_device(facts, before) {
            Ok(interface) => interface,
            Err(not_open) => {
                let reason = not_open.reason();
                opening.failed(not_open);
                if matches!(reason, Reason::Held | Reason::BrokerEnded) {
                    self.wait_for_holder();
                }
                return Err(reason);
            }
        };
        opening.succeeded(interface);
        self.record_too(interface);
        // It waits for packets of every interface.
        self.internal_thread.call();
        self.say_what_is_passed_by(interface);
        // What has changed meanwhile was told to the interfaces that were open then.
        self.bring_up_to_date(interface, &self.network.interfaces());
        Ok(interface)
    }

    fn open_device(
        &self,
        facts: InterfaceFacts,
        before: Option<NotOpen>,
    ) -> Result<&'static Interface<S>, NotOpen> {
        let failed_before = before.is_some();
        let spec = facts.spec;
        let chosen = |by_sockets: &AtomicBool| by_sockets.load(Ordering::Relaxed);
        let rings = RingsMax {
            senders: self
                .settings
                .rings_tx
                .rings_max(chosen(&self.sending_is_chosen)),
            receivers: self
                .settings
                .rings_rx
                .rings_max(chosen(&self.receiving_is_chosen))
                .min(RINGS_MAX),
        };
        let opened = match self.backend.join(&spec, self.pool, rings) {
            Some(Ok(port)) => Ok(port),
            // Who opened it alone now would keep it from the broker, and from the others.
            refused if before.as_ref().is_some_and(NotOpen::awaits_broker) => {
                if let Some(Err(error)) = refused {
                    log::debug!("{}: {}", spec.name, error.what);
                }
                return Err(NotOpen::broker_ended(&spec.name));
            }
            refused => {
                if let Some(Err(error)) = refused {
                    self.segment.event("broker", &spec.name, &error.what);
                    log::info!("{}: {} ({})", spec.name, error.what, error.remedy);
                }
                self.open_alone(&spec, rings)
            }
        };
        let port = match opened {
            Ok(port) => port,
            Err(error) => {
                if error.locked_memory
                    && !failed_before
                    && let Some(limit_bytes) = sys::locked_memory_limit_bytes()
                {
                    notice::warn_in_a_box(&notice::locked_memory(limit_bytes));
                }
                self.has_failed.store(true, Ordering::Relaxed);
                self.segment.event("error", &spec.name, &error.what);
                // Once is enough for a reader.
                let level = if failed_before {
                    log::Level::Debug
                } else {
                    log::Level::Warn
                };
                if error.held {
                    let not_open = self.is_held_by_other(spec.index, &spec.name, before);
                    if let Some(holder) = not_open.holder() {
                        log::log!(level, "{} is not accelerated: {holder} holds it", spec.name);
                        log::log!(level, "{}: it is taken over when that ends", spec.name);
                    } else {
                        log::log!(level, "{} is not accelerated: {}", spec.name, error.what);
                        log::log!(level, "{}: {}", spec.name, error.remedy);
                    }
                    return Err(not_open);
                }
                log::log!(level, "{} is not accelerated: {}", spec.name, error.what);
                log::log!(level, "{}: {}", spec.name, error.remedy);
                return Err(NotOpen::failed());
            }
        };
        self.have_opened(spec, port)
    }

    /// Opens a device for this process alone.
    fn open_alone(&self, spec: &LinkSpec, rings: RingsMax) -> Result<Port<S::Backend>, OpenError> {
        // To find that out by opening the device takes milliseconds, in every child that has
        // sockets of its own.
        match self.network.xdp_program(spec.index) {
            Some(_) => Err(OpenError {
                what: "another XDP program is attached".to_owned(),
                remedy: "it is taken over when it is free; see `ip link` for the program",
                locked_memory: false,
                held: true,
            }),
            None => self.backend.open(spec, self.pool, rings),
        }
    }

    /// Of its own, so that its values need no stack while the device is being opened: threads may
    /// have little.
    #[inline(never)]
    fn have_opened(
        &self,
        spec: LinkSpec,
        mut port: Port<S::Backend>,
    ) -> Result<&'static Interface<S>, NotOpen> {
        log::debug!(
            "{}: opened, {}, {} queue(s), {} ring(s) for sending, {} for receiving",
            spec.name,
            port.description,
            port.queues,
            port.senders.len(),
            port.receivers.len()
        );
        if !port.note.is_empty() {
            log::info!("{}: {}, {}", spec.name, port.description, port.note);
        }
        self.segment.event(
            "device",
            &spec.name,
            &format!("opened, {}", port.description),
        );
        self.segment.note(&spec.name, "mode", &port.note);
        self.note_mtu(&spec, port.mtu_max);
        let given = std::mem::take(&mut port.raw_sockets);
        if self.return_socket.get().is_none() {
            let raw = sys::RawSocket::open().ok();
            if let Some(raw) = raw.or_else(|| sys::RawSocket::of(given)) {
                self.return_socket.get_or_init(|| raw);
            }
        }
        if let Some(set_option) = port.set_option.take() {
            const { assert!(sys::BIND == dev_core::BIND) };
            sys::set_options_through(move |fd, name, value| {
                let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EPERM);
                set_option(fd, name, value).map_err(|error| sys::Errno(errno(error)))
            });
        }
        self.forget_holder(&spec.name);
        // A ring sends by one queue, and receives by any number.
        let queues_of = |ring: usize| port.receivers.get(ring).map_or(1, |side| side.queues);
        let rings = port.senders.len().max(port.receivers.len());
        let ring_slots: Box<[_]> = (0..rings)
            .map(|ring| self.show_ring(&spec, &port.description, queues_of(ring)))
            .collect();
        let index = spec.index;
        let queue_stats = self.segment.claim_queue();
        queue_stats.ifname.set(&spec.name);
        queue_stats.ifindex.set(index);
        let settings = &self.settings;
        let ring_slots = Box::leak(ring_slots);
        let name = spec.name.clone();
        let interface = Interface::new(spec, port, self.pool, settings, ring_slots, queue_stats);
        let Some(interface) = interface else {
            log::warn!("{name} is not accelerated: it has no ring to receive by");
            return Err(NotOpen::failed());
        };
        interface.refuse_sources(self.network.refused_sources(index));
        Ok(Box::leak(Box::new(interface)))
    }

    /// Shows a ring to readers, for as long as the slot lives.
    fn show_ring(&self, spec: &LinkSpec, mode: &str, queues: u32) -> RingSlot {
        let stats = self.segment.claim_ring();
        stats.ifname.set(&spec.name);
        stats.ifindex.set(spec.index);
        stats.queues.set(queues);
        stats.mode.set(mode);
        stats
    }

    /// Packets of accelerated sockets do not meet what an administrator may count on.
    fn say_what_is_passed_by(&self, interface: &Interface<S>) {
        let spec = interface.spec();
        let passed_by = self.network.passed_by(spec.index);
        if passed_by.is_empty() {
            return;
        }
        let text = format!(
            "accelerated packets pass by this host's {}",
            passed_by.join(", ")
        );
        log::warn!("{}: {text}", spec.name);
        self.segment.note(&spec.name, "firewall", &text);
    }

    /// An open interface has, perhaps, another hardware address, or is gone.
    pub(super) fn bring_up_to_date(&self, interface: &Interface<S>, present: &[InterfaceFacts]) {
        let index = interface.spec().index;
        match present.iter().find(|facts| facts.spec.index == index) {
            Some(facts) => {
                interface.follow_mac(facts.spec.mac);
                interface.follow_carriers(facts.spec.upper.as_ref());
                self.follow_addresses(interface);
                self.note_mtu(&facts.spec, interface.mtu_max());
                interface.refuse_sources(self.network.refused_sources(index));
            }
            None => interface.mark_lost(),
        }
    }

    /// An open interface has, perhaps, other addresses. What another thread has found earlier, and
    /// says later, does not stay.
    fn follow_addresses(&self, interface: &Interface<S>) {
        let index = interface.spec().index;
        let look = || {
            let mut present = self.network.interfaces().into_iter();
            let facts = present.find(|facts| facts.spec.index == index);
            facts.map(|it| it.addresses).unwrap_or_default()
        };
        let mut addresses = look();
        loop {
            interface.follow_addresses(&addresses);
            let before = std::mem::replace(&mut addresses, look());
            if before == addresses {
                break;
            }
        }
    }

    /// Says what does not fit into a frame.
    fn note_mtu(&self, spec: &LinkSpec, mtu_max: u32) {
        let note = frames::note_on_mtu(spec.mtu, mtu_max);
        if !note.is_empty() {
            log::debug!("{}: {note}", spec.name);
        }
        self.segment.note(&spec.name, "mtu", &note);
    }
}
