//! Processes with children under real traffic: what stays accelerated, what the kernel does, and
//! that nothing is lost.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;

use stats::{Reader, SocketSnapshot};
use testkit::{
    Accelerated, Namespaces, Pair, Running, SOON, c_program, eventually, or_skip,
    panic_unless_paused, preloaded,
};

fn client(pair: &Pair) -> UdpSocket {
    let socket = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket
}

/// Numbers that may be on their way: fewer than a receive buffer holds.
const WINDOW: usize = 100;

/// Sends `count` numbers, every tenth of which is answered, and the word that ends them.
fn send_numbers(client: &UdpSocket, to: SocketAddr, count: usize) {
    let mut answered = 0;
    let mut take_answer = |sent: usize| {
        let mut buffer = [0; 64];
        let result = client.recv(&mut buffer);
        result.unwrap_or_else(|error| panic!("{answered} of {sent} arrived: {error}"));
        answered += 10;
        answered
    };
    let mut arrived = 0;
    for number in 0..count {
        while number - arrived >= WINDOW {
            arrived = take_answer(number);
        }
        client.send_to(number.to_string().as_bytes(), to).unwrap();
    }
    while arrived < count {
        arrived = take_answer(count);
    }
    client.send_to(b"end", to).unwrap();
}

/// Sends numbers and expects each back.
fn ping(client: &UdpSocket, port: u16, count: u32) {
    for number in 0..count {
        client
            .send_to(&number.to_be_bytes(), (Pair::ADDRESS_B, port))
            .unwrap();
        let mut buffer = [0; 64];
        let len = client
            .recv(&mut buffer)
            .unwrap_or_else(|error| panic!("{number} of {count}: {error}"));
        assert_eq!(buffer[..len], number.to_be_bytes());
    }
}

fn start(command: Command) -> Accelerated {
    let mut started = Accelerated::start(command).unwrap();
    // A daemon's first process ends before.
    let is_ready = eventually(SOON, || started.process().stdout().contains("ready"));
    assert!(
        is_ready,
        "{}{}",
        started.process().stdout(),
        started.process().stderr()
    );
    started
}

fn start_server(pair: &Pair, way: &str, port: u16) -> Accelerated {
    let mut command = preloaded(&pair.b, &c_program("servers")).unwrap();
    command
        .args([way, &Pair::ADDRESS_B.to_string(), &port.to_string()])
        .env("VMA_TRACELEVEL", "debug");
    start(command)
}

/// The process that said "ready".
fn speaker(server: &mut Accelerated) -> u32 {
    let output = server.process().stdout();
    let line = output.lines().find_map(|line| line.strip_prefix("pid "));
    line.unwrap().parse().unwrap()
}

fn sockets_of(pid: u32) -> Vec<SocketSnapshot> {
    let directory = std::env::temp_dir().join(format!("vmat-stats-{}", std::process::id()));
    let reader = Reader::open(&directory, pid)
        .unwrap_or_else(|error| panic!("no statistics of {pid}: {error}"));
    reader.sockets().unwrap()
}

fn kill(pid: u32) {
    // SAFETY: kill touches no memory.
    unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
}

/// 100 children, in every way there is, that never use the socket.
#[test]
fn a_parent_stays_accelerated_while_it_starts_children() {
    panic_unless_paused(|| {
        const COUNT: usize = 20_000;
        let pair = or_skip!(Namespaces::pair());
        let mut command = preloaded(&pair.b, &c_program("forker")).unwrap();
        command.args([&Pair::ADDRESS_B.to_string(), "7500", "100"]);
        let mut forker = start(command);
        send_numbers(&client(&pair), (Pair::ADDRESS_B, 7500).into(), COUNT);
        assert!(
            forker.process().wait_for_output("received", SOON),
            "{}",
            forker.process().stderr()
        );
        let output = forker.process().stdout();
        assert!(
            output.contains(&format!("received {COUNT} twice 0 children 100 failed 0")),
            "{output}"
        );
        let sockets = forker.sockets();
        assert!(sockets[0].offloaded, "{sockets:?}");
        // All, and the word that ends them.
        assert_eq!(sockets[0].rx_packets, COUNT as u64 + 1, "{sockets:?}");
        assert_eq!(sockets[0].rx_os_packets, 0, "{sockets:?}");
    });
}

#[test]
fn python_runs_subprocesses_and_stays_accelerated() {
    panic_unless_paused(|| {
        const COUNT: usize = 3000;
        const SCRIPT: &str = "
import socket, subprocess, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 7501))
print('ready', flush=True)
received = good = 0
while True:
    data, sender = s.recvfrom(64)
    if data == b'end':
        break
    received += 1
    if received % 10 == 0:
        s.sendto(b'ten', sender)
    if received % 60 == 0:
        close_fds = received % 120 == 0
        preexec = (lambda: None) if received % 180 == 0 else None
        child = subprocess.run(['echo', 'hello'], stdout=subprocess.PIPE, close_fds=close_fds, preexec_fn=preexec)
        good += child.stdout == b'hello\\n'
print('received', received, 'good', good, flush=True)
sys.stdin.read()
";
        let pair = or_skip!(Namespaces::pair());
        let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
        command.args(["-c", SCRIPT, &Pair::ADDRESS_B.to_string()]);
        let mut python = start(command);
        send_numbers(&client(&pair), (Pair::ADDRESS_B, 7501).into(), COUNT);
        let has_ended = eventually(SOON, || python.process().stdout().contains("good"));
        assert!(has_ended, "{}", python.process().stderr());
        let output = python.process().stdout();
        assert!(
            output.contains(&format!("received {COUNT} good 50")),
            "{output}{:?}{:?}",
            python.sockets(),
            python.reader().rings()
        );
        let sockets = python.sockets();
        assert!(sockets[0].offloaded, "{sockets:?}");
        assert_eq!(sockets[0].rx_packets, COUNT as u64 + 1, "{sockets:?}");
    });
}

/// Several processes on one socket: only the kernel can choose between them.
#[test]
fn children_serve_their_parents_socket() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let mut server = start_server(&pair, "preforked", 7502);
        ping(&client(&pair), 7502, 500);
        let log = server.process().stderr();
        assert!(log.contains("shared with a child since fork"), "{log}");
        let sockets = server.sockets();
        assert!(!sockets[0].offloaded, "{sockets:?}");
    });
}

/// The parent receives and its children answer: sending takes nothing away from the parent.
#[test]
fn children_answer_through_their_parents_socket() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let server = start_server(&pair, "answers", 7503);
        ping(&client(&pair), 7503, 200);
        let sockets = server.sockets();
        assert!(sockets[0].offloaded, "{sockets:?}");
        assert_eq!(sockets[0].rx_packets, 200, "{sockets:?}");
    });
}

#[test]
fn a_daemon_serves_on_and_accelerates_what_it_opens_itself() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let mut server = start_server(&pair, "daemon", 7504);
        let client = client(&pair);
        ping(&client, 7504, 100);
        ping(&client, 7505, 100);
        let pid = speaker(&mut server);
        let sockets = sockets_of(pid);
        assert_eq!(sockets.len(), 1, "{sockets:?}");
        assert!(sockets[0].offloaded, "{sockets:?}");
        assert!(sockets[0].rx_packets >= 100, "{sockets:?}");
        let log = server.process().stderr();
        assert_eq!(log.matches("VMA_VERSION").count(), 1, "{log}");
        kill(pid);
    });
}

/// One process an interface: a child has it when its parent is gone.
#[test]
fn a_child_has_the_interface_after_its_parent() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let mut server = start_server(&pair, "child", 7506);
        let client = client(&pair);
        ping(&client, 7507, 50);
        let pid = speaker(&mut server);
        let sockets = sockets_of(pid);
        assert!(!sockets[0].offloaded, "{sockets:?}");
        let log = server.process().stderr();
        let holder = format!("process {} (servers) holds it", server.process().pid());
        assert!(log.contains(&holder), "{log}");
        let of_parent = server.sockets();
        assert!(of_parent[0].offloaded, "{of_parent:?} {log}");
        drop(server.process().stdin());
        let is_alone = eventually(SOON, || server.process().stdout().contains("alone"));
        assert!(is_alone, "{}", server.process().stderr());
        ping(&client, 7508, 50);
        let is_accelerated = || {
            let of = |socket: &SocketSnapshot| socket.offloaded && socket.rx_packets >= 50;
            sockets_of(pid).iter().any(of)
        };
        assert!(eventually(SOON, is_accelerated), "{:?}", sockets_of(pid));
        kill(pid);
    });
}

/// `VMA_LOG_FILE` with the process id in it: each process has its own.
#[test]
fn a_child_with_sockets_has_a_log_of_its_own() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let directory = std::env::temp_dir().join(format!("vmat-child-log-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut command = preloaded(&pair.b, &c_program("servers")).unwrap();
        command
            .args(["child", &Pair::ADDRESS_B.to_string(), "7510"])
            .env("VMA_TRACELEVEL", "debug")
            .env("VMA_LOG_FILE", directory.join("log.%d"));
        let mut server = start(command);
        let child = speaker(&mut server);
        let log = |pid: u32| std::fs::read_to_string(directory.join(format!("log.{pid}")));
        let (of_parent, of_child) = (log(server.process().pid()).unwrap(), log(child).unwrap());
        kill(child);
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(
            of_parent.contains("VMA_VERSION") && !of_parent.contains("7511"),
            "{of_parent}"
        );
        assert!(
            !of_child.contains("VMA_VERSION") && of_child.contains("7511"),
            "{of_child}"
        );
    });
}

/// Children with a listener, of which each gives up root's rights, while other threads open and
/// close sockets: whatever lock one of these has at the fork, no child waits for it.
const GIVING_UP: &str = r"
import os, socket, sys, threading
host = sys.argv[1]
listener = socket.socket()
listener.bind((host, 7480))
listener.listen()
is_over = False
def open_and_close():
    while not is_over:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind((host, 0))
threads = [threading.Thread(target=open_and_close) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(300):
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        os._exit(0)
    os.waitpid(child, 0)
is_over = True
for thread in threads: thread.join()
print('all children have ended')
";

#[test]
fn a_child_that_gives_up_rights_waits_for_no_thread_of_its_parent() {
    let pair = or_skip!(Namespaces::pair());
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command.args(["-c", GIVING_UP, &Pair::ADDRESS_B.to_string()]);
    let finished = Running::start(command).unwrap().wait(SOON).unwrap();
    assert_eq!(finished.stdout, "all children have ended\n", "{finished:?}");
}
