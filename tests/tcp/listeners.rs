//! A listener past the kernel comes to be another process's, or the kernel's: the connections that
//! wait in its queue are accepted there, in their order, and none is reset.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::{Namespace, Namespaces, Pair, Running, SOON, eventually, or_skip, preloaded};

const PORT: u16 = 7950;

fn program() -> PathBuf {
    testkit::c_program("listeners")
}

fn with_library(namespace: &Namespace) -> Command {
    let mut command = preloaded(namespace, &program()).unwrap();
    command.env("VMA_TRACELEVEL", "4");
    command
}

/// A connection of the kernel's on the other side, and what it sends.
struct Client {
    stream: TcpStream,
    octets: Vec<u8>,
}

impl Client {
    fn connect(number: usize, len: usize) -> Self {
        let address = SocketAddr::from((Pair::ADDRESS_B, PORT));
        let stream = TcpStream::connect_timeout(&address, SOON).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let octets = (0..len)
            .map(|index| (index * 7 + number).to_le_bytes()[0])
            .collect();
        Self { stream, octets }
    }

    fn port(&self) -> u16 {
        self.stream.local_addr().unwrap().port()
    }

    /// Some before the connection is accepted, all of it if this side ends then.
    fn send_first(&mut self, count: usize) {
        let len = u32::try_from(self.octets.len()).unwrap();
        self.stream.write_all(&len.to_be_bytes()).unwrap();
        self.stream.write_all(&self.octets[..count]).unwrap();
    }

    fn finish(mut self, sent: usize) {
        self.stream.write_all(&self.octets[sent..]).unwrap();
        let mut seen = Vec::new();
        self.stream.read_to_end(&mut seen).unwrap();
        assert!(seen == self.octets, "{} octets", seen.len());
    }
}

/// Connections of all sorts wait; then the server does what `case` says.
fn played(pair: &Pair, case: &str, count: usize, environment: &[(&str, &str)]) {
    played_at(pair, Pair::ADDRESS_B, case, count, environment);
}

fn played_at(
    pair: &Pair,
    address: Ipv4Addr,
    case: &str,
    count: usize,
    environment: &[(&str, &str)],
) {
    let mut command = with_library(&pair.b);
    command.envs(environment.iter().copied());
    command.args([
        case,
        &address.to_string(),
        &PORT.to_string(),
        &count.to_string(),
    ]);
    let mut server = Running::start_interactive(command).unwrap();
    assert!(server.wait_for_output("ready", SOON), "{}", server.stderr());
    let (before, clients): (Vec<_>, Vec<_>) = pair
        .a
        .enter(|| {
            (0..count)
                .map(|number| {
                    let len = [0, 10, 3000, 90_000][number % 4];
                    let before = [0, 10, 1000, 40_000][number % 4];
                    let mut client = Client::connect(number, len);
                    if number % 5 != 4 && case != "deferred" {
                        client.send_first(before);
                    }
                    (before, client)
                })
                .collect::<Vec<_>>()
        })
        .into_iter()
        .unzip();
    if case != "deferred" {
        // One has said all that it has to say.
        clients[1].stream.shutdown(Shutdown::Write).unwrap();
    }
    thread::sleep(Duration::from_millis(100));
    server.stdin().unwrap().write_all(b"go\n").unwrap();
    let ports: Vec<_> = clients.iter().map(Client::port).collect();
    thread::scope(|scope| {
        for (number, (mut client, sent)) in clients.into_iter().zip(before).enumerate() {
            scope.spawn(move || {
                if number % 5 == 4 || case == "deferred" {
                    client.send_first(sent);
                }
                client.finish(sent);
            });
        }
    });
    let expected: String = ports
        .iter()
        .map(|port| format!("accepted {port}\n"))
        .collect();
    let lines = |text: &str| text.lines().filter(|line| line.starts_with("acc")).count();
    assert!(
        eventually(SOON, || lines(&server.stdout()) == count),
        "{}",
        server.stdout()
    );
    let stdout = server.stdout();
    let log = if case == "daemon" {
        assert!(server.wait_for_output("served", SOON));
        server.stderr()
    } else {
        let finished = server.wait(SOON).unwrap();
        assert!(finished.status.success(), "{stdout}{}", finished.stderr);
        finished.stderr
    };
    if matches!(case, "both" | "deferred") {
        let is_named = |port: &u16| stdout.contains(&format!("accepted {port}\n"));
        assert!(ports.iter().all(is_named), "{stdout}");
    } else {
        assert!(
            stdout.contains(&expected),
            "{stdout} is not\n{expected}\n{log}"
        );
    }
    assert!(log.contains("past the kernel"), "{log}");
    assert!(log.contains("back to the kernel"), "{log}");
    let admitted = log.matches("waits in the kernel").count();
    // A parent that accepts, too, has been faster with some.
    let is_whole = admitted == count || case == "both" && admitted > 0;
    assert!(is_whole, "{admitted} of {count}: {log}");
}

fn case(name: &str) {
    let pair = or_skip!(Namespaces::pair());
    played(&pair, name, 12, &[]);
}

#[test]
fn a_child_accepts_what_has_waited_for_its_parent() {
    case("child");
}

#[test]
fn a_child_learns_by_epoll() {
    case("epoll");
}

#[test]
fn parent_and_child_accept() {
    case("both");
}

#[test]
fn a_parent_closes_its_listener() {
    case("closes");
}

#[test]
fn a_daemon_goes_on_when_its_parent_has_ended() {
    case("daemon");
}

#[test]
fn an_option_needs_the_kernel() {
    case("option");
}

#[test]
fn another_program_is_executed() {
    case("exec");
}

/// Those that stay for a while have flows of their own when the port at any address has none.
#[test]
fn a_listener_at_any_address() {
    let pair = or_skip!(Namespaces::pair());
    for case in ["child", "closes", "option", "exec", "deferred"] {
        played_at(&pair, Ipv4Addr::UNSPECIFIED, case, 12, &[]);
    }
}

/// Of those the kernel's handshake is over, the engine's is not.
#[test]
fn handshakes_are_not_over() {
    case("deferred");
}

#[test]
fn a_hundred_connections_wait() {
    let pair = or_skip!(Namespaces::pair());
    played(&pair, "child", 100, &[]);
}

#[test]
fn a_socket_over_ipv6_takes_its_connections_along() {
    let pair = or_skip!(Namespaces::new().ipv6().create());
    for case in ["child", "closes"] {
        played(&pair, case, 12, &[("CASE_OVER_IPV6", "1")]);
    }
}
