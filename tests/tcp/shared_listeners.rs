//! Several listeners of one process at one address (`SO_REUSEPORT`), as servers with threads have:
//! the peers are spread over them, and connections stay with theirs when others come and go. With a
//! stranger among them all are the kernel's. Everything is played on the kernel, too.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{ChildStdin, Command};
use std::thread;
use std::time::Duration;

use testkit::{
    Accelerated, Finished, Namespace, Namespaces, Pair, Running, SOON, eventually, or_skip,
    preloaded,
};

const PORT: u16 = 7960;
const SHARED: &str = "the port is shared by several sockets";
const ANYWHERE: &str = "0.0.0.0";

fn program() -> PathBuf {
    testkit::c_program("shared_listeners")
}

/// A server that does what it is told.
struct Server {
    running: Running,
    stdin: ChildStdin,
    commands: usize,
}

impl Server {
    fn start(mut command: Command) -> Self {
        command.arg(PORT.to_string());
        let mut running = Running::start_interactive(command).unwrap();
        assert!(
            running.wait_for_output("ready", SOON),
            "{}",
            running.stderr()
        );
        Self {
            stdin: running.stdin().unwrap(),
            running,
            commands: 0,
        }
    }

    fn begin(&mut self, command: &str) {
        writeln!(self.stdin, "{command}").unwrap();
        self.commands += 1;
    }

    fn end(&mut self) {
        let done = format!("\n{} done", self.commands);
        let is_done = self.running.wait_for_output(&done, SOON);
        let (said, log) = (self.running.stdout(), self.running.stderr());
        assert!(is_done && !said.contains("missing"), "{said}{log}");
    }

    fn tell(&mut self, command: &str) {
        self.begin(command);
        self.end();
    }

    fn finish(self) -> Finished {
        drop(self.stdin);
        self.running.wait(SOON).unwrap()
    }

    fn open(&mut self, listeners: usize, address: &str) {
        (0..listeners).for_each(|_| self.tell(&format!("open {address}")));
    }
}

/// A connection of the kernel's on the other side.
struct Client(TcpStream);

impl Client {
    fn connect(from: &Namespace, address: IpAddr) -> Self {
        let connect = || TcpStream::connect_timeout(&SocketAddr::from((address, PORT)), SOON);
        let stream = from.enter(connect).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Self(stream)
    }

    fn many(from: &Namespace, address: IpAddr, count: usize) -> Vec<Self> {
        let connect = |_| Self::connect(from, address);
        (0..count).map(connect).collect()
    }

    /// Says so many octets.
    fn say(&mut self, octets: usize) {
        // It fails if the connection was reset, as reading does then.
        let _ = self.0.write_all(&vec![7; octets]);
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// The listener that has answered. `None`: the connection was reset.
    fn served_by(mut self, octets: usize) -> Option<usize> {
        let mut told = Vec::new();
        match self.0.read_to_end(&mut told) {
            // Writing has had the error.
            Ok(0) => return None,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
            read => drop(read.unwrap()),
        }
        let number = |at: usize| {
            let bytes = told[at..].first_chunk().unwrap();
            u32::from_be_bytes(*bytes) as usize
        };
        assert_eq!((told.len(), number(4)), (8, octets), "{told:?}");
        Some(number(0))
    }
}

/// All say something; which listener has answered each.
fn answers(mut clients: Vec<Client>) -> Vec<Option<usize>> {
    let octets = |number: usize| number * 20 + 1;
    for (number, client) in clients.iter_mut().enumerate() {
        client.say(octets(number));
    }
    let clients = clients.into_iter().enumerate();
    clients
        .map(|(number, client)| client.served_by(octets(number)))
        .collect()
}

/// How many connections each listener has got.
fn shares(clients: Vec<Client>, listeners: usize) -> Vec<usize> {
    let mut shares = vec![0; listeners];
    for listener in answers(clients) {
        shares[listener.unwrap_or_else(|| panic!("a reset of {listeners}"))] += 1;
    }
    shares
}

const B: IpAddr = IpAddr::V4(Pair::ADDRESS_B);

/// A stage on which a server runs on the kernel, or past it.
struct Stage {
    pair: Pair,
    is_preloaded: bool,
}

impl Stage {
    fn server(&self) -> Server {
        if !self.is_preloaded {
            return self.stranger();
        }
        let mut command = preloaded(&self.pair.b, &program()).unwrap();
        command.env("VMA_TRACELEVEL", "4");
        Server::start(command)
    }

    /// A server of the kernel's.
    fn stranger(&self) -> Server {
        Server::start(self.pair.b.command(program()))
    }

    /// The server ends. What its log has, if it has one: until then so many listeners were past the
    /// kernel, and so many went to it.
    fn ends(&self, server: Server, listeners: usize, returned: usize) {
        let finished = server.finish();
        let log = finished.stderr;
        assert!(finished.status.success(), "{}{log}", finished.stdout);
        if self.is_preloaded {
            let before = log.split("the server ends").next().unwrap();
            let count = |text: &str| before.matches(text).count();
            let seen = (count(", past the kernel\n"), count("back to the kernel"));
            assert_eq!(seen, (listeners, returned), "{log}");
            assert!(!log.contains("is reset"), "{log}");
        }
    }

    fn connect(&self, count: usize) -> Vec<Client> {
        Client::many(&self.pair.a, B, count)
    }
}

/// Plays a case on the kernel, and then with the library.
fn played(play: impl Fn(&Stage)) {
    for is_preloaded in [false, true] {
        let pair = or_skip!(Namespaces::new().ipv6().create());
        play(&Stage { pair, is_preloaded });
    }
}

#[test]
fn peers_are_spread_over_the_listeners() {
    played(|stage| {
        let mut server = stage.server();
        server.open(4, ANYWHERE);
        server.tell("threads");
        let shares = shares(stage.connect(200), 4);
        assert!(shares.iter().all(|it| (20..80).contains(it)), "{shares:?}");
        // By another way.
        let localhost = Ipv4Addr::LOCALHOST.into();
        assert!(
            answers(Client::many(&stage.pair.b, localhost, 4))
                .iter()
                .all(Option::is_some)
        );
        stage.ends(server, 4, 0);
    });
}

#[test]
fn peers_over_ipv6_are_spread_over_the_listeners() {
    played(|stage| {
        let mut command = match stage.is_preloaded {
            true => preloaded(&stage.pair.b, &program()).unwrap(),
            false => stage.pair.b.command(program()),
        };
        command.envs([("VMA_TRACELEVEL", "4"), ("CASE_OVER_IPV6", "real")]);
        let mut server = Server::start(command);
        server.open(3, ANYWHERE);
        server.tell("threads");
        for address in [B, Pair::IPV6_ADDRESS_B.into()] {
            let shares = shares(Client::many(&stage.pair.a, address, 90), 3);
            assert!(shares.iter().all(|it| (10..60).contains(it)), "{shares:?}");
        }
        stage.ends(server, 3, 0);
    });
}

/// Some wait to be accepted; some have not ended their handshake, as far as the listener knows.
#[test]
fn connections_stay_with_their_listener_when_others_come() {
    played(|stage| {
        for defer in ["defer 0", "defer 20"] {
            let mut server = stage.server();
            server.tell(defer);
            server.open(1, ANYWHERE);
            let first = stage.connect(20);
            server.open(7, ANYWHERE);
            server.begin("serve 20");
            assert_eq!(shares(first, 8), [20, 0, 0, 0, 0, 0, 0, 0], "{defer}");
            server.end();
            let later = stage.connect(80);
            server.begin("serve 80");
            let shares = shares(later, 8);
            server.end();
            assert!(shares.iter().all(|it| *it > 0), "{shares:?}");
            stage.ends(server, 8, 0);
        }
    });
}

#[test]
fn connections_stay_with_their_listener_when_others_go() {
    played(|stage| {
        for defer in ["defer 0", "defer 20"] {
            let mut server = stage.server();
            server.tell(defer);
            server.open(4, ANYWHERE);
            let mut clients = stage.connect(80);
            for listener in [1, 0, 3] {
                server.tell(&format!("close {listener}"));
            }
            clients.extend(stage.connect(20));
            server.tell("threads");
            let answers = answers(clients);
            let (first, later) = answers.split_at(80);
            // What has waited at those that are closed is reset.
            let kept = first.iter().flatten().count();
            assert!((8..40).contains(&kept), "{defer}: {first:?}");
            assert!(later.iter().all(|it| *it == Some(2)), "{defer}: {later:?}");
            let is_third = |it: &Option<usize>| it.is_none_or(|listener| listener == 2);
            assert!(first.iter().all(is_third), "{defer}: {first:?}");
            stage.ends(server, 4, 0);
        }
    });
}

/// Another process has the interface when they are opened.
fn held(stage: &Stage) -> Option<Accelerated> {
    stage.is_preloaded.then(|| {
        let echo = testkit::c_program("echo");
        let mut command = preloaded(&stage.pair.b, &echo).unwrap();
        command.args([B.to_string(), (PORT + 1).to_string()]);
        let mut holder = Accelerated::start(command).unwrap();
        assert!(holder.process().wait_for_output("ready", SOON));
        holder
    })
}

#[test]
fn listeners_go_over_together_when_their_interface_is_free() {
    played(|stage| {
        let holder = held(stage);
        let mut server = stage.server();
        server.open(4, ANYWHERE);
        let waiting = stage.connect(20);
        server.begin("serve 20");
        shares(waiting, 4);
        server.end();
        drop(holder);
        let are_over = || {
            server
                .running
                .stderr()
                .matches(", past the kernel\n")
                .count()
                == 4
        };
        assert!(!stage.is_preloaded || eventually(SOON, are_over));
        server.tell("threads");
        let shares = shares(stage.connect(200), 4);
        assert!(shares.iter().all(|it| (20..80).contains(it)), "{shares:?}");
        stage.ends(server, 4, 0);
    });
}

#[test]
fn listeners_stay_the_kernels_that_one_of_them_keeps_there() {
    or_skip!(testkit::needs_xdp(
        "listeners that wait for their interface"
    ));
    for choice in ["choose 1", "cpu 1 1000"] {
        played(|stage| {
            let holder = held(stage);
            let mut server = stage.server();
            server.open(3, ANYWHERE);
            server.tell(choice);
            drop(holder);
            let are_back = || {
                server
                    .running
                    .stderr()
                    .matches("back to the kernel")
                    .count()
                    == 3
            };
            assert!(!stage.is_preloaded || eventually(SOON, are_back));
            server.tell("threads");
            let shares = shares(stage.connect(60), 3);
            assert_eq!(shares.iter().sum::<usize>(), 60);
            stage.ends(server, 0, 3);
        });
    }
}

#[test]
fn a_stranger_comes_and_all_are_the_kernels() {
    played(|stage| {
        let mut server = stage.server();
        server.open(2, ANYWHERE);
        let waiting = stage.connect(10);
        let mut stranger = stage.stranger();
        stranger.open(2, ANYWHERE);
        // Until the library has seen it.
        let is_seen = || server.running.stderr().matches(SHARED).count() == 2;
        assert!(!stage.is_preloaded || eventually(SOON, is_seen));
        server.tell("threads");
        stranger.tell("threads");
        shares(waiting, 2);
        let of_both = shares(stage.connect(60), 2);
        stranger.finish();
        let of_one = shares(stage.connect(20), 2);
        assert!(of_both.iter().chain(&of_one).all(|it| *it > 0));
        stage.ends(server, 2, 2);
    });
}

#[test]
fn a_stranger_is_there_and_all_are_the_kernels() {
    played(|stage| {
        let mut stranger = stage.stranger();
        stranger.open(1, ANYWHERE);
        let mut server = stage.server();
        server.open(2, ANYWHERE);
        server.tell("threads");
        stranger.tell("threads");
        shares(stage.connect(60), 2);
        stranger.finish();
        shares(stage.connect(20), 2);
        stage.ends(server, 0, 2);
    });
}

/// The one for one address gets all that comes there.
#[test]
fn a_listener_for_one_address_is_before_those_for_any() {
    played(|stage| {
        for (addresses, expected, returned) in [
            ([ANYWHERE, "10.77.0.2"], [0, 30], 2),
            (["10.77.0.2", ANYWHERE], [30, 0], 1),
        ] {
            let mut server = stage.server();
            for address in addresses {
                server.open(1, address);
            }
            server.tell("threads");
            assert_eq!(shares(stage.connect(30), 2), expected, "{addresses:?}");
            // The second one never is past the kernel; the first one stays if it is the better one.
            stage.ends(server, 1, returned);
        }
    });
}

#[test]
fn a_program_chooses_the_listener() {
    played(|stage| {
        let mut server = stage.server();
        server.open(3, ANYWHERE);
        let waiting = stage.connect(9);
        server.tell("choose 1");
        server.tell("threads");
        shares(waiting, 3);
        assert_eq!(shares(stage.connect(30), 3), [0, 30, 0]);
        // The first one is asked for it, and takes the others along.
        stage.ends(server, 3, 3);
    });
}

#[test]
fn a_cpu_chooses_the_listener() {
    played(|stage| {
        let mut server = stage.server();
        server.open(2, ANYWHERE);
        server.tell("cpu 0 1000");
        server.open(1, ANYWHERE);
        server.tell("threads");
        let shares = shares(stage.connect(60), 3);
        assert_eq!(shares.iter().sum::<usize>(), 60);
        stage.ends(server, 2, 3);
    });
}

#[test]
fn workers_have_a_listener_each() {
    played(|stage| {
        let mut server = stage.server();
        server.open(3, ANYWHERE);
        server.tell("workers");
        let shares = shares(stage.connect(90), 3);
        assert!(shares.iter().all(|it| *it > 5), "{shares:?}");
        stage.ends(server, 3, 3);
    });
}

/// As servers of names have them.
#[test]
fn datagrams_at_the_same_port_are_another_matter() {
    played(|stage| {
        let mut server = stage.server();
        for _ in 0..2 {
            server.tell("datagrams 0.0.0.0");
            server.open(1, ANYWHERE);
        }
        server.tell("threads");
        let shares = shares(stage.connect(60), 2);
        assert!(shares.iter().all(|it| *it > 10), "{shares:?}");
        stage.ends(server, 2, 0);
    });
}

#[test]
fn datagrams_of_a_stranger_at_the_same_port_are_another_matter() {
    played(|stage| {
        let mut server = stage.server();
        server.open(2, ANYWHERE);
        server.tell("threads");
        let mut stranger = stage.stranger();
        stranger.tell("datagrams 0.0.0.0");
        // Longer than it takes to see a stranger.
        thread::sleep(Duration::from_millis(700));
        shares(stage.connect(30), 2);
        stage.ends(server, 2, 0);
    });
}
