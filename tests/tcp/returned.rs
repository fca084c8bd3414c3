//! Connections that return to the kernel while their listener stays past it: they are the kernel's
//! from then on, as if they had always been, and nothing of that is left when they have ended.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketType};
use testkit::{
    Namespace, Namespaces, Pair, Running, SOON, eventually, exempt_connections, or_skip, preloaded,
};

const PORT: u16 = 7960;
/// How one that is asked for so many answers before it returns has been worth its way past the
/// kernel.
const WARM: usize = 60;

fn program() -> PathBuf {
    testkit::c_program("returned")
}

fn started(mut command: Command, address: &str, port: u16) -> Running {
    command.args([address, &port.to_string()]);
    let mut server = Running::start(command).unwrap();
    assert!(server.wait_for_output("ready", SOON), "{}", server.stderr());
    server
}

/// A server past the kernel, in the second namespace.
fn server(pair: &Pair, address: &str) -> Running {
    let mut command = preloaded(&pair.b, &program()).unwrap();
    command.env("VMA_TRACELEVEL", "4");
    let server = started(command, address, PORT);
    let log = server.stderr();
    assert!(log.contains("past the kernel"), "{log}");
    server
}

struct Client(TcpStream);

impl Client {
    fn connect(namespace: &Namespace, to: (IpAddr, u16)) -> Self {
        let to = SocketAddr::from(to);
        let stream = namespace.enter(|| TcpStream::connect_timeout(&to, SOON));
        Self::of(stream.unwrap()).unwrap()
    }

    fn of(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SOON))?;
        Ok(Self(stream))
    }

    /// From this port of its side.
    fn from_port(namespace: &Namespace, port: u16) -> std::io::Result<Self> {
        let (local, peer) = (
            SocketAddrV4::new(Pair::ADDRESS_A, port),
            SocketAddrV4::new(Pair::ADDRESS_B, PORT),
        );
        let stream = namespace.enter(|| {
            let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
            net::sockopt::set_socket_reuseaddr(&socket, true)?;
            net::bind(&socket, &local)?;
            net::connect(&socket, &peer)?;
            std::io::Result::Ok(TcpStream::from(socket))
        });
        Self::of(stream?)
    }

    /// Ends it without a word.
    fn forget(self) {
        let on: libc::c_int = 1;
        let (fd, value) = (self.0.as_raw_fd(), (&raw const on).cast());
        // SAFETY: the kernel reads four octets.
        let set = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR, value, 4) };
        assert_eq!(set, 0);
    }

    fn asks(&mut self, question: &[u8]) -> u8 {
        self.0.write_all(question).unwrap();
        let mut answer = [0];
        self.0.read_exact(&mut answer).unwrap();
        answer[0]
    }

    fn ask(&mut self) {
        assert_eq!(self.asks(b"?"), b'!');
    }

    /// Has the server give the connection to the kernel, after it has served it past that.
    fn returns(&mut self, how: u8) {
        self.returns_after(WARM, how);
    }

    fn returns_after(&mut self, answers: usize, how: u8) {
        (0..answers).for_each(|_| self.ask());
        let answer = self.asks(&[how]);
        assert_eq!(answer, if how == b'f' { b'c' } else { b'k' });
        self.ask();
    }

    /// The median.
    fn round_trip(&mut self, count: usize) -> Duration {
        let mut times: Vec<_> = (0..count)
            .map(|_| {
                let begun = Instant::now();
                self.ask();
                begun.elapsed()
            })
            .collect();
        times.sort();
        times[count / 2]
    }

    fn sends(&mut self, octets: usize) -> Duration {
        let begun = Instant::now();
        let mut block = vec![b'x'; octets];
        block[octets - 1] = b'?';
        assert_eq!(self.asks(&block), b'!');
        begun.elapsed()
    }

    /// The server's count of what was sent.
    fn end(mut self) -> String {
        self.0.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        text
    }
}

fn pair() -> Result<Pair, testkit::Skip> {
    Namespaces::new().ipv6().create()
}

fn exempt(server: &Running) -> usize {
    exempt_connections(server.pid()).unwrap()
}

fn addresses() -> Vec<(&'static str, IpAddr)> {
    let mut addresses = vec![("10.77.0.2", Pair::ADDRESS_B.into())];
    if Path::new("/proc/net/if_inet6").exists() {
        let six = Pair::IPV6_ADDRESS_B;
        addresses.push(("fd77::2", six.into()));
        addresses.extend([("*", Pair::ADDRESS_B.into()), ("*", six.into())]);
    }
    addresses
}

#[test]
fn they_are_exempt_from_the_listeners_way_until_they_end() {
    or_skip!(testkit::needs_xdp(
        "connections exempt from their port's way"
    ));
    for (listens, address) in addresses() {
        let pair = or_skip!(pair());
        let server = server(&pair, listens);
        let to = (address, PORT);
        let mut clients: Vec<_> = (0..5).map(|_| Client::connect(&pair.a, to)).collect();
        let mut others: Vec<_> = (0..2).map(|_| Client::connect(&pair.a, to)).collect();
        clients.iter_mut().for_each(Client::ask);
        assert_eq!(exempt(&server), 0, "{listens}");
        for (index, client) in clients.iter_mut().enumerate() {
            client.returns(if index % 2 == 0 { b'h' } else { b'f' });
            others.iter_mut().for_each(Client::ask);
        }
        let log = server.stderr();
        assert_eq!(exempt(&server), 5, "{listens} {log}");
        for mut client in clients {
            client.sends(3_000_000);
            let count = WARM + 3 + 3_000_000;
            assert_eq!(client.end(), count.to_string(), "{listens}");
        }
        assert!(eventually(SOON, || exempt(&server) == 0), "{listens}");
        // Others were not meant.
        others.iter_mut().for_each(Client::ask);
        Client::connect(&pair.a, to).ask();
    }
}

#[test]
fn when_the_listener_goes_nothing_is_exempt_and_they_live_on() {
    or_skip!(testkit::needs_xdp(
        "connections exempt from their port's way"
    ));
    let pair = or_skip!(pair());
    let server = server(&pair, "10.77.0.2");
    let to = (Pair::ADDRESS_B.into(), PORT);
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(&pair.a, to)).collect();
    clients[0].returns(b'h');
    clients[1].returns(b'f');
    assert_eq!(exempt(&server), 2);
    assert_eq!(clients[2].asks(b"l"), b'k');
    assert_eq!(exempt(&server), 0);
    clients.iter_mut().for_each(Client::ask);
    drop(server);
}

#[test]
fn children_serve_them_while_the_listeners_process_stands_still() {
    or_skip!(testkit::needs_xdp(
        "connections exempt from their port's way"
    ));
    let pair = or_skip!(pair());
    let server = server(&pair, "10.77.0.2");
    let to = (Pair::ADDRESS_B.into(), PORT);
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(&pair.a, to)).collect();
    clients.iter_mut().for_each(|it| it.returns(b'f'));
    server.signal(libc::SIGSTOP).unwrap();
    for client in &mut clients {
        client.sends(1_000_000);
    }
    assert_eq!(
        clients.pop().unwrap().end(),
        (WARM + 2 + 1_000_000).to_string()
    );
    server.signal(libc::SIGCONT).unwrap();
    clients.iter_mut().for_each(Client::ask);
    assert!(eventually(SOON, || exempt(&server) == 2));
}

/// Before, it was a hundred times slower. The others' listener is the kernel's by a rule.
#[test]
fn they_are_as_fast_as_if_they_had_always_been_the_kernels() {
    or_skip!(testkit::needs_xdp(
        "connections exempt from their port's way"
    ));
    const ROUNDS_MAX: usize = 60;
    let (kernels, ours) = (or_skip!(pair()), or_skip!(pair()));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("returned-{}.conf", std::process::id()));
    std::fs::write(&file, "use os tcp_server *:*").unwrap();
    let mut command = preloaded(&kernels.b, &program()).unwrap();
    command.env("VMA_CONFIG_FILE", &file);
    let of_kernel = started(command, "10.77.0.2", PORT);
    let returning = server(&ours, "10.77.0.2");
    let to = (Pair::ADDRESS_B.into(), PORT);
    let mut clients = [&kernels, &ours].map(|pair| Client::connect(&pair.a, to));
    clients.iter_mut().for_each(|client| client.returns(b'f'));
    assert_eq!((exempt(&of_kernel), exempt(&returning)), (0, 1));
    // The best of each, in turns, as the machine may be shared. Bulk comes past an XDP program in
    // generic mode, which the other interface has not: as the CPUs are, 0.6 to 1.0 of its rate.
    const LEAST: [f64; 2] = [0.9, 0.5];
    let mut best = [[Duration::MAX; 2]; 2];
    for _ in 0..ROUNDS_MAX {
        for (best, client) in best.iter_mut().zip(&mut clients) {
            best[0] = best[0].min(client.round_trip(300));
            best[1] = best[1].min(client.sends(10_000_000));
        }
        let [kernel, ours] = best;
        if (0..2).all(|it| kernel[it].as_secs_f64() >= LEAST[it] * ours[it].as_secs_f64()) {
            return;
        }
    }
    panic!("round trip and bulk, the kernel's and those that returned: {best:?}");
}

#[test]
fn a_listener_most_of_whose_connections_return_is_left_to_the_kernel() {
    const LEFT: &str = "back to the kernel: most of its connections return to the kernel";
    for how in [b'h', b'f'] {
        let pair = or_skip!(pair());
        let server = server(&pair, "10.77.0.2");
        let to = (Pair::ADDRESS_B.into(), PORT);
        let connect = || Client::connect(&pair.a, to);
        // These have been worth it, and one is still.
        let mut kept: Vec<_> = (0..3).map(|_| connect()).collect();
        kept[1..].iter_mut().for_each(|it| it.returns(how));
        kept[0].ask();
        let mut clients: Vec<_> = (0..8).map(|_| connect()).collect();
        clients.iter_mut().for_each(|it| it.returns_after(0, how));
        assert!(!server.stderr().contains(LEFT));
        clients.extend((0..40).map(|_| {
            let mut client = connect();
            client.returns_after(0, how);
            client
        }));
        let log = || server.stderr();
        assert!(eventually(SOON, || log().contains(LEFT)), "{}", log());
        // Nobody has noticed.
        for client in clients.iter_mut().chain(&mut kept) {
            client.ask();
        }
        assert_eq!(log().matches(LEFT).count(), 1, "{}", log());
        assert_eq!(exempt(&server), 0);
        connect().returns_after(0, how);
    }
}

/// More end than the kernel keeps notifications of, which is less than 200.
#[test]
fn ends_of_which_the_kernel_cannot_tell_are_found() {
    or_skip!(testkit::needs_xdp(
        "connections exempt from their port's way"
    ));
    const COUNT: usize = 300;
    let pair = or_skip!(pair());
    let server = server(&pair, "10.77.0.2");
    let to = (Pair::ADDRESS_B.into(), PORT);
    let mut clients: Vec<_> = (0..COUNT).map(|_| Client::connect(&pair.a, to)).collect();
    clients.iter_mut().for_each(|it| it.returns(b'f'));
    let mut last = clients.pop().unwrap();
    assert_eq!(exempt(&server), COUNT);
    server.signal(libc::SIGSTOP).unwrap();
    for client in clients {
        client.end();
    }
    server.signal(libc::SIGCONT).unwrap();
    assert!(
        eventually(SOON, || exempt(&server) == 1),
        "{}",
        exempt(&server)
    );
    last.ask();
    last.end();
    assert!(
        eventually(SOON, || exempt(&server) == 0),
        "{}",
        server.stderr()
    );
}

#[test]
fn a_connection_in_time_wait_is_exempt_and_its_addresses_serve_a_new_one() {
    or_skip!(testkit::needs_xdp(
        "connections exempt from their port's way"
    ));
    let pair = or_skip!(pair());
    testkit::panic_unless_paused(|| {
        for how in [b'h', b'f'] {
            use_addresses_again(&pair, how);
        }
    });
}

fn use_addresses_again(pair: &Pair, how: u8) {
    let server = server(pair, "10.77.0.2");
    let mut client = Client::from_port(&pair.a, 0).unwrap();
    client.returns(how);
    let port = client.0.local_addr().unwrap().port();
    client.0.write_all(b"q").unwrap();
    assert_eq!(client.0.read(&mut [0; 9]).unwrap(), 0);
    drop(client);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(exempt(&server), 1);
    let begun = Instant::now();
    let mut client = Client::from_port(&pair.a, port).unwrap();
    // No SYN was lost.
    assert!(begun.elapsed() < Duration::from_millis(500));
    client.ask();
    assert_eq!(exempt(&server), 0);
    client.returns(how);
    assert_eq!(exempt(&server), 1);
}

/// As after a restart of its host: the kernel asks, the peer knows of nothing and says so, and the
/// next SYN is for the listener.
#[test]
fn a_peer_that_has_forgotten_its_connection_gets_another() {
    or_skip!(testkit::needs_xdp(
        "connections exempt from their port's way"
    ));
    let pair = or_skip!(pair());
    let server = server(&pair, "10.77.0.2");
    let mut client = Client::from_port(&pair.a, 0).unwrap();
    client.returns(b'h');
    let port = client.0.local_addr().unwrap().port();
    client.forget();
    assert_eq!(exempt(&server), 1);
    let mut client = Client::from_port(&pair.a, port).unwrap();
    (0..10).for_each(|_| client.ask());
    assert!(eventually(SOON, || exempt(&server) == 0));
    client.ask();
    let log = server.stderr();
    assert!(!log.contains("is reset") && !log.contains("ERROR"), "{log}");
}
