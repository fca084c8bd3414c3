//! Listeners at any address: which of the host's connections come to them, with the library as with
//! the kernel.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::{
    Namespaces, Pair, Running, SOON, Skip, eventually, exempt_connections, or_skip, preloaded,
};

/// A SYN that nobody answers.
const IN_VAIN: Duration = Duration::from_millis(300);
const PORT: u16 = 7990;
const TAKEN: &str = "past the kernel";

fn program() -> PathBuf {
    testkit::c_program("any_address")
}

/// The server in the second namespace, with the library or without.
struct Server<'a> {
    pair: &'a Pair,
    running: Running,
}

impl<'a> Server<'a> {
    /// With a listener at each of the addresses.
    fn start(pair: &'a Pair, has_library: bool, listens: &[&str]) -> Self {
        let mut command = if has_library {
            preloaded(&pair.b, &program()).unwrap()
        } else {
            pair.b.command(program())
        };
        command.env("VMA_TRACELEVEL", "4");
        if listens.len() > 1 {
            command.env("SHARED", "1");
        }
        Self::started(pair, command, listens)
    }

    fn started(pair: &'a Pair, mut command: Command, listens: &[&str]) -> Self {
        for address in listens {
            command.args([address, PORT.to_string().as_str()]);
        }
        let mut running = Running::start(command).unwrap();
        assert!(
            running.wait_for_output("ready", SOON),
            "{}",
            running.stderr()
        );
        Self { pair, running }
    }

    fn is_past_kernel(&self) -> bool {
        self.running.stderr().contains(TAKEN)
    }

    fn connect(&self, to: IpAddr) -> Option<Client> {
        let to = SocketAddr::new(to, PORT);
        let connect = || TcpStream::connect_timeout(&to, IN_VAIN);
        let stream = self.pair.a.enter(connect).ok()?;
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut reader = BufReader::new(stream);
        let mut greeting = String::new();
        reader.read_line(&mut greeting).unwrap();
        Some(Client { reader, greeting })
    }

    /// Connections that the kernel has made for listeners (`PassiveOpens`).
    fn kernel_has_accepted(&self) -> u64 {
        let read = || std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        let text = self.pair.b.enter(read);
        let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
        let mut fields = || lines.next().unwrap().split_whitespace();
        let place = fields().position(|name| name == "PassiveOpens").unwrap();
        fields().nth(place).unwrap().parse().unwrap()
    }

    /// What the server says to a connection to this address, and nothing if there is none.
    fn says(&self, to: &str) -> String {
        let client = self.connect(to.parse().unwrap());
        client.map_or(String::new(), |mut client| {
            client.ask();
            client.greeting.trim().to_owned()
        })
    }
}

struct Client {
    reader: BufReader<TcpStream>,
    greeting: String,
}

impl Client {
    fn ask(&mut self) {
        self.reader.get_mut().write_all(b"?").unwrap();
        let mut answer = [0];
        self.reader.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"?");
    }
}

/// Runs on the kernel and with the library, whose listener is past the kernel then.
fn on_both(listens: &[&str], case: impl Fn(&Server<'_>, bool)) -> Result<(), Skip> {
    for has_library in [false, true] {
        let pair = Namespaces::new().second_subnet().ipv6().create()?;
        let server = Server::start(&pair, has_library, listens);
        assert_eq!(server.is_past_kernel(), has_library);
        case(&server, has_library);
    }
    Ok(())
}

const EVERYWHERE: [&str; 2] = ["0.0.0.0", "*"];

/// Addresses of the interface, those that it gets later, and that it has no more.
#[test]
fn addresses_that_come_and_go() {
    for listens in EVERYWHERE {
        let case = on_both(&[listens], |server, has_library| {
            let ip = |arguments: &[&str]| server.pair.b.ip(arguments).unwrap();
            for address in ["10.77.0.2", "10.78.0.2"] {
                assert_eq!(server.says(address), format!("0 {address}"));
            }
            assert_eq!(server.says("10.77.0.9"), "");
            ip(&["address", "add", "10.77.0.9/24", "dev", "vb"]);
            let is_there = || server.says("10.77.0.9") == "0 10.77.0.9";
            assert!(eventually(SOON, is_there));
            let mut client = server.connect("10.77.0.9".parse().unwrap()).unwrap();
            let mut other = server.connect("10.78.0.2".parse().unwrap()).unwrap();
            client.ask();
            ip(&["address", "del", "10.77.0.9/24", "dev", "vb"]);
            // The neighbour knows it still.
            thread::sleep(Duration::from_millis(50));
            assert_eq!(server.says("10.77.0.9"), "");
            other.ask();
            ip(&["address", "add", "10.77.0.9/24", "dev", "vb"]);
            assert!(eventually(SOON, is_there));
            client.ask();
            assert_eq!(server.kernel_has_accepted() == 0, has_library);
        });
        or_skip!(case);
    }
}

#[test]
fn versions_of_ip() {
    for (listens, four, six) in [
        ("0.0.0.0", "0 10.77.0.2", ""),
        ("::", "", "0 fd77::2"),
        ("*", "0 10.77.0.2", "0 fd77::2"),
    ] {
        let case = on_both(&[listens], |server, has_library| {
            assert_eq!(server.says("10.77.0.2"), four, "{listens}");
            assert_eq!(server.says("fd77::2"), six, "{listens}");
            assert_eq!(server.kernel_has_accepted() == 0, has_library);
            if six.is_empty() {
                return;
            }
            let add = ["address", "add", "fd77::9/64", "dev", "vb", "nodad"];
            server.pair.b.ip(&add).unwrap();
            let is_there = || server.says("fd77::9") == "0 fd77::9";
            assert!(eventually(SOON, is_there));
            assert_eq!(server.kernel_has_accepted() == 0, has_library);
        });
        or_skip!(case);
    }
}

/// What comes by an interface for an address of another one is the host's, and what is for nobody's
/// address is not.
#[test]
fn addresses_of_other_interfaces_and_of_others() {
    for listens in EVERYWHERE {
        let case = on_both(&[listens], |server, has_library| {
            let (a, b) = (&server.pair.a, &server.pair.b);
            b.ip_batch(
                "link add other type veth peer name end\nlink set end up\nlink set other up\n\
                 address add 10.90.0.1/24 dev other\naddress add 10.77.0.3/24 dev vb\n",
            )
            .unwrap();
            a.ip(&["route", "add", "10.88.0.0/13", "via", "10.77.0.2"])
                .unwrap();
            assert_eq!(server.says("10.77.0.2"), "0 10.77.0.2");
            assert_eq!(server.kernel_has_accepted() == 0, has_library);
            assert_eq!(server.says("10.90.0.1"), "0 10.90.0.1");
            assert!(server.kernel_has_accepted() > 0);
            for nobodys in ["10.90.0.2", "10.91.0.1", "10.90.0.255"] {
                assert_eq!(server.says(nobodys), "", "{nobodys}");
            }
            // A local route makes addresses the host's that no interface has.
            b.ip(&["route", "add", "local", "10.92.0.0/16", "dev", "lo"])
                .unwrap();
            assert_eq!(server.says("10.92.3.4"), "0 10.92.3.4");
            // One goes from the interface to the other.
            assert!(eventually(SOON, || server.says("10.77.0.3") == "0 10.77.0.3"));
            b.ip_batch("address del 10.77.0.3/24 dev vb\naddress add 10.77.0.3/32 dev other\n")
                .unwrap();
            thread::sleep(Duration::from_millis(50));
            assert_eq!(server.says("10.77.0.3"), "0 10.77.0.3");
        });
        or_skip!(case);
    }
}

/// The one at an address goes before those at any.
#[test]
fn beside_a_listener_at_one_address() {
    for listens in [
        ["0.0.0.0", "10.77.0.2"],
        ["10.77.0.2", "0.0.0.0"],
        ["*", "10.77.0.2"],
        ["*", "fd77::2"],
    ] {
        let mut seen = Vec::new();
        for has_library in [false, true] {
            let pair = or_skip!(Namespaces::new().second_subnet().ipv6().create());
            let server = Server::start(&pair, has_library, &listens);
            let addresses = ["10.77.0.2", "10.78.0.2", "fd77::2"];
            seen.push(addresses.map(|to| server.says(to)));
        }
        assert_eq!(seen[0], seen[1], "{listens:?}");
    }
}

/// The same of another process, which the kernel serves, and which comes later.
#[test]
fn beside_another_process() {
    for of_library in [false, true] {
        let pair = or_skip!(Namespaces::new().second_subnet().create());
        let shared = |has_library: bool| {
            let mut command = if has_library {
                preloaded(&pair.b, &program()).unwrap()
            } else {
                pair.b.command(program())
            };
            command.env("SHARED", "1");
            command
        };
        let server = Server::started(&pair, shared(of_library), &["0.0.0.0"]);
        assert_eq!(server.says("10.77.0.2"), "0 10.77.0.2");
        // Of two, so that its listener at the address is the second.
        let _other = Server::started(&pair, shared(false), &["127.0.0.1", "10.77.0.2"]);
        let goes_first = || server.says("10.77.0.2") == "1 10.77.0.2";
        assert!(eventually(SOON, goes_first), "library: {of_library}");
        assert_eq!(server.says("10.78.0.2"), "0 10.78.0.2");
    }
}

/// A rule is for an address that the host does not have yet.
#[test]
fn rules_for_some_addresses() {
    let pair = or_skip!(Namespaces::new().second_subnet().create());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("any_address.conf");
    let rule = "application-id * *\nuse os tcp_server 10.77.0.8/30:*\n";
    std::fs::write(&file, rule).unwrap();
    let mut command = preloaded(&pair.b, &program()).unwrap();
    command
        .env("VMA_TRACELEVEL", "4")
        .env("VMA_CONFIG_FILE", &file);
    let server = Server::started(&pair, command, &["0.0.0.0"]);
    assert!(server.is_past_kernel());
    for address in ["10.77.0.2", "10.78.0.2"] {
        assert_eq!(server.says(address), format!("0 {address}"));
    }
    assert_eq!(server.kernel_has_accepted(), 0);
    let add = ["address", "add", "10.77.0.9/24", "dev", "vb"];
    pair.b.ip(&add).unwrap();
    assert_eq!(server.says("10.77.0.9"), "0 10.77.0.9");
    thread::sleep(Duration::from_millis(50));
    let before = server.kernel_has_accepted();
    assert_eq!(server.says("10.77.0.9"), "0 10.77.0.9");
    assert_eq!(server.kernel_has_accepted(), before + 1);
}

/// One that waits for its interface leaves the connections that it has by then to the kernel,
/// whatever address they are at.
#[test]
fn that_have_waited_for_their_interface() {
    or_skip!(testkit::needs_xdp(
        "an interface that one process has alone"
    ));
    for listens in EVERYWHERE {
        let pair = or_skip!(Namespaces::new().second_subnet().ipv6().create());
        let mut command = preloaded(&pair.b, &program()).unwrap();
        command.args(["10.77.0.2", "7991"]);
        let mut holder = Running::start(command).unwrap();
        assert!(holder.wait_for_output("ready", SOON));
        let server = Server::start(&pair, true, &[listens]);
        assert!(!server.is_past_kernel());
        let clients = ["10.77.0.2", "10.78.0.2"].map(|to| server.connect(to.parse().unwrap()));
        let mut clients = clients.map(Option::unwrap);
        clients.iter_mut().for_each(Client::ask);
        let before = server.kernel_has_accepted();
        drop(holder);
        assert!(eventually(SOON, || server.is_past_kernel()), "{listens}");
        let exempt = || exempt_connections(server.running.pid()).unwrap();
        assert!(eventually(SOON, || exempt() == clients.len()));
        assert_eq!(server.says("10.78.0.2"), "0 10.78.0.2");
        clients.iter_mut().for_each(Client::ask);
        assert_eq!(server.kernel_has_accepted(), before);
        drop(clients);
        assert!(eventually(SOON, || exempt() == 0));
    }
}

/// A listener at any address with more than a filter of the kernel's has room for, one by one.
#[test]
fn very_many_addresses() {
    let pair = or_skip!(Namespaces::pair());
    let add = |host: u32| {
        format!(
            "address add 10.80.{}.{}/12 dev vb\n",
            host / 250,
            host % 250
        )
    };
    pair.b
        .ip_batch(&(1..1500).map(add).collect::<String>())
        .unwrap();
    let server = Server::start(&pair, true, &["0.0.0.0"]);
    assert!(server.is_past_kernel(), "{}", server.running.stderr());
    pair.a
        .ip(&["route", "add", "10.80.0.0/12", "via", "10.77.0.2"])
        .unwrap();
    let last = Ipv4Addr::new(10, 80, 5, 249);
    assert_eq!(server.says(&last.to_string()), format!("0 {last}"));
}
