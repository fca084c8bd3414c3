//! The thread of an interface, in the interface's network namespace: has processes come in, answers
//! what they ask, and cleans up behind them.

mod showing;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Scope;
use std::time::{Duration, Instant};

use dev_core::LinkSpec;
use dev_xdp::shared::{Client, Host, Question};
use netconf::Netconf;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::Shared;
use super::board::Refused;
use super::here::{Here, look};
use super::newcomer::{InterfaceId, Newcomer};
use crate::log::Log;
use crate::raw::Transmitter;

const BELL: u64 = 0;
const CONFIGURATION: u64 = 1;
/// A process's socket has an even number from here on, its end the odd one above.
const FIRST_PROCESS: u64 = 2;

/// How often it is looked after what late and dead processes have left.
const TEND: Duration = Duration::from_millis(10);
/// How long an interface stays open that nobody has.
const KEPT: Duration = Duration::from_secs(10);
/// Frames to receive into, and to send by.
const FRAMES: (u32, u32) = (24_576, 16_384);
/// How long processes have to leave when the broker ends.
const LEAVING: Duration = Duration::from_secs(5);
/// Questions of one process that are answered before others get their turn.
const QUESTIONS_AT_ONCE: usize = 64;

/// Starts the thread. Returns the way to it.
pub(super) fn start<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, 'a>,
    shared: &'a Shared<'a>,
    id: InterfaceId,
    namespace: OwnedFd,
) -> io::Result<(Sender<Newcomer>, UnixStream)> {
    let (newcomers, to_serve) = mpsc::channel();
    let (bell, rung) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    rung.set_nonblocking(true)?;
    let body = move || run(shared, id, &namespace, &to_serve, &rung);
    std::thread::Builder::new()
        .name("vmad-interface".to_owned())
        .spawn_scoped(scope, body)?;
    Ok((newcomers, bell))
}

fn run(
    shared: &Shared<'_>,
    id: InterfaceId,
    namespace: &OwnedFd,
    newcomers: &Receiver<Newcomer>,
    rung: &UnixStream,
) {
    if let Err(why) = open_and_serve(shared, id, namespace, newcomers, rung) {
        shared
            .log
            .warn(format_args!("interface {}: {why}", id.index));
        leave(shared, id, newcomers, &why);
    }
}

/// Nobody comes in any more; who has meanwhile is told why not.
fn leave(shared: &Shared<'_>, id: InterfaceId, newcomers: &Receiver<Newcomer>, why: &str) {
    shared.board.remove(id);
    let mut ports = shared.ports();
    ports.remove(&id);
    for newcomer in newcomers.try_iter() {
        let (pid, user) = (newcomer.pid, Some(newcomer.user()));
        let interface = &format!("index {}", id.index);
        shared.board.refused(Refused {
            pid,
            user,
            interface,
            why,
        });
        newcomer.refuse(why);
    }
}

fn open_and_serve(
    shared: &Shared<'_>,
    id: InterfaceId,
    namespace: &OwnedFd,
    newcomers: &Receiver<Newcomer>,
    rung: &UnixStream,
) -> Result<(), String> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| format!("its network namespace: {error}"))?;
    let netconf = Netconf::open().map_err(|error| error.to_string())?;
    let (link, facts) = look(&netconf, id.index).ok_or("there is no such interface")?;
    let opened = Host::open(&shared.backend, &link, FRAMES);
    let mut host = opened.map_err(|error| format!("{} ({})", error.what, error.remedy))?;
    host.follow(&facts).map_err(|error| error.to_string())?;
    shared.log.info(format_args!(
        "{}: opened, {}",
        link.name,
        host.description()
    ));
    let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| error.to_string())?;
    let mut port = Port {
        shared,
        id,
        link,
        host,
        netconf,
        raw: OnceLock::new(),
        epoll,
        processes: HashMap::new(),
        next: FIRST_PROCESS,
        shown: None,
    };
    port.serve(newcomers, rung)
        .map_err(|error| error.to_string())?;
    shared.log.info(format_args!("{}: closed", port.link.name));
    Ok(())
}

struct Port<'a> {
    shared: &'a Shared<'a>,
    id: InterfaceId,
    link: LinkSpec,
    host: Host,
    netconf: Netconf,
    raw: OnceLock<Option<Transmitter>>,
    epoll: OwnedFd,
    processes: HashMap<u64, Served>,
    next: u64,
    /// When it was last said who has the interface.
    shown: Option<Instant>,
}

/// A process that has a part of the interface.
struct Served {
    client: Client,
    socket: OwnedFd,
    pid: u32,
    user: u32,
    /// Until it has ended.
    _pidfd: OwnedFd,
}

impl Port<'_> {
    fn log(&self) -> &Log {
        self.shared.log
    }

    fn serve(&mut self, newcomers: &Receiver<Newcomer>, rung: &UnixStream) -> io::Result<()> {
        let add = |fd, data| epoll::add(&self.epoll, fd, EventData::new_u64(data), EventFlags::IN);
        add(rung.as_fd(), BELL)?;
        add(self.netconf.events_descriptor().as_fd(), CONFIGURATION)?;
        let mut events: Vec<Event> = Vec::with_capacity(128);
        let mut used = Instant::now();
        let mut ends = None;
        loop {
            if ends.is_some_and(|at| self.processes.is_empty() || Instant::now() >= at) {
                return Ok(());
            }
            events.clear();
            let timeout = self.timeout(ends.is_some());
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    BELL if ends.is_none() && !self.welcome(newcomers, rung) => {
                        // They leave for the kernel, which may take the broker's help.
                        self.host.end();
                        epoll::delete(&self.epoll, rung)?;
                        ends = Some(Instant::now() + LEAVING);
                    }
                    BELL => {}
                    CONFIGURATION => self.follow(),
                    number if number % 2 == 0 => self.answer(number),
                    end => self.part(end - 1),
                }
            }
            self.host.tend();
            self.show_if_due();
            if self.host.is_in_use() {
                used = Instant::now();
            } else if used.elapsed() > KEPT && self.close(newcomers) {
                return Ok(());
            }
        }
    }

    fn timeout(&self, ends: bool) -> Option<Timespec> {
        let wait = match self.processes.len() {
            _ if ends => TEND,
            0 | 1 if !self.host.has_ended() => showing::AGE,
            _ => TEND,
        };
        Some(Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        })
    }

    /// Has those come in who have asked. `false`: the broker ends.
    fn welcome(&mut self, newcomers: &Receiver<Newcomer>, rung: &UnixStream) -> bool {
        let mut bytes = [0; 64];
        let mut bell = rung;
        loop {
            match io::Read::read(&mut bell, &mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        for newcomer in newcomers.try_iter() {
            self.take_in(newcomer);
        }
        true
    }

    fn take_in(&mut self, newcomer: Newcomer) {
        let (pid, user) = (newcomer.pid, newcomer.user());
        let name = &self.link.name;
        if !newcomer.may_have(name) {
            let why = format!("user {user} may not have {name}: see /etc/vma/vmad.conf");
            self.log()
                .info(format_args!("process {pid} is not served: {why}"));
            self.note_refused(&newcomer, &why);
            newcomer.refuse(&why);
            return;
        }
        let frame_bytes = newcomer.hello.frame_bytes;
        let admitted = self.host.admit(newcomer.socket.as_fd(), frame_bytes);
        let name = &self.link.name;
        let client = match admitted {
            Ok(client) => client,
            Err(error) => {
                self.log()
                    .info(format_args!("{name}: process {pid} is not served: {error}"));
                self.note_refused(&newcomer, &error.to_string());
                return;
            }
        };
        self.log()
            .info(format_args!("{name}: process {pid} of user {user} came in"));
        let number = self.next;
        self.next += 2;
        let add = |fd, data| {
            let flags = EventFlags::IN;
            epoll::add(&self.epoll, fd, EventData::new_u64(data), flags)
        };
        let watched = add(newcomer.socket.as_fd(), number)
            .and_then(|()| add(newcomer.pidfd.as_fd(), number + 1));
        let served = Served {
            client,
            socket: newcomer.socket,
            pid,
            user,
            _pidfd: newcomer.pidfd,
        };
        self.processes.insert(number, served);
        if watched.is_err() {
            self.part(number);
        }
    }

    fn note_refused(&self, newcomer: &Newcomer, why: &str) {
        self.shared.board.refused(Refused {
            pid: newcomer.pid,
            user: Some(newcomer.user()),
            interface: &self.link.name,
            why,
        });
    }

    /// Answers what a process asks.
    fn answer(&mut self, number: u64) {
        for _ in 0..QUESTIONS_AT_ONCE {
            let Some(served) = self.processes.get(&number) else {
                return;
            };
            match Question::read(served.socket.as_fd()) {
                Ok(Some(question)) => {
                    let mut system = Here {
                        netconf: &mut self.netconf,
                        index: self.id.index,
                        raw: &self.raw,
                    };
                    let answer = self.host.serve(served.client, &question, &mut system);
                    // The process may close a socket that it has passed as soon as it is answered:
                    // a copy would keep that in its epoll sets.
                    drop(question);
                    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                    // Who does not take its answers has asked for the next ones in vain.
                    if send(&served.socket, &answer, flags).is_err() {
                        return self.part(number);
                    }
                }
                Err(error) if is_for_later(&error) => return,
                Ok(None) | Err(_) => return self.part(number),
            }
        }
    }

    /// A process has gone.
    fn part(&mut self, number: u64) {
        if let Some(served) = self.processes.remove(&number) {
            let name = &self.link.name;
            self.log()
                .info(format_args!("{name}: process {} has gone", served.pid));
            self.host.part(served.client);
        }
    }

    /// The host's configuration has changed.
    fn follow(&mut self) {
        if self.netconf.process_events().is_err() {
            return;
        }
        match look(&self.netconf, self.id.index) {
            Some((_, facts)) => {
                if let Err(error) = self.host.follow(&facts) {
                    let name = &self.link.name;
                    self.log().warn(format_args!("{name}: {error}"));
                }
            }
            // Those who have it find out by themselves, and leave.
            None => self.log().info(format_args!("{} is gone", self.link.name)),
        }
    }

    /// Closes the interface, unless somebody came in meanwhile.
    fn close(&self, newcomers: &Receiver<Newcomer>) -> bool {
        let mut ports = self.shared.ports();
        // Nobody rings without the lock.
        match newcomers.try_recv() {
            Ok(newcomer) => {
                newcomer.refuse("the interface was being closed");
                false
            }
            Err(_) => {
                self.shared.board.remove(self.id);
                ports.remove(&self.id);
                true
            }
        }
    }
}

fn is_for_later(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}
