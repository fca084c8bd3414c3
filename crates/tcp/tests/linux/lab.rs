//! The engine and a kernel at the ends of a relay.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tcp::{Config, Event, Instant, State};
use testkit::link::{Conditions, Loss};
use testkit::{Namespace, Port, Relay, Skip, Tun};

use crate::host::{Host, instant};

pub(crate) const ENGINE: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);
pub(crate) const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);

/// Of whoever listens.
pub(crate) const PORT: u16 = 7000;

/// Nothing arrives.
pub(crate) const DEAD: Conditions = Conditions {
    rate_bits_per_second: None,
    delay: Duration::ZERO,
    queue_octets: 1_000_000,
    loss: Loss::Random(1.0),
    reorder: 0.0,
    reorder_delay: Duration::ZERO,
    duplicate: 0.0,
};

/// Nothing takes that long on a machine that works.
const LIMIT: Duration = Duration::from_secs(60);

/// Who opens a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Opener {
    Engine,
    Kernel,
}

pub(crate) const OPENERS: [Opener; 2] = [Opener::Engine, Opener::Kernel];

/// What a lab is made of.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) conditions: Conditions,
    pub(crate) config: Config,
    pub(crate) mtu_bytes: u16,
    /// Of the kernel, below `net.ipv4`.
    pub(crate) sysctls: &'static [(&'static str, &'static str)],
    /// Of the link's fate.
    pub(crate) seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            conditions: Conditions::default(),
            config: Config::default(),
            mtu_bytes: 1500,
            sysctls: &[],
            seed: 42,
        }
    }
}

pub(crate) struct Lab {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) relay: Relay<Host, Tun>,
}

/// A connection of the engine: its number at the host.
pub(crate) type Id = usize;

impl Lab {
    pub(crate) fn new() -> Result<Self, Skip> {
        Self::with(Setup::default())
    }

    pub(crate) fn with(setup: Setup) -> Result<Self, Skip> {
        let namespace = Namespace::create("kernel")?;
        let tun = Tun::create(&namespace, "tun0", KERNEL, setup.mtu_bytes)?;
        namespace.enter(|| {
            for (name, value) in setup.sysctls {
                fs::write(format!("/proc/sys/net/ipv4/{name}"), value)
                    .unwrap_or_else(|error| panic!("net.ipv4.{name}={value}: {error}"));
            }
        });
        let host = Host::new(ENGINE, setup.mtu_bytes, setup.config, setup.seed);
        Ok(Self {
            namespace: Arc::new(namespace),
            relay: Relay::new(host, tun, setup.conditions, setup.seed),
        })
    }

    pub(crate) fn host(&mut self) -> &mut Host {
        &mut self.relay.a
    }

    pub(crate) fn now(&self) -> Instant {
        instant(self.relay.now())
    }

    /// Relays until `is_done`.
    pub(crate) fn run_until(
        &mut self,
        what: &str,
        mut is_done: impl FnMut(&mut Host, Instant) -> bool,
    ) {
        let done = self.relay.run_until(LIMIT, |relay| {
            let now = instant(relay.now());
            is_done(&mut relay.a, now)
        });
        if !done.expect("the relay works") {
            let states = self.describe();
            panic!("{what}: not within {LIMIT:?}\n{states}");
        }
    }

    pub(crate) fn run(&mut self, time: Duration) {
        self.relay.run(time).expect("the relay works");
    }

    /// Runs `body` in a thread, for calls to the kernel that block.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> JoinHandle<io::Result<T>> {
        let namespace = Arc::clone(&self.namespace);
        thread::spawn(move || namespace.enter(body))
    }

    /// What `body`, which blocks, makes of the kernel's sockets.
    pub(crate) fn wait_for<T: Send + 'static>(
        &mut self,
        what: &str,
        body: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let thread = self.spawn(body);
        self.join(what, thread)
    }

    /// Relays until `thread` ends.
    pub(crate) fn join<T>(
        &mut self,
        what: &str,
        thread: JoinHandle<io::Result<T>>,
    ) -> io::Result<T> {
        self.run_until(what, |_, _| thread.is_finished());
        thread
            .join()
            .unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    }

    /// The kernel listens.
    pub(crate) fn kernel_listener(&self) -> TcpListener {
        kernel_listener(&self.namespace)
    }

    /// An established connection: both ends.
    pub(crate) fn open(&mut self, opener: Opener) -> (Id, TcpStream) {
        match opener {
            Opener::Engine => {
                let listener = self.kernel_listener();
                let id = self.connect();
                let accepted = self.wait_for("accept", move || listener.accept());
                let (stream, _) = accepted.expect("the engine's connection is accepted");
                self.run_until("connect", |host, _| {
                    host.connections[id].events.contains(&Event::Connected)
                });
                (id, stream)
            }
            Opener::Kernel => {
                let now = self.now();
                self.host().listen(now, PORT, BACKLOG.unsigned_abs());
                let stream = self.wait_for("connect", kernel_connect);
                let id = self.accept();
                (id, stream.expect("the kernel's connection is accepted"))
            }
        }
    }

    /// The engine connects to the kernel's listener.
    pub(crate) fn connect(&mut self) -> Id {
        let now = self.now();
        self.host().connect(now, SocketAddrV4::new(KERNEL, PORT))
    }

    /// The engine accepts.
    pub(crate) fn accept(&mut self) -> Id {
        let mut accepted = None;
        self.run_until("accept", |host, _| {
            accepted = host.accept();
            accepted.is_some()
        });
        accepted.expect("just found")
    }

    /// Relays until the engine's connection is in `state`.
    pub(crate) fn reach(&mut self, id: Id, state: State) {
        self.run_until(&format!("{state:?}"), |host, _| {
            host.connections[id].connection.state() == state
        });
    }

    /// The states of the kernel's sockets that are connected to the engine, as ss(8) calls them.
    pub(crate) fn kernel_states(&self) -> Vec<String> {
        let output = self.ss(&["-tanH", "dst", &ENGINE.to_string()]);
        let state = |line: &str| line.split_whitespace().next().map(str::to_owned);
        output.lines().filter_map(state).collect()
    }

    /// Relays until the kernel's sockets are in these states.
    pub(crate) fn reach_kernel(&mut self, states: &[&str]) {
        self.reach_kernel_any(&[states]);
    }

    /// The same, for one of several endings.
    pub(crate) fn reach_kernel_any(&mut self, endings: &[&[&str]]) {
        // The program is slow: not after each packet.
        for _ in 0..600 {
            let states = self.kernel_states();
            if endings.iter().any(|ending| states == *ending) {
                return;
            }
            self.run(Duration::from_millis(50));
        }
        panic!(
            "the kernel reaches none of {endings:?}\n{}",
            self.describe()
        );
    }

    /// What ss(8) says inside.
    pub(crate) fn ss(&self, arguments: &[&str]) -> String {
        let output = self.namespace.command("ss").args(arguments).output();
        let output = output.expect("iproute2 is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn describe(&mut self) -> String {
        let now = self.now();
        let kernel = self.ss(&["-tanOi"]);
        let counts = self.relay.counts();
        let connections = &self.relay.a.connections;
        let infos = connections.iter().map(|held| {
            let (info, events) = (held.connection.info(now), &held.events);
            format!("{info:?}\n{events:?}\n")
        });
        format!("{}{kernel}{counts:?}", infos.collect::<String>())
    }
}

/// A listening socket of the kernel of `namespace`, whose address is [`KERNEL`].
pub(crate) fn kernel_listener(namespace: &Namespace) -> TcpListener {
    let listener = namespace.enter(|| {
        let socket = cubic_socket()?;
        socket.bind(&SocketAddrV4::new(KERNEL, PORT).into())?;
        socket.listen(BACKLOG)?;
        Ok::<_, io::Error>(socket.into())
    });
    listener.expect("the port is free")
}

/// Blocks until the engine has accepted; to be called inside of the namespace.
pub(crate) fn kernel_connect() -> io::Result<TcpStream> {
    kernel_connect_to(ENGINE)
}

/// A connection from the kernel of `namespace` to that of [`KERNEL`], which has `listener`, through
/// `relay`: the ends of both.
pub(crate) fn open_between_kernels<A: Port, B: Port>(
    relay: &mut Relay<A, B>,
    namespace: &Arc<Namespace>,
    listener: TcpListener,
) -> (TcpStream, TcpStream) {
    let namespace = Arc::clone(namespace);
    let opening = thread::spawn(move || {
        let connected = namespace.enter(|| kernel_connect_to(KERNEL))?;
        let (accepted, _) = listener.accept()?;
        Ok::<_, io::Error>((connected, accepted))
    });
    let is_open = relay.run_until(LIMIT, |_| opening.is_finished());
    assert!(
        is_open.expect("the relay works"),
        "no connection within {LIMIT:?}"
    );
    let opened = opening.join().expect("no panic");
    opened.expect("the kernels connect")
}

/// Blocks until the host has accepted; to be called inside of the namespace.
fn kernel_connect_to(host: Ipv4Addr) -> io::Result<TcpStream> {
    let socket = cubic_socket()?;
    socket.connect(&SocketAddrV4::new(host, PORT).into())?;
    Ok(socket.into())
}

/// The default of congestion control is the machine's.
fn cubic_socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(b"cubic")?;
    Ok(socket)
}

const BACKLOG: i32 = 16;
