//! Sockets that a process opens and one of its children answers from, while the opener lives: the
//! child has them past the kernel, until somebody else uses them.

use std::io::Write;
use std::net::UdpSocket;
use std::process::ChildStdin;

use stats::{Reader, SocketSnapshot};
use testkit::{
    Accelerated, Namespaces, Pair, SOON, eventually, or_skip, panic_unless_paused, preloaded,
};

struct Server {
    process: Accelerated,
    commands: ChildStdin,
    done: usize,
}

impl Server {
    fn start(pair: &Pair, port: u16) -> Self {
        let program = testkit::c_program("worker");
        let mut command = preloaded(&pair.b, &program).unwrap();
        command
            .args([&Pair::ADDRESS_B.to_string(), &port.to_string()])
            .env("VMA_TRACELEVEL", "debug");
        let mut process = Accelerated::start(command).unwrap();
        let is_ready = eventually(SOON, || process.process().stdout().contains("ready"));
        assert!(is_ready, "{}", process.process().stderr());
        let commands = process.process().stdin().unwrap();
        Self {
            process,
            commands,
            done: 0,
        }
    }

    fn begin(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    /// What the command came to.
    fn end(&mut self) -> i64 {
        self.done += 1;
        let mut results = Vec::new();
        let has_ended = eventually(SOON, || {
            let output = self.process.process().stdout();
            let lines = output.lines().filter_map(|line| line.strip_prefix("done "));
            results = lines.map(|it| it.parse().unwrap()).collect();
            results.len() >= self.done
        });
        assert!(has_ended, "{}", self.process.process().stderr());
        results[self.done - 1]
    }

    fn run(&mut self, command: &str) -> i64 {
        self.begin(command);
        self.end()
    }

    fn children(&mut self) -> Vec<u32> {
        let output = self.process.process().stdout();
        let lines = output.lines().filter_map(|it| it.strip_prefix("child "));
        lines.map(|it| it.parse().unwrap()).collect()
    }

    /// The sockets that the youngest child has of the library's.
    fn of_child(&mut self) -> Vec<SocketSnapshot> {
        self.children()
            .last()
            .map(|it| sockets_of(*it))
            .unwrap_or_default()
    }

    fn is_adopted(&mut self) -> bool {
        self.of_child().iter().any(|it| it.offloaded)
    }

    /// Waits until the youngest child has the socket past the kernel.
    fn adopted(&mut self) {
        let is_adopted = eventually(SOON, || self.is_adopted());
        let log = self.process.process().stderr();
        assert!(is_adopted, "{:?}\n{log}", self.of_child());
    }
}

fn sockets_of(child: u32) -> Vec<SocketSnapshot> {
    let directory = std::env::temp_dir().join(format!("vmat-stats-{}", std::process::id()));
    let reader = Reader::open(&directory, child);
    reader.and_then(|it| it.sockets()).unwrap_or_default()
}

fn client(pair: &Pair) -> UdpSocket {
    let socket = pair.a.enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)));
    let socket = socket.unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket
}

fn send(client: &UdpSocket, port: u16, number: u32) {
    let to = (Pair::ADDRESS_B, port);
    client.send_to(&number.to_be_bytes(), to).unwrap();
}

/// Who has answered, and which number.
fn answer(client: &UdpSocket) -> (char, u32) {
    let mut buffer = [0; 64];
    let len = client.recv(&mut buffer).expect("an answer");
    let number = buffer[1..len].try_into().map(u32::from_be_bytes);
    (buffer[0].into(), number.unwrap())
}

/// Asks one after the other and expects each answered, once and in order. Returns by whom.
fn ask(client: &UdpSocket, port: u16, count: u32) -> String {
    let mut by = String::new();
    for number in 0..count {
        send(client, port, number);
        let (who, answered) = answer(client);
        assert_eq!(answered, number, "{by}");
        by.push(who);
    }
    by
}

#[test]
fn a_child_has_the_socket_that_it_alone_receives_from() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let mut server = Server::start(&pair, 7600);
        let client = client(&pair);
        server.adopted();
        let before = server.of_child()[0].rx_packets;
        assert_eq!(ask(&client, 7600, 500), "a".repeat(500));
        let sockets = server.of_child();
        assert_eq!(sockets[0].rx_packets - before, 500, "{sockets:?}");
        let of_parent = server.process.sockets();
        assert!(!of_parent[0].offloaded, "{of_parent:?}");
    });
}

/// While datagrams come, and some wait in the child's user space.
#[test]
fn a_parent_that_comes_back_shares_the_socket_with_its_child() {
    panic_unless_paused(|| {
        const COUNT: u32 = 20_000;
        const WINDOW: u32 = 50;
        let pair = or_skip!(Namespaces::pair());
        let mut server = Server::start(&pair, 7601);
        let client = client(&pair);
        server.adopted();
        let mut seen = vec![false; COUNT as usize];
        let mut by_parent = 0;
        for number in 0..COUNT + WINDOW {
            if number == COUNT / 4 {
                server.begin("receive 20");
            }
            if number < COUNT {
                send(&client, 7601, number);
            }
            if number >= WINDOW {
                let (who, number) = answer(&client);
                assert!(!std::mem::replace(&mut seen[number as usize], true));
                by_parent += u32::from(who == 'P');
            }
        }
        assert_eq!((server.end(), by_parent), (20, 20));
        // For good.
        assert!(!server.is_adopted());
        ask(&client, 7601, 100);
        assert!(!server.is_adopted(), "{:?}", server.of_child());
    });
}

/// Each way in which the parent begins to use it.
#[test]
fn whatever_the_parent_does_takes_the_socket_to_the_kernel() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        for (port, way) in (7602..).zip(["poll 0", "epoll", "option"]) {
            let mut server = Server::start(&pair, port);
            server.adopted();
            server.run(way);
            assert!(!server.is_adopted(), "{way}: {:?}", server.of_child());
            assert_eq!(ask(&client(&pair), port, 50), "a".repeat(50), "{way}");
        }
    });
}

#[test]
fn a_parent_goes_on_when_its_child_is_killed_and_the_next_child_has_the_socket() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let mut server = Server::start(&pair, 7606);
        let client = client(&pair);
        server.adopted();
        ask(&client, 7606, 50);
        server.run("kill");
        server.run("fork");
        server.adopted();
        assert_eq!(ask(&client, 7606, 50), "b".repeat(50));
        server.run("kill");
        server.begin("receive 50");
        assert_eq!(ask(&client, 7606, 50), "P".repeat(50));
        assert_eq!(server.end(), 50);
    });
}

#[test]
fn two_children_have_the_kernels_socket() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let mut server = Server::start(&pair, 7607);
        let client = client(&pair);
        server.adopted();
        server.run("fork");
        ask(&client, 7607, 400);
        let is_shared = eventually(SOON, || ask(&client, 7607, 100).contains('b'));
        assert!(is_shared);
        let children = server.children();
        let is_left = |child: u32| sockets_of(child).iter().all(|it| !it.offloaded);
        assert!(children.iter().all(|it| is_left(*it)));
        // The first one does not take it again when the other is gone.
        server.run("kill");
        assert_eq!(ask(&client, 7607, 100), "a".repeat(100));
        assert!(is_left(children[0]), "{:?}", sockets_of(children[0]));
    });
}

/// The parent is not held up, and what comes meanwhile waits for the child.
#[test]
fn a_child_that_is_stopped_keeps_nobody_waiting() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let mut server = Server::start(&pair, 7608);
        let client = client(&pair);
        server.adopted();
        server.run("stop");
        send(&client, 7608, 1);
        assert_eq!(server.run("poll 10"), 0);
        server.run("go");
        assert_eq!(answer(&client), ('a', 1));
        let is_left = eventually(SOON, || !server.is_adopted());
        assert!(is_left, "{:?}", server.of_child());
        ask(&client, 7608, 50);
    });
}
