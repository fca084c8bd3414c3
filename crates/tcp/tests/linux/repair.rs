//! Connections move from the engine to a kernel and back (`TCP_REPAIR`), and the peer, another
//! kernel, does not notice.

use std::io::{ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use tcp::{Instant, Snapshot, SocketOption, State};
use testkit::link::{Conditions, Loss};
use testkit::{Namespace, Skip, Tun, or_skip, panic_unless_paused};

use crate::host::Host;
use crate::lab::{DEAD, ENGINE, Lab, OPENERS, Opener, Setup};
use crate::pattern::Pump;
use crate::transfer::LOSSY;

mod kernel;

/// Slow enough that there is always something under way.
const SLOW: Conditions = Conditions {
    rate_bits_per_second: Some(100_000_000),
    delay: Duration::from_millis(5),
    queue_octets: 1_000_000,
    loss: Loss::Random(0.0),
    reorder: 0.0,
    reorder_delay: Duration::ZERO,
    duplicate: 0.0,
};

const MUCH: u64 = 8 << 20;
const SOME: u64 = 100_000;

/// One connection to a kernel that stays, and the two stacks that its other end can be in.
struct Mover {
    lab: Lab,
    /// Where the kernel is that takes the connection over.
    heir: Namespace,
    /// Its device, while the engine has the connection.
    link: Option<Tun>,
    home: Home,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    peer: TcpStream,
    /// What the applications have written and read, and whether they have shut down.
    pump: Pump,
    peer_pump: Pump,
    is_shut: bool,
    is_peer_shut: bool,
}

/// Where the connection is.
#[derive(Debug)]
enum Home {
    Engine(usize),
    Kernel(TcpStream),
}

/// What the connection's owner sees of it.
#[derive(Clone, Copy, Debug)]
struct Look {
    state: State,
    /// Octets of the queues.
    unread: usize,
    unacknowledged: usize,
    unsent: usize,
    snd_wnd: u32,
    rcv_wnd: u32,
}

/// Up to where the applications write and read.
#[derive(Clone, Copy, Debug)]
struct Limits {
    writes: u64,
    reads: u64,
    peer_writes: u64,
    peer_reads: u64,
}

impl Home {
    fn look(&self, host: &mut Host, now: Instant) -> Look {
        match self {
            Self::Engine(id) => {
                let connection = &host.connections[*id].connection;
                let info = connection.info(now);
                Look {
                    state: info.state,
                    unread: connection.readable_len(),
                    unacknowledged: connection.unacknowledged_len(),
                    unsent: connection.unsent_len(),
                    snd_wnd: info.snd_wnd,
                    rcv_wnd: info.rcv_wnd,
                }
            }
            Self::Kernel(stream) => kernel::look_at(stream).expect("the socket is open"),
        }
    }

    /// Whether the end of the stream was read.
    fn has_read_end(&self, host: &mut Host, now: Instant) -> bool {
        match self {
            Self::Engine(id) => {
                Pump::default().read_end(now, &mut host.connections[*id].connection)
            }
            Self::Kernel(stream) => has_read_end(stream),
        }
    }
}

fn has_read_end(mut stream: &TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(0) => true,
        Ok(_) => panic!("there is more to read"),
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("reading the end: {error}"),
    }
}

impl Mover {
    fn new(setup: Setup, opener: Opener) -> Result<Self, Skip> {
        let heir = Namespace::create("heir")?;
        let link = Tun::create(&heir, "tun0", ENGINE, setup.mtu_bytes)?;
        let mut lab = Lab::with(setup)?;
        let options = &mut lab.host().options;
        options.set(SocketOption::ReceiveBuffer(64 << 10)).unwrap();
        let (id, peer) = lab.open(opener);
        peer.set_nonblocking(true).unwrap();
        let [local, remote] = [peer.peer_addr(), peer.local_addr()].map(|address| match address {
            Ok(SocketAddr::V4(address)) => address,
            other => panic!("{other:?} is not of the lab"),
        });
        Ok(Self {
            lab,
            heir,
            link: Some(link),
            home: Home::Engine(id),
            local,
            remote,
            peer,
            pump: Pump::default(),
            peer_pump: Pump::default(),
            is_shut: false,
            is_peer_shut: false,
        })
    }

    /// Relays until `is_done`, while the applications write and read.
    fn run_until(
        &mut self,
        what: &str,
        limits: Limits,
        mut is_done: impl FnMut([&Pump; 2], &Look) -> bool,
    ) {
        let (home, pump) = (&mut self.home, &mut self.pump);
        let (peer, peer_pump) = (&self.peer, &mut self.peer_pump);
        self.lab.run_until(what, |host, now| {
            peer_pump.write_to(peer, limits.peer_writes);
            peer_pump.read_from(peer, limits.peer_reads);
            match home {
                Home::Engine(id) => {
                    let connection = &mut host.connections[*id].connection;
                    pump.write(now, connection, limits.writes);
                    pump.read(now, connection, limits.reads);
                }
                Home::Kernel(stream) => {
                    pump.write_to(&*stream, limits.writes);
                    pump.read_from(&*stream, limits.reads);
                }
            }
            is_done([pump, peer_pump], &home.look(host, now))
        });
    }

    /// Both read some more and write much.
    fn limits(&self) -> Limits {
        Limits {
            writes: self.pump.written + MUCH,
            reads: self.pump.read + SOME,
            peer_writes: self.peer_pump.written + MUCH,
            peer_reads: self.peer_pump.read + SOME,
        }
    }

    /// Relays until both have written another `len` octets, unless they have shut down, and all is
    /// read.
    fn transfer(&mut self, len: u64) {
        let more = |is_shut| if is_shut { 0 } else { len };
        let writes = self.pump.written + more(self.is_shut);
        let peer_writes = self.peer_pump.written + more(self.is_peer_shut);
        let limits = Limits {
            writes,
            reads: peer_writes,
            peer_writes,
            peer_reads: writes,
        };
        self.run_until("transfer", limits, |[pump, peer_pump], _| {
            pump.read == peer_writes && peer_pump.read == writes
        });
    }

    /// Relays until the connection is in `state`.
    fn reach(&mut self, state: State) {
        let home = &self.home;
        self.lab.run_until(&format!("{state:?}"), |host, now| {
            home.look(host, now).state == state
        });
    }

    fn shut_down(&mut self) {
        self.is_shut = true;
        match &self.home {
            Home::Engine(id) => {
                let (id, now) = (*id, self.lab.now());
                let connection = &mut self.lab.host().connections[id].connection;
                assert!(connection.shutdown(now, tcp::Shutdown::Write));
            }
            Home::Kernel(stream) => stream.shutdown(Shutdown::Write).unwrap(),
        }
    }

    fn shut_peer_down(&mut self) {
        self.is_peer_shut = true;
        self.peer.shutdown(Shutdown::Write).unwrap();
    }

    /// The rest of the connection's life: `len` octets go in each direction that is still open.
    fn finish(mut self, len: u64) {
        self.transfer(len);
        if !self.is_shut {
            self.shut_down();
        }
        if !self.is_peer_shut {
            self.shut_peer_down();
        }
        let (home, peer) = (&self.home, &self.peer);
        let mut has_ended = [false; 2];
        self.lab.run_until("the end of the stream", |host, now| {
            has_ended[0] = has_ended[0] || home.has_read_end(host, now);
            has_ended[1] = has_ended[1] || has_read_end(peer);
            has_ended == [true; 2]
        });
        drop(self.peer);
        self.lab.reach_kernel_any(&[&[], &["TIME-WAIT"]]);
    }

    /// To the other stack.
    fn move_over(&mut self) -> Snapshot<Vec<u8>> {
        let now = self.lab.now();
        let host = self.lab.host();
        // In between there is nothing.
        match std::mem::replace(&mut self.home, Home::Engine(usize::MAX)) {
            Home::Engine(_) => {
                let connection = host.take_out();
                let snapshot = connection.export(now).expect("can be exported");
                let link = self.link.take().expect("the heir is idle");
                let heir = &self.heir;
                let stream = kernel::put_in(heir, &link, self.local, self.remote, &snapshot);
                let stream = stream.expect("the kernel takes it");
                stream.set_nonblocking(true).unwrap();
                host.kernel = Some(link);
                self.home = Home::Kernel(stream);
                snapshot
            }
            Home::Kernel(stream) => {
                let snapshot = kernel::take_out(stream).expect("the kernel gives it");
                self.link = host.kernel.take();
                let id = host.put_in(now, self.local, self.remote, snapshot.clone());
                self.home = Home::Engine(id);
                snapshot
            }
        }
    }
}

/// The connection moves three times.
#[test]
fn a_transfer_goes_on_in_a_kernel_and_back_in_the_engine() {
    panic_unless_paused(|| {
        for conditions in [SLOW, LOSSY] {
            for opener in OPENERS {
                let mut mover = or_skip!(Mover::new(
                    Setup {
                        conditions,
                        ..Setup::default()
                    },
                    opener
                ));
                for _ in 0..3 {
                    let limits = Limits {
                        peer_reads: u64::MAX,
                        ..mover.limits()
                    };
                    mover.run_until("much in all queues", limits, |[pump, _], look| {
                        let in_flight = look.unacknowledged - look.unsent;
                        let has_read = pump.read == limits.reads;
                        has_read && look.unread > 0 && in_flight > 0 && look.unsent > 0
                    });
                    let snapshot = mover.move_over();
                    let in_flight = snapshot.snd_nxt - snapshot.snd_una;
                    assert!(!snapshot.unread.is_empty() && in_flight > 0);
                    assert!(snapshot.unacknowledged.len() > in_flight as usize);
                }
                mover.finish(SOME);
            }
        }
    });
}

/// Neither side reads: both wait for the other's window.
#[test]
fn closed_windows_move() {
    panic_unless_paused(|| {
        for opener in OPENERS {
            let mut mover = or_skip!(Mover::new(Setup::default(), opener));
            let socket = socket2::SockRef::from(&mover.peer);
            socket.set_recv_buffer_size(64 << 10).unwrap();
            for _ in 0..3 {
                let limits = mover.limits();
                mover.run_until("closed windows", limits, |[pump, peer_pump], look| {
                    let has_read = pump.read == limits.reads && peer_pump.read == limits.peer_reads;
                    has_read && look.snd_wnd == 0 && look.rcv_wnd == 0
                });
                let window = mover.move_over().window;
                assert_eq!((window.snd_wnd, window.rcv_wnd), (0, 0));
            }
            mover.finish(SOME);
        }
    });
}

/// Brings the connection into `state`, where it stays.
fn reach_and_cut(mover: &mut Mover, state: State) {
    match state {
        State::Established => {}
        State::FinWait1 => {
            mover.lab.relay.set_conditions(DEAD, DEAD);
            mover.shut_down();
        }
        State::FinWait2 => mover.shut_down(),
        State::CloseWait => mover.shut_peer_down(),
        State::Closing => {
            mover.lab.relay.set_conditions(DEAD, Conditions::default());
            mover.shut_down();
            // Ours is sent first.
            mover.lab.run(Duration::from_millis(5));
            mover.shut_peer_down();
        }
        State::LastAck => {
            mover.shut_peer_down();
            mover.reach(State::CloseWait);
            mover.lab.relay.set_conditions(DEAD, DEAD);
            mover.shut_down();
        }
        _ => panic!("{state:?} is not moved"),
    }
    mover.reach(state);
    // What is to be sent is sent.
    mover.lab.run(Duration::from_millis(5));
}

#[test]
fn every_state_moves() {
    panic_unless_paused(|| {
        for state in State::ALL.into_iter().filter(|state| state.is_exportable()) {
            for moves_before in 0..2 {
                let mut mover = or_skip!(Mover::new(Setup::default(), Opener::Engine));
                mover.transfer(SOME);
                for _ in 0..moves_before {
                    mover.move_over();
                    mover.transfer(SOME);
                }
                reach_and_cut(&mut mover, state);
                let snapshot = mover.move_over();
                assert_eq!(snapshot.state, state);
                let (home, now) = (&mover.home, mover.lab.now());
                assert_eq!(home.look(&mut mover.lab.relay.a, now).state, state);
                let whole = Conditions::default();
                mover.lab.relay.set_conditions(whole, whole);
                mover.finish(SOME);
            }
        }
    });
}
