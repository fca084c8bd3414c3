//! The broker: opens interfaces with the rights that this takes, and gives each process that may
//! have one a part of it. See docs/broker.md.
//!
//! ```text
//! socket ── hello, namespace ──► newcomers ─ policy ─► a thread for each, in its namespace
//!                                                        │ Host: program, memory, flows
//!                                  its processes ◄───────┘ questions and answers
//! ```

mod activation;
mod board;
mod here;
mod newcomer;
mod policy;
mod port;
mod private;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use dev_xdp::XdpBackend;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::cli::Options;
use crate::daemon::{Failure, signals};
use crate::log::Log;
use crate::process::Process;
use board::{Board, Refused};
use newcomer::{InterfaceId, Newcomer, NotHeard};
pub(crate) use policy::Malformed as PolicyError;
use policy::Policy;
pub(crate) use private::start as start_private;

const LISTENER: u64 = 0;
const END: u64 = 1;
/// The program that it was started for has ended.
const PROGRAM: u64 = 2;
/// Who has connected and not said anything yet is known by numbers from here on.
const FIRST_STRANGER: u64 = 3;
/// Of those so many are heard at once, for so long.
const STRANGERS_MAX: usize = 256;
const STRANGER_PATIENCE: Duration = Duration::from_secs(2);

/// What all threads share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    backend: XdpBackend,
    log: &'a Log,
    board: Board,
    ports: Mutex<HashMap<InterfaceId, Door>>,
}

/// The way to the thread of an interface.
#[derive(Debug)]
struct Door {
    newcomers: Sender<Newcomer>,
    bell: UnixStream,
}

impl Shared<'_> {
    fn ports(&self) -> MutexGuard<'_, HashMap<InterfaceId, Door>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(options: &Options, log: &Log) -> Result<(), Failure> {
    let mut policy = Policy::read(&options.broker_policy).map_err(Failure::Policy)?;
    let program = match options.broker_for {
        Some(pid) => {
            let program = Process::open(pid);
            let program = program.ok_or_else(|| io::Error::other("its program has ended"))?;
            policy.allow_user_of(pid);
            Some(program)
        }
        None => None,
    };
    let path = &options.broker_socket;
    let serve_failed = |error| Failure::Agent(path.display().to_string(), error);
    let passed = activation::passed_socket().map_err(serve_failed)?;
    // It stays systemd's.
    let is_own_socket = passed.is_none();
    let listener = passed
        .map_or_else(|| listener(path), Ok)
        .map_err(serve_failed)?;
    let shared = Shared {
        backend: XdpBackend::new(options.xdp_mode, 0),
        log,
        board: Board::default(),
        ports: Mutex::default(),
    };
    let end = signals(&[SIGTERM, SIGINT])?;
    log.info(format_args!(
        "vmad {} opens interfaces for the programs that ask at {}: {policy}",
        env!("CARGO_PKG_VERSION"),
        path.display()
    ));
    crate::daemon::notify(log, &[sd_notify::NotifyState::Ready]);
    let served = std::thread::scope(|scope| {
        let mut listening = Listening {
            listener,
            policy,
            shared: &shared,
            socket: path,
            program,
            program_ended: None,
            strangers: HashMap::new(),
            next: FIRST_STRANGER,
        };
        let served = listening.serve(scope, &end);
        if is_own_socket {
            // From here on another one may take its place.
            let _ = fs::remove_file(path);
        }
        Board::take_down(path);
        drop(listening);
        // The threads end when nobody can come in any more.
        shared.ports().clear();
        served
    });
    if options.broker_for.is_some() {
        private::remove_directory(path);
    }
    log.info("ended");
    served
}

struct Listening<'a> {
    listener: OwnedFd,
    policy: Policy,
    shared: &'a Shared<'a>,
    /// Its path.
    socket: &'a Path,
    /// What this is the broker for, and since when it has ended.
    program: Option<Process>,
    program_ended: Option<Instant>,
    /// Who has connected, and since when.
    strangers: HashMap<u64, (OwnedFd, Instant)>,
    next: u64,
}

impl<'a> Listening<'a> {
    fn serve<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, 'a>,
        end: &UnixStream,
    ) -> Result<(), Failure>
    where
        'a: 'scope,
    {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let add = |fd, data| epoll::add(&epoll, fd, EventData::new_u64(data), EventFlags::IN);
        add(self.listener.as_fd(), LISTENER)?;
        add(end.as_fd(), END)?;
        if let Some(program) = &self.program {
            add(program.pidfd.as_fd(), PROGRAM)?;
        }
        let mut events: Vec<Event> = Vec::with_capacity(64);
        self.shared.board.write(self.socket, self.shared.log);
        loop {
            events.clear();
            let timeout = Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            let timeout = self.has_to_look().then_some(&timeout);
            match epoll::wait(&epoll, spare_capacity(&mut events), timeout) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(&epoll),
                    END => return Ok(()),
                    PROGRAM => self.program_has_ended(&epoll)?,
                    stranger => self.hear(scope, stranger),
                }
            }
            let now = Instant::now();
            self.strangers
                .retain(|_, (_, since)| now < *since + STRANGER_PATIENCE);
            if self.shared.board.has_changed() {
                self.shared.board.write(self.socket, self.shared.log);
            }
            if self.is_over() {
                return Ok(());
            }
        }
    }

    fn program_has_ended(&mut self, epoll: &OwnedFd) -> Result<(), Failure> {
        if let Some(program) = self.program.take() {
            epoll::delete(epoll, &program.pidfd)?;
            self.program_ended = Some(Instant::now());
        }
        Ok(())
    }

    /// Whether nobody is left that this broker was started for.
    fn is_over(&self) -> bool {
        let ended = self.program_ended;
        ended.is_some_and(|at| at.elapsed() >= private::GRACE) && self.shared.ports().is_empty()
    }

    /// Whether something may happen that no event tells of.
    fn has_to_look(&self) -> bool {
        !self.strangers.is_empty()
            || !self.shared.ports().is_empty()
            || self.shared.board.has_changed()
            || self.program_ended.is_some()
    }

    /// Takes in who has connected.
    fn accept(&mut self, epoll: &OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(socket) = accept_with(&self.listener, flags) {
            if self.strangers.len() >= STRANGERS_MAX {
                // It is the longest silent one's place.
                let oldest = self.strangers.iter().min_by_key(|(_, it)| it.1);
                let oldest = oldest.map(|(number, _)| *number);
                oldest.map(|number| self.strangers.remove(&number));
            }
            let number = self.next;
            self.next += 1;
            let data = EventData::new_u64(number);
            // What it says later is for the thread of its interface.
            let once = EventFlags::IN | EventFlags::ONESHOT;
            if epoll::add(epoll, &socket, data, once).is_ok() {
                self.strangers.insert(number, (socket, Instant::now()));
            }
        }
    }

    /// Somebody has said what it wants.
    fn hear<'scope>(&mut self, scope: &'scope Scope<'scope, 'a>, number: u64)
    where
        'a: 'scope,
    {
        let Some((socket, _)) = self.strangers.remove(&number) else {
            return;
        };
        match Newcomer::hear(socket, &self.policy) {
            Ok((newcomer, namespace)) => self.pass_on(scope, newcomer, namespace),
            // It has only looked whether somebody is here.
            Err(NotHeard::System(why)) if why.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(why) => {
                self.shared.log.info(format_args!("not served: {why}"));
                if let Some(pid) = why.process() {
                    self.shared.board.refused(Refused {
                        pid,
                        user: None,
                        interface: "",
                        why: &why.to_string(),
                    });
                }
            }
        }
    }

    /// Passes it on to the thread of its interface, which there may not be yet.
    fn pass_on<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'a>,
        newcomer: Newcomer,
        namespace: OwnedFd,
    ) where
        'a: 'scope,
    {
        let id = newcomer.interface;
        let mut ports = self.shared.ports();
        let newcomer = match ports.get(&id) {
            Some(door) => match door.newcomers.send(newcomer) {
                Ok(()) => {
                    ring(&door.bell);
                    return;
                }
                Err(error) => error.0,
            },
            None => newcomer,
        };
        let opened = port::start(scope, self.shared, id, namespace);
        match opened {
            Ok((newcomers, bell)) => {
                // The thread waits for the doors' lock before it ends.
                if let Err(lost) = newcomers.send(newcomer) {
                    lost.0.refuse("the interface's thread has ended");
                }
                ring(&bell);
                ports.insert(id, Door { newcomers, bell });
            }
            Err(error) => newcomer.refuse(&format!("no thread for the interface: {error}")),
        }
    }
}

fn ring(bell: &UnixStream) {
    // Full is as good: it is ringing.
    let _ = io::Write::write(&mut &*bell, &[1]);
}

fn open_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Takes the place of a broker that has died. Whoever is let in is decided by policy, so anybody
/// may connect.
fn listener(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    if fs::symlink_metadata(path).is_ok() {
        if !matches!(connect(open_socket()?, &address), Err(Errno::CONNREFUSED)) {
            let why = "another broker serves it, or it is no socket";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
        }
        fs::remove_file(path)?;
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o111));
    let socket = open_socket()?;
    let bound = bind(&socket, &address);
    rustix::process::umask(before);
    bound?;
    listen(&socket, 64)?;
    Ok(socket)
}
