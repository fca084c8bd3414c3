//! What generic XDP hides is noted by one program on a tracepoint, which every packet of the
//! machine passes: it serves all processes, while one of them needs it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use testkit::{
    Accelerated, Namespaces, Pair, SOON, Skip, c_program, eventually, or_skip, panic_unless_paused,
    preloaded,
};

const PORT: u16 = 7830;

/// An echo server on an interface of its own, and a peer.
struct Server {
    pair: Pair,
    process: Accelerated,
    peer: UdpSocket,
}

/// What keeps a process from finding what others have.
const WITHOUT_SEARCH: &[&str] = &[
    "setpriv",
    "--inh-caps=-sys_admin",
    "--bounding-set=-sys_admin",
];

impl Server {
    /// `started_by`: what starts the program, if that is something else.
    fn start(started_by: &[&str]) -> Result<Self, Skip> {
        let pair = Namespaces::pair()?;
        let echo = c_program("echo");
        let command = match started_by.split_first() {
            Some((first, others)) => {
                let mut command = preloaded(&pair.b, Path::new(first)).unwrap();
                command.args(others).arg(echo);
                command
            }
            None => preloaded(&pair.b, &echo).unwrap(),
        };
        let process = started(command, &pair);
        let peer = pair.a.enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)));
        let peer = peer.unwrap();
        peer.set_read_timeout(Some(SOON)).unwrap();
        peer.connect((Pair::ADDRESS_B, PORT)).unwrap();
        Ok(Self {
            pair,
            process,
            peer,
        })
    }

    /// Some datagrams there and back. Past the kernel, once the first has made the peer known.
    fn serves(&self) {
        let echo = || {
            self.peer.send(b"there and back").unwrap();
            self.peer.recv(&mut [0; 64]).unwrap();
        };
        echo();
        let before = received_past_the_kernel(&self.process);
        for _ in 0..20 {
            echo();
        }
        let more = received_past_the_kernel(&self.process) - before;
        assert_eq!(more, 20, "in {}", self.pair.b.name());
    }

    /// Numbers of the tracepoint links that it holds.
    fn links(&mut self) -> BTreeSet<u32> {
        links_of(self.process.process().pid())
    }
}

fn started(mut command: Command, pair: &Pair) -> Accelerated {
    command.env("VMA_XDP_MODE", "generic");
    command.args([Pair::ADDRESS_B.to_string(), PORT.to_string()]);
    let mut process = Accelerated::start(command).unwrap();
    let is_ready = process.process().wait_for_output("ready", SOON);
    let stderr = process.process().stderr();
    assert!(is_ready, "in {}: {stderr}", pair.b.name());
    process
}

fn received_past_the_kernel(process: &Accelerated) -> u64 {
    process.sockets().iter().map(|it| it.rx_packets).sum()
}

fn links_of(pid: u32) -> BTreeSet<u32> {
    // It may have ended.
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo"));
    let infos = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok());
    infos
        .filter(|info| info.contains("raw_tracepoint") && info.contains("netif_receive_skb"))
        .map(|info| number(&info, "link_id:").unwrap())
        .collect()
}

fn number(info: &str, name: &str) -> Option<u32> {
    let value = info.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().parse().ok()
}

/// Whether the kernel has a link of this number.
fn exists(link: u32) -> bool {
    const BPF_LINK_GET_FD_BY_ID: libc::c_int = 30;
    let mut attributes = [link, 0, 0];
    let len = size_of_val(&attributes);
    // SAFETY: the kernel reads `len` bytes, the size of the attributes.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_LINK_GET_FD_BY_ID,
            attributes.as_mut_ptr(),
            len,
        )
    };
    let Ok(fd @ 0..) = libc::c_int::try_from(fd) else {
        return false;
    };
    // SAFETY: the kernel has just made the descriptor for us.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    true
}

/// Whether a link is there and nobody has it. Programs of other tests may.
fn is_left_behind(link: u32) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    exists(link) && !pids.any(|pid| links_of(pid).contains(&link))
}

#[test]
fn all_processes_have_one_program_and_leave_none() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(or_skip!(Server::start(&[])));
    }
    let links: Vec<_> = servers.iter_mut().map(Server::links).collect();
    let all: BTreeSet<_> = links.iter().flatten().copied().collect();
    assert!(links.iter().all(|it| it.len() == 1), "{links:?}");
    assert_eq!(all.len(), 1, "{links:?}");
    panic_unless_paused(|| servers.iter().for_each(Server::serves));

    // Not by its own will, and it may be the one that has made it.
    let first = servers.remove(0);
    first
        .process
        .into_process()
        .stop(libc::SIGKILL, SOON)
        .unwrap();
    panic_unless_paused(|| servers.iter().for_each(Server::serves));
    for server in &mut servers {
        assert_eq!(server.links(), all);
    }

    for server in servers {
        let process = server.process.into_process();
        process.stop(libc::SIGKILL, SOON).unwrap();
    }
    for link in all {
        let is_gone = eventually(SOON, || !is_left_behind(link));
        assert!(is_gone, "{link} stays, and nobody has it");
    }
}

#[test]
fn a_process_that_may_not_look_for_others_has_its_own() {
    let mut first = or_skip!(Server::start(&[]));
    let mut second = or_skip!(Server::start(WITHOUT_SEARCH));
    let (links, own) = (first.links(), second.links());
    assert_eq!((links.len(), own.len()), (1, 1));
    assert_ne!(links, own);
    panic_unless_paused(|| {
        first.serves();
        second.serves();
    });
}

/// And again when there is another one, though others have begun and ended meanwhile.
#[test]
fn a_process_without_sockets_lets_the_program_go() {
    let pair = or_skip!(Namespaces::pair());
    let command = preloaded(&pair.b, &c_program("comes_and_goes")).unwrap();
    let mut process = started(command, &pair);
    let pid = process.process().pid();
    let mut stdin = process.process().stdin().unwrap();
    let mut next = |expected: bool| {
        stdin.write_all(b"\n").unwrap();
        let as_expected = eventually(SOON, || links_of(pid).is_empty() != expected);
        assert!(as_expected, "{:?}, wanted: {expected}", links_of(pid));
    };
    assert_eq!(links_of(pid).len(), 1);
    next(false);
    let mut other = or_skip!(Server::start(&[]));
    next(true);
    assert_eq!(links_of(pid), other.links());
    next(false);
    panic_unless_paused(|| other.serves());
}
