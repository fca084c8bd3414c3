//! The library's internal thread: what has to be done though no call of the application's does it.
//! Each thing is a task (`tasks.rs`) of one loop (`event_loop.rs`).

use descriptors::OwnDescriptor;
use dev_core::Backend;
use links::netconf_network::NetconfNetwork;
use links::rings::leave_thread_free;
use links::watch;
use stats::ControlSocket;
use sys::{Leader, ProgramEnd};

use crate::cpu_sharing;
use crate::engine::Engine;
use crate::engine::control::LogControls;
use crate::engine::destroyed::Destroyed;
use crate::engine::followers::Followers;
use crate::engine::guardian::Guardian;
use crate::engine::inline_waits::InlineWaits;
use crate::engine::network_tasks::{Exemptions, Ipsec, NetworkChanges, Paths};
use crate::engine::program::Program;
use crate::engine::progress::Unpolled;
use crate::engine::same_host::SameHost;
use crate::engine::shared_ports::SharedPorts;
use crate::engine::started::AtDoor;
use crate::engine::tasks::{
    AdoptedSockets, Called, Descendants, Gauges, LostDescriptors, OpenedLate, Paced, Requests,
    Strays, Streams, TakeOver,
};
use crate::process::door::Door;
use crate::process::event_loop::EventLoop;

pub use crate::process::thread_place::ThreadPlace;

/// What the thread needs before it runs.
pub struct Monitor {
    called: Option<OwnDescriptor>,
    control: Option<ControlSocket<OwnDescriptor>>,
    door: Option<Door>,
    log: LogControls,
    place: ThreadPlace,
    leader: Option<Leader>,
    start_guardian: fn(),
}

impl Monitor {
    /// To be called by the thread that starts the internal one. A new descriptor has the lowest
    /// free number until it is moved away; if the internal thread made it, a program might
    /// meanwhile be given another number than it expects.
    #[must_use]
    pub fn prepare<B: Backend>(
        engine: &Engine<B>,
        log: LogControls,
        place: ThreadPlace,
        start_guardian: fn(),
    ) -> Self {
        watch::prepare();
        cpu_sharing::prepare();
        engine.tcp.prepare_for_destruction();
        let door = Door::open();
        engine.sharing.set_has_door(door.is_some());
        Self {
            called: sys::eventfd().ok(),
            control: engine.control_socket(),
            door,
            log,
            place,
            leader: Leader::open(),
            start_guardian,
        }
    }

    /// Runs until the process ends, or the program's own threads have ended, which it then returns.
    /// The caller has blocked every signal for this thread.
    pub fn run<B: Backend>(
        self,
        engine: &'static Engine<B>,
        network: &NetconfNetwork,
    ) -> Option<ProgramEnd> {
        // The thread that made this one may have real-time priority and one core, where this one
        // would disturb it.
        sys::become_ordinary_thread();
        self.place.take();
        let mut events = EventLoop::new();
        // Without a descriptor nobody calls: every datagram is sent at once.
        if let Some(fd) = self.called {
            engine.internal_thread.begin(fd);
            events.add(Called::new(engine));
        }
        events.add(Paced::new(engine));
        events.add(Followers::new(engine));
        if let Some(unpolled) = Unpolled::new(engine) {
            events.add(unpolled);
        }
        events.add(InlineWaits::new(engine));
        events.add(Program::new(engine, self.leader));
        events.add(Streams::new(engine));
        events.add(Guardian::new(engine, self.start_guardian));
        events.add(Exemptions::new(engine));
        events.add(Destroyed::new(engine));
        events.add(Paths::new(engine, network.clone()));
        if let Some(control) = self.control {
            events.add(Requests::new(engine, control, self.log));
        }
        events.add(TakeOver::new(engine));
        events.add(OpenedLate::new(engine));
        events.add(LostDescriptors::new(engine));
        events.add(SharedPorts::new(engine));
        events.add(Strays::new(engine));
        events.add(Gauges::new(engine));
        events.add(Descendants::new(engine));
        events.add(AdoptedSockets::new(engine));
        if engine.settings().shares_memory {
            events.add(SameHost::new(engine));
        }
        if let Some(door) = self.door {
            events.add(AtDoor::new(engine, door));
        }
        events.add(Ipsec::new(engine, network.clone()));
        events.add(NetworkChanges::new(engine, network.clone()));
        leave_thread_free();
        cpu_sharing::own_thread_begins();
        events.run(|| engine.internal_thread.begins_round());
        engine.internal_thread.ends();
        watch::ends();
        engine.internal_thread.program_end()
    }
}
