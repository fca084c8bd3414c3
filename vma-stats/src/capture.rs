//! `vma_stats capture`: the packets that pass by the kernel, where tcpdump does not see them.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use stats::{
    CaptureReader, CapturedPacket, ControlError, Direction, ProcessInfo, Reader, Request, ask,
};

use crate::control;
use crate::fd_list::FdList;
use crate::message::tell;

mod filter;
mod output;
mod owners;
mod packet;
mod pcapng;

pub(crate) use filter::Filter;
use filter::Subject;
use output::Output;
pub(crate) use output::Ring;
use owners::Owners;
use packet::Headers;
use pcapng::Packet;

/// What to capture, and where it goes.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    /// `None`: standard output.
    pub(crate) file: Option<PathBuf>,
    pub(crate) ring: Ring,
    /// Octets of each packet.
    pub(crate) snap: u32,
    pub(crate) filter: Filter,
}

/// How often the process is asked again, which forgets who does not.
const RENEWED: Duration = Duration::from_secs(1);
/// How long is waited when there is no packet: the process's ring holds what comes meanwhile.
const PAUSE: Duration = Duration::from_millis(2);
/// How long it takes at most to write what has come until it is to stop.
const REST: Duration = Duration::from_secs(1);
/// How many packets are written before somebody is asked whether to stop.
const PACKETS_AT_ONCE: usize = 1024;

/// What is said at the end.
#[derive(Default)]
struct Counts {
    written: u64,
    filtered: u64,
}

/// Captures until the process ends, Ctrl-C is pressed or so many packets (0: any) are written.
///
/// # Errors
/// The process refuses, or nothing can be written.
pub(crate) fn run(
    capture: &Capture,
    directory: &Path,
    reader: Reader,
    (packets, sockets): (u64, &FdList),
    interrupts: &Receiver<()>,
) -> Result<(), String> {
    if capture.file.is_none() && io::stdout().is_terminal() {
        return Err(
            "packets are not for a terminal: write them to a file with -w, or into a pipe: | tcpdump -r -"
                .to_owned(),
        );
    }
    let process = reader.process().clone();
    let request = Request::Capture { snap: capture.snap };
    let place = ask(directory, process.pid, &request).map_err(|error| {
        let why = control::why_not(directory, process.pid);
        match (error, why) {
            (ControlError::NotThere { .. }, Some(why)) => why,
            (error, _) => error.to_string(),
        }
    })?;
    let place = place.parse().ok();
    let mut ring = place
        .and_then(|place| CaptureReader::new(reader, place))
        .ok_or("the process's library says of no place where packets are")?;
    renew(directory.to_owned(), process.pid, request);
    let comment = format!(
        "packets of process {} ({}) that libvma {} takes past the kernel",
        process.pid, process.program, process.library_version
    );
    let path = capture.file.as_deref();
    let output = Output::new(path, capture.ring, comment, capture.snap);
    let mut output = output.map_err(|error| cannot_write(&error))?;
    tell(format_args!(
        "capturing packets of {} with pid {}; Ctrl-C ends",
        process.program, process.pid
    ));
    let mut counts = Counts::default();
    let written = pump(
        capture,
        &mut ring,
        &mut output,
        &process,
        (packets, sockets),
        (&mut counts, interrupts),
    )
    .and_then(|()| output.finish(now_nsec(), ring.lost()));
    tell(format_args!(
        "{} packets captured, {} not asked for, {} lost because this program was too slow",
        counts.written,
        counts.filtered,
        ring.lost()
    ));
    match written {
        // Whoever read them has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(cannot_write(&error)),
        _ => Ok(()),
    }
}

fn cannot_write(error: &io::Error) -> String {
    format!("cannot write packets: {error}")
}

/// Asks again and again, until the process is gone.
fn renew(directory: PathBuf, pid: u32, request: Request) {
    thread::spawn(move || {
        loop {
            thread::sleep(RENEWED);
            match ask(&directory, pid, &request) {
                Ok(_) | Err(ControlError::NoAnswer { .. }) => {}
                Err(_) => return,
            }
        }
    });
}

fn pump(
    capture: &Capture,
    ring: &mut CaptureReader,
    output: &mut Output,
    process: &ProcessInfo,
    (packets, sockets): (u64, &FdList),
    (counts, interrupts): (&mut Counts, &Receiver<()>),
) -> io::Result<()> {
    let mut owners = Owners::default();
    let mut lost = 0;
    let mut ends = None;
    loop {
        // Before the look: what has come until the process was gone is written.
        let is_live = ring.statistics().is_live();
        let mut taken = 0;
        while taken < PACKETS_AT_ONCE
            && let Some(captured) = ring.take()
        {
            taken += 1;
            let headers = Headers::of(&captured.bytes);
            let fds = headers.map_or_else(Vec::new, |headers| {
                owners.of(ring.statistics(), &headers, captured.direction)
            });
            let subject = Subject {
                headers,
                direction: captured.direction,
                len: captured.len,
                fds: &fds,
            };
            let of_sockets =
                *sockets == FdList::default() || fds.iter().any(|fd| sockets.contains(*fd));
            if !of_sockets || !capture.filter.takes(&subject) {
                counts.filtered += 1;
                continue;
            }
            let name = || interface_name(ring.statistics(), captured.link_index);
            let interface = output.interface(captured.link_index, name)?;
            output.packet(&Packet {
                interface,
                nsec: captured.nsec,
                direction: captured.direction,
                len: captured.len,
                bytes: snapped(&captured, capture.snap),
                comment: &comment(&captured, process, &fds),
                dropped: ring.lost() - std::mem::replace(&mut lost, ring.lost()),
            })?;
            counts.written += 1;
            if counts.written == packets {
                return Ok(());
            }
        }
        if taken < PACKETS_AT_ONCE {
            output.flush()?;
            if !is_live || ends.is_some() {
                return Ok(());
            }
        }
        if ends.is_some_and(|ends| Instant::now() >= ends) {
            return Ok(());
        }
        // Without a packet there is time.
        let pause = if taken == 0 { PAUSE } else { Duration::ZERO };
        if ends.is_none() && interrupts.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            // What has come until now is written, too.
            ends = Some(Instant::now() + REST);
        }
    }
}

/// Another program that captures may want more of each packet.
fn snapped(captured: &CapturedPacket, snap: u32) -> &[u8] {
    let bytes = &captured.bytes;
    bytes.get(..snap as usize).unwrap_or(bytes)
}

/// Direction, process and socket.
fn comment(captured: &CapturedPacket, process: &ProcessInfo, fds: &[i32]) -> String {
    let way = match captured.direction {
        Direction::Received => "received by",
        Direction::Sent => "sent by",
    };
    let fds: Vec<_> = fds.iter().map(i32::to_string).collect();
    let socket = match fds.len() {
        0 => "no socket that is known".to_owned(),
        _ => format!("fd {}", fds.join(" or ")),
    };
    format!("{way} {}[{}] {socket}", process.program, process.pid)
}

fn interface_name(reader: &Reader, index: u32) -> String {
    let rings = reader.rings().unwrap_or_default();
    let ring = rings.into_iter().find(|ring| ring.ifindex == index);
    ring.map_or_else(|| format!("interface {index}"), |ring| ring.ifname)
}

fn now_nsec() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}
