//! What the kernel carried is counted by reason, and all of it is.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stats::{Reader, SocketSnapshot};
use testkit::{Accelerated, Namespaces, Pair, SOON, eventually, or_skip, preloaded};

/// Sends everything back until told to stop.
fn echo(socket: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = [0; 4000];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(&buffer[..len], from).unwrap();
        }
    }
}

/// The counts of a socket, by the reason's words: sent and received. They add up to the columns.
fn counts(program: &Accelerated, socket: &SocketSnapshot) -> [Vec<(String, u64)>; 2] {
    assert_eq!(socket.tx_os_reasons.total(), socket.tx_os_packets);
    assert_eq!(socket.rx_os_reasons.total(), socket.rx_os_packets);
    let reasons = program.reader().reasons().unwrap();
    [&socket.tx_os_reasons, &socket.rx_os_reasons].map(|counts| {
        let named = |(code, count)| {
            let reason = reasons.iter().find(|reason| reason.code == code).unwrap();
            (reason.name.clone(), count)
        };
        counts.iter().map(named).collect()
    })
}

#[test]
fn every_datagram_that_the_kernel_carried_has_a_reason() {
    let pair = or_skip!(Namespaces::pair());
    let program = testkit::c_program("explained");
    let peer = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    peer.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    // Else it depends on the moment for how many datagrams the kernel has to ask for the neighbour.
    let link = pair.a.ip(&["-brief", "link", "show", "va"]).unwrap();
    let mac = link.split_whitespace().nth(2).unwrap();
    let neighbour = format!(
        "neigh replace {} lladdr {mac} dev vb nud permanent",
        Pair::ADDRESS_A
    );
    let words: Vec<_> = neighbour.split(' ').collect();
    pair.b.ip(&words).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&peer, &stop));
        let mut command = preloaded(&pair.b, &program).unwrap();
        command.arg(peer.local_addr().unwrap().port().to_string());
        let mut program = Accelerated::start(command).unwrap();
        let done = program.process().wait_for_output("done", SOON);
        stop.store(true, Ordering::Relaxed);
        let output = program.process().stdout() + &program.process().stderr();
        assert!(done, "{output}");
        // Two sockets go past the kernel.
        let success = " VMA INFO: vb: offloaded, xdp generic, 1 queue\n";
        assert_eq!(output.matches(success).count(), 1, "{output}");
        let mut sockets = program.sockets();
        sockets.sort_by_key(|socket| socket.fd);
        assert_eq!(sockets.len(), 3, "{sockets:#?}");
        let of = |index: usize| counts(&program, &sockets[index]);
        let has = |counts: &[(String, u64)], reason: &str, count: u64| {
            let found = counts.iter().find(|(name, _)| name.contains(reason));
            assert_eq!(found.map(|(_, count)| *count), Some(count), "{counts:?}");
        };
        for (index, large, received) in [(0, 3, 3), (1, 2, 2)] {
            let [sent, from_kernel] = of(index);
            has(&sent, "larger than the MTU", large);
            has(&from_kernel, "larger than the MTU", received);
        }
        let [sent, _] = of(0);
        has(&sent, "neither bound nor connected", 1);
        has(&sent, "flags or control data", 1);
        assert_eq!(sockets[0].tx_packets + sockets[0].tx_os_packets, 9);
        assert_eq!(sockets[1].tx_packets + sockets[1].tx_os_packets, 4);
        let [sent, received] = of(2);
        assert_eq!(
            (sent.len(), received.len()),
            (1, 1),
            "{sent:?} {received:?}"
        );
        has(&sent, "a socket option needs the kernel", 4);
        has(&received, "a socket option needs the kernel", 4);
    });
}

/// What a process says of its sockets: the reasons with what they are about, and then of those that
/// are listed only.
fn explanations(reader: &Reader) -> Vec<String> {
    let reasons = reader.reasons().unwrap();
    let name = |code| {
        let named = reasons.iter().find(|reason| reason.code == code).unwrap();
        named.name.clone()
    };
    let about = |socket: &SocketSnapshot| match socket.detail.as_str() {
        "" => name(socket.reason),
        detail => format!("{}: {detail}", name(socket.reason)),
    };
    let sockets = reader.sockets().unwrap();
    let listed = reader.kernel_sockets().unwrap();
    let listed = listed
        .iter()
        .map(|it| format!("listed: {}", name(it.reason)));
    sockets.iter().map(about).chain(listed).collect()
}

fn python(pair: &Pair, script: &str, more: &[&str]) -> Accelerated {
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command.args(["-c", script, &Pair::ADDRESS_B.to_string()]);
    command.args(more);
    let mut program = Accelerated::start(command).unwrap();
    let is_open = eventually(SOON, || program.process().stdout().contains("open"));
    assert!(is_open, "{}", program.process().stderr());
    program
}

/// A listener, and a child with a descriptor of it that opens sockets of its own.
const LISTENERS: &str = r"
import os, socket, sys
first = socket.create_server((sys.argv[1], 7750))
read, write = os.pipe()
if os.fork() == 0:
    os.close(write)
    second = socket.create_server((sys.argv[1], 7751))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((sys.argv[1], 7752))
    print('open', os.getpid(), flush=True)
    os.read(read, 1)
    os._exit(0)
sys.stdin.read()
";

#[test]
fn a_listener_is_listed_once_and_a_child_names_who_has_the_interface() {
    let pair = or_skip!(Namespaces::pair());
    let mut parent = python(&pair, LISTENERS, &[]);
    assert_eq!(explanations(&parent.reader()), ["offloaded"]);
    let name = parent.reader().process().program.clone();
    assert_eq!(name, "python3", "as ps has it");
    let holder = format!("vb: process {} (python3)", parent.process().pid());
    let said = parent.process().stdout();
    let child = said.split_whitespace().last().unwrap().parse().unwrap();
    let held = format!("another process holds the interface: {holder}");
    let shown = explanations(&parent.reader_of(child));
    assert_eq!(
        shown,
        [&*held, &*held, "listed: shared with a child since fork"]
    );
}

const SHARING: &str = r"
import socket, sys
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    s = socket.socket(socket.AF_INET, kind)
    s.setsockopt(socket.SOL_SOCKET, getattr(socket, sys.argv[2]), 1)
    s.bind((sys.argv[1], 7760))
    if kind == socket.SOCK_STREAM:
        s.listen()
        stream = s
print('open', flush=True)
sys.stdin.read()
";

#[test]
fn a_port_that_is_shared_names_the_option() {
    let pair = or_skip!(Namespaces::pair());
    let programs = [(); 2].map(|()| python(&pair, SHARING, &["SO_REUSEPORT"]));
    let shared = "the port is shared by several sockets: SO_REUSEPORT";
    for program in &programs {
        let has_said = || explanations(&program.reader()) == [shared, shared];
        assert!(
            eventually(SOON, has_said),
            "{:?}",
            explanations(&program.reader())
        );
    }
}
