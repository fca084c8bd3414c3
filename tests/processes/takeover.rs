//! Two processes that want one interface: the second says who has it, works on the kernel, and goes
//! over when the first has gone, whatever call it waits in, without losing a datagram.

use std::net::UdpSocket;
use std::path::Path;

use stats::SocketSnapshot;
use testkit::{Accelerated, Namespaces, Pair, SOON, c_program, eventually, or_skip, preloaded};

fn start_echo(pair: &Pair, port: u16) -> Accelerated {
    let mut command = preloaded(&pair.b, &c_program("echo")).unwrap();
    command.args([Pair::ADDRESS_B.to_string(), port.to_string()]);
    started(command)
}

fn started(command: std::process::Command) -> Accelerated {
    let mut started = Accelerated::start(command).unwrap();
    let is_ready = eventually(SOON, || started.process().stdout().contains("ready"));
    assert!(is_ready, "{}", started.process().stderr());
    started
}

fn client(pair: &Pair) -> UdpSocket {
    let bind = || UdpSocket::bind((Pair::ADDRESS_A, 0));
    let socket = pair.a.enter(bind).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket
}

fn only_socket(program: &Accelerated) -> SocketSnapshot {
    let mut sockets = program.sockets();
    assert_eq!(sockets.len(), 1, "{sockets:?}");
    sockets.remove(0)
}

fn reason(program: &Accelerated) -> String {
    let code = only_socket(program).reason;
    let reasons = program.reader().reasons().unwrap();
    reasons.into_iter().find(|it| it.code == code).unwrap().name
}

/// Numbers that may be on their way: fewer than a receive buffer holds.
const WINDOW: u32 = 64;

/// Sends numbers from `first` on until `enough`, `WINDOW` ahead of the answers, and expects each
/// back once. Returns how many.
fn count(client: &UdpSocket, port: u16, mut enough: impl FnMut(u32) -> bool) -> u32 {
    let mut sent = 0;
    let mut seen = Vec::new();
    let mut received = 0;
    let mut is_over = false;
    while !is_over || received < sent {
        is_over = is_over || enough(sent);
        if !is_over && sent < received + WINDOW {
            let to = (Pair::ADDRESS_B, port);
            client.send_to(&sent.to_be_bytes(), to).unwrap();
            sent += 1;
            continue;
        }
        let mut buffer = [0; 64];
        let len = client
            .recv(&mut buffer)
            .unwrap_or_else(|error| panic!("{received} of {sent} came back: {error}"));
        received += 1;
        seen.push(u32::from_be_bytes(buffer[..len].try_into().unwrap()));
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..sent).collect::<Vec<_>>());
    sent
}

#[test]
fn a_second_process_takes_the_interface_over_and_loses_nothing() {
    let pair = or_skip!(Namespaces::pair());
    let first = start_echo(&pair, 7700);
    let mut second = start_echo(&pair, 7701);
    let holder = format!("process {} (echo)", first.reader().process().pid);
    let log = second.process().stderr();
    assert!(
        log.contains(&format!("vb is not accelerated: {holder} holds it")),
        "{log}"
    );
    assert_eq!(reason(&second), "another process holds the interface");
    assert_eq!(only_socket(&second).detail, format!("vb: {holder}"));
    let notes = second.reader().notes().unwrap();
    assert_eq!(
        (notes[0].subject.as_str(), notes[0].topic.as_str()),
        ("vb", "holder")
    );
    assert_eq!(
        notes[0].text,
        format!("held by {holder}; taken over when that ends")
    );

    let client = client(&pair);
    let mut first = Some(first);
    let mut after = 0;
    let total = count(&client, 7701, |sent| {
        if sent >= 5000
            && let Some(first) = first.take()
        {
            first.into_process().stop(libc::SIGKILL, SOON).unwrap();
        }
        if first.is_none() && only_socket(&second).offloaded {
            after += 1;
        }
        after == 5000
    });
    let socket = only_socket(&second);
    assert!(socket.offloaded && socket.detail.is_empty(), "{socket:?}");
    assert!(socket.rx_packets >= 1000, "{socket:?}");
    assert_eq!(
        socket.rx_packets + socket.rx_os_packets,
        u64::from(total),
        "{socket:?}"
    );
    assert!(second.reader().notes().unwrap().is_empty());
    assert!(
        second
            .process()
            .stderr()
            .contains("nobody holds it any more")
    );
}

const WAITER: &str = r"
import select, socket, sys
way = sys.argv[3]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
if way in ('epoll', 'nonblocking'):
    s.setblocking(False)
if way == 'poll':
    p = select.poll()
    p.register(s, select.POLLIN)
if way in ('epoll', 'nonblocking'):
    p = select.epoll()
    p.register(s, select.EPOLLIN)
if way == 'timeout':
    s.settimeout(100)
print('ready', flush=True)
while True:
    if way == 'select':
        select.select([s], [], [])
    elif way in ('poll', 'epoll', 'nonblocking'):
        p.poll()
    try:
        while True:
            data, sender = s.recvfrom(64)
            s.sendto(data, sender)
            if way != 'nonblocking':
                break
    except BlockingIOError:
        pass
";

/// Nothing comes while the interface changes hands: the thread sleeps, and has to be found where it
/// does.
#[test]
fn a_thread_that_waits_is_accelerated_in_whatever_call_it_waits() {
    let pair = or_skip!(Namespaces::pair());
    let client = client(&pair);
    for (port, way) in (7710..).zip([
        "recvfrom",
        "timeout",
        "select",
        "poll",
        "epoll",
        "nonblocking",
    ]) {
        let first = start_echo(&pair, 7700);
        let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
        command.args(["-c", WAITER, &Pair::ADDRESS_B.to_string()]);
        command.args([&port.to_string(), way]);
        let second = started(command);
        count(&client, port, |sent| sent == 100);
        let socket = only_socket(&second);
        assert!(!socket.offloaded, "{way}: {socket:?}");
        assert_eq!(socket.rx_packets, 0, "{way}: {socket:?}");
        assert_eq!(
            reason(&second),
            "another process holds the interface",
            "{way}"
        );
        drop(first);
        assert!(
            eventually(SOON, || only_socket(&second).offloaded),
            "{way}: {:?}",
            only_socket(&second)
        );
        count(&client, port, |sent| sent == 100);
        let socket = only_socket(&second);
        assert!(socket.rx_packets >= 99, "{way}: {socket:?}");
        assert!(socket.tx_packets > 0, "{way}: {socket:?}");
    }
}

/// One after the other, each of several that wait.
#[test]
fn of_several_that_wait_one_has_the_interface_next() {
    let pair = or_skip!(Namespaces::pair());
    let mut programs: Vec<_> = (7720..7724).map(|port| start_echo(&pair, port)).collect();
    let client = client(&pair);
    while programs.len() > 1 {
        let offloaded = |program: &Accelerated| only_socket(program).offloaded;
        assert!(
            eventually(SOON, || programs.iter().filter(|it| offloaded(it)).count()
                == 1),
            "{} left",
            programs.len()
        );
        for program in &programs {
            let port = only_socket(program).local.unwrap().port();
            count(&client, port, |sent| sent == 50);
        }
        let holder = programs.iter().position(offloaded).unwrap();
        drop(programs.remove(holder));
    }
    assert!(eventually(SOON, || only_socket(&programs[0]).offloaded));
}

const RESTING: &str = r"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 7730))
print('ready', flush=True)
time.sleep(600)
";

/// Nobody has an XDP program on the interface, and yet its queues are another's, which sends only.
#[test]
fn the_holder_of_a_resting_interface_has_a_name() {
    let pair = or_skip!(Namespaces::pair());
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command.args(["-c", RESTING, &Pair::ADDRESS_B.to_string()]);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let rules = directory.join(format!("resting-{}.conf", std::process::id()));
    std::fs::write(&rules, "use os udp_receiver *:*\n").unwrap();
    command.env("VMA_CONFIG_FILE", &rules);
    let first = started(command);
    let has_program = || {
        let link = pair.b.ip(&["link", "show", "vb"]).unwrap();
        link.contains("xdp")
    };
    assert!(eventually(SOON, || !has_program()), "it does not rest");
    let mut second = start_echo(&pair, 7731);
    let holder = format!("process {} (python3)", first.reader().process().pid);
    let log = second.process().stderr();
    assert!(
        log.contains(&format!("vb is not accelerated: {holder} holds it")),
        "{log}"
    );
    assert_eq!(only_socket(&second).detail, format!("vb: {holder}"));
    let client = client(&pair);
    count(&client, 7731, |sent| sent == 100);
    drop(first);
    std::fs::remove_file(rules).unwrap();
    assert!(eventually(SOON, || only_socket(&second).offloaded));
    count(&client, 7731, |sent| sent == 100);
}
