//! Threads that send and receive by rings of their own, on an interface with eight queues.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;

use stats::RingSnapshot;
use testkit::{
    Accelerated, Comparison, Namespaces, Pair, SOON, c_program, echo_streams, eventually, or_skip,
    preloaded,
};

const QUEUES: u32 = 8;
const UDP_PORT: u16 = 7700;
const TCP_PORT: u16 = 7799;
const THREADS: u16 = 2;
const SOCKETS: u16 = 2;
const COUNT: u32 = 3000;
/// Cases of `threads.c` and `fork.c`: of those who send by one socket together.
const THREADS_CASES: [&str; 5] = [
    "several_receivers",
    "several_pollers",
    "sleeper_and_drainer",
    "one_shot_pool",
    "cancelled_anywhere",
];
const FORK_CASES: [&str; 8] = [
    "sends",
    "generations",
    "lineage",
    "both_wait",
    "several_children",
    "parent_exits",
    "changes",
    "bound_later",
];

/// Makes room for everything that is sent, however late the receiver runs.
fn make_room(socket: &UdpSocket) {
    let bytes: libc::c_int = 64 << 20;
    let len = libc::socklen_t::try_from(size_of_val(&bytes)).unwrap();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
    let value = (&raw const bytes).cast();
    // SAFETY: the kernel reads one integer.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// How often each number came, until all have or none comes any more.
fn received(socket: &UdpSocket) -> Vec<u32> {
    let mut times = vec![0; COUNT as usize];
    let mut buffer = [0; 4];
    let mut left = COUNT;
    while left > 0
        && let Ok(4) = socket.recv(&mut buffer)
    {
        let number = u32::from_ne_bytes(buffer) as usize;
        left -= u32::from(times[number] == 0);
        times[number] += 1;
    }
    times
}

/// How many rings have sent datagrams, when threads with sockets of their own have sent in this
/// environment. Each datagram has to arrive once.
fn rings_used(pair: &Pair, program: &Path, environment: &[(&str, &str)]) -> usize {
    let peers: Vec<_> = (0..THREADS * SOCKETS)
        .map(|number| {
            let address = (Pair::ADDRESS_A, UDP_PORT + number);
            let socket = pair.a.enter(|| UdpSocket::bind(address)).unwrap();
            make_room(&socket);
            socket.set_read_timeout(Some(SOON)).unwrap();
            socket
        })
        .collect();
    let receivers: Vec<_> = peers
        .into_iter()
        .map(|socket| thread::spawn(move || received(&socket)))
        .collect();
    let mut command = preloaded(&pair.b, program).unwrap();
    command.envs(environment.iter().copied()).args([
        Pair::ADDRESS_A.to_string(),
        UDP_PORT.to_string(),
        TCP_PORT.to_string(),
        THREADS.to_string(),
        SOCKETS.to_string(),
        COUNT.to_string(),
    ]);
    let mut sender = Accelerated::start(command).unwrap();
    let input = sender.process().stdin().unwrap();
    let sent = sender.process().wait_for_output("sent", SOON);
    assert!(sent, "{environment:?}: {}", sender.process().stderr());
    for receiver in receivers {
        let times = receiver.join().unwrap();
        let wrong = times.iter().position(|count| *count != 1);
        assert_eq!(wrong, None, "{environment:?}: {times:?}");
    }
    let rings = sender.reader().rings().unwrap();
    let sent: u64 = rings.iter().map(|ring| ring.tx_packets).sum();
    assert!(sent >= u64::from(COUNT) * u64::from(THREADS * SOCKETS));
    drop(input);
    let finished = sender.into_process().wait(SOON).unwrap();
    assert!(finished.status.success(), "{environment:?}: {finished:?}");
    let least = u64::from(COUNT);
    rings.iter().filter(|ring| ring.tx_packets >= least).count()
}

#[test]
fn what_threads_send_by_rings_of_their_own_arrives_once() {
    let pair = or_skip!(Namespaces::new().queues(QUEUES).create());
    echo_streams(&pair.a, Pair::ADDRESS_A, TCP_PORT).unwrap();
    let program = c_program("rings");
    for (logic, expected) in [
        ("0", 1..=1),
        ("1", 1..=1),
        ("10", 4..=4),
        ("20", 2..=2),
        // Threads are moved, or were on one core.
        ("30", 1..=2),
        ("31", 1..=2),
    ] {
        let environment = [("VMA_RING_ALLOCATION_LOGIC_TX", logic)];
        let used = rings_used(&pair, &program, &environment);
        assert!(expected.contains(&used), "logic {logic}: {used} rings");
    }
    let limited = [
        ("VMA_RING_ALLOCATION_LOGIC_TX", "10"),
        ("VMA_RING_LIMIT_PER_INTERFACE", "3"),
    ];
    // Two for sockets of datagrams where one thread's come before the other's: then both streams
    // have the third.
    let used = rings_used(&pair, &program, &limited);
    assert!((2..=3).contains(&used), "at most 3: {used} rings");
}

/// Sends in turn from each of some sockets of the kernel to each of the receiver's, a round at a
/// time: so many are answered at its end.
fn send_rounds(senders: &[UdpSocket], receivers: u16, rounds: u32, per_round: u32) {
    for round in 0..rounds {
        for number in round * per_round..(round + 1) * per_round {
            for (sender, socket) in (0u32..).zip(senders) {
                let message = [sender.to_ne_bytes(), number.to_ne_bytes()].concat();
                for receiver in 0..receivers {
                    let to = (Pair::ADDRESS_B, UDP_PORT + receiver);
                    socket.send_to(&message, to).unwrap();
                }
            }
        }
        let mut answer = [0; 8];
        for socket in senders {
            (0..receivers).for_each(|_| assert_eq!(socket.recv(&mut answer).unwrap(), 8));
        }
    }
}

/// What became of a process whose threads receive.
struct Reception {
    rings: Vec<RingSnapshot>,
    /// How often each socket was moved to other rings.
    migrations: Vec<u64>,
    /// On how many CPUs each thread may run at its end.
    cpus: Vec<usize>,
}

const RECEIVERS: u16 = 4;

/// What the rings of a process have received whose threads receive in this environment, each in its
/// own way. The kernel's senders choose queues without regard to whose ring has them. `moves`: each
/// thread goes to another CPU on its way.
fn received_by_rings(
    pair: &Pair,
    program: &Path,
    environment: &[(&str, &str)],
    moves: bool,
) -> Reception {
    const SENDERS: usize = 6;
    const ROUNDS: u32 = 25;
    const PER_ROUND: u32 = 8;
    let mut command = preloaded(&pair.b, program).unwrap();
    command.envs(environment.iter().copied()).args([
        UDP_PORT.to_string(),
        RECEIVERS.to_string(),
        SENDERS.to_string(),
        (ROUNDS * PER_ROUND).to_string(),
        PER_ROUND.to_string(),
        u8::from(moves).to_string(),
    ]);
    let mut receiver = Accelerated::start(command).unwrap();
    let input = receiver.process().stdin().unwrap();
    let process = receiver.process();
    let are_ready = eventually(SOON, || {
        process.stdout().matches("ready").count() == usize::from(RECEIVERS)
    });
    assert!(are_ready, "{environment:?}: {}", process.stderr());
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| {
            let any = (Pair::ADDRESS_A, 0);
            let socket = pair.a.enter(|| UdpSocket::bind(any)).unwrap();
            socket.set_read_timeout(Some(SOON)).unwrap();
            socket
        })
        .collect();
    send_rounds(&senders, RECEIVERS, ROUNDS, PER_ROUND);
    let received = process.wait_for_output("received", SOON);
    assert!(received, "{environment:?}: {}", process.stderr());
    let sockets = receiver.sockets();
    assert_eq!(sockets.len(), usize::from(RECEIVERS));
    let past_kernel: u64 = sockets.iter().map(|it| it.rx_packets).sum();
    let all = SENDERS as u64 * u64::from(ROUNDS * PER_ROUND) * u64::from(RECEIVERS);
    let rings = receiver.reader().rings().unwrap();
    let by_rings: u64 = rings.iter().map(|ring| ring.rx_packets).sum();
    // Before the first answer the kernel did not know the way, perhaps.
    assert_eq!(
        (past_kernel, by_rings >= all),
        (all, true),
        "{environment:?}"
    );
    drop(input);
    let finished = receiver.into_process().wait(SOON).unwrap();
    assert!(finished.status.success(), "{environment:?}: {finished:?}");
    let cpus = finished.stdout.lines().filter_map(|line| {
        let count = line.strip_prefix("CPUs: ")?;
        Some(count.parse().unwrap())
    });
    Reception {
        rings,
        migrations: sockets.iter().map(|it| it.rx_migrations).collect(),
        cpus: cpus.collect(),
    }
}

#[test]
fn what_comes_by_any_queue_is_received_once_by_threads_with_rings_of_their_own() {
    or_skip!(testkit::needs_xdp("rings of several queues"));
    let pair = or_skip!(Namespaces::new().queues(QUEUES).create());
    let program = c_program("receiving_rings");
    let polls = ("VMA_SELECT_POLL", "100000");
    for (logic, limit, sleeps, expected) in [
        ("0", "0", false, &[QUEUES][..]),
        ("20", "0", false, &[1; QUEUES as usize]),
        ("10", "3", true, &[3, 3, 2]),
    ] {
        let mut environment = vec![
            ("VMA_RING_ALLOCATION_LOGIC_RX", logic),
            ("VMA_RING_LIMIT_PER_INTERFACE", limit),
        ];
        if sleeps {
            environment.extend([("VMA_RX_POLL", "0"), ("VMA_SELECT_POLL", "0")]);
        } else {
            environment.push(polls);
        }
        let rings = received_by_rings(&pair, &program, &environment, false).rings;
        let queues: Vec<_> = rings.iter().map(|ring| ring.queues).collect();
        assert_eq!(queues, expected, "{environment:?}");
        let used = rings.iter().filter(|ring| ring.rx_packets > 0).count();
        let several = expected.len() > 1;
        assert_eq!(used > 1, several, "{environment:?}: {rings:?}");
    }
}

#[test]
fn rings_of_cores_follow_threads_that_move_or_keep_them_where_they_are() {
    let pair = or_skip!(Namespaces::new().queues(QUEUES).create());
    let program = c_program("receiving_rings");
    let all_cpus = thread::available_parallelism().unwrap().get();
    let sockets = usize::from(RECEIVERS);
    for (logic, moves, cpus, may_migrate) in [
        // To another CPU at half time: each socket follows its thread there.
        ("30", true, 1, all_cpus > 1),
        ("31", false, 1, false),
        ("20", false, all_cpus, false),
    ] {
        let environment = [
            ("VMA_RING_ALLOCATION_LOGIC_RX", logic),
            ("VMA_RING_MIGRATION_RATIO_RX", "10"),
            ("VMA_SELECT_POLL", "100000"),
        ];
        let reception = received_by_rings(&pair, &program, &environment, moves);
        let queues: Vec<_> = reception.rings.iter().map(|ring| ring.queues).collect();
        assert_eq!(queues, [1; QUEUES as usize], "logic {logic}");
        assert_eq!(reception.cpus, vec![cpus; sockets], "logic {logic}");
        let have_migrated = reception.migrations.iter().filter(|it| **it > 0).count();
        let expected = if may_migrate { sockets } else { 0 };
        assert_eq!(
            have_migrated, expected,
            "logic {logic}: {:?}",
            reception.migrations
        );
    }
}

/// What threads and descendants do with sockets that have rings of their own.
#[test]
#[ignore = "takes a minute"]
fn programs_behave_as_on_the_kernel() {
    let pair = or_skip!(Namespaces::new().queues(QUEUES).create());
    let comparison = Comparison::over(pair);
    let variants = [
        (
            "rings of threads",
            &[
                ("VMA_RING_ALLOCATION_LOGIC_TX", "20"),
                ("VMA_RING_ALLOCATION_LOGIC_RX", "20"),
            ][..],
        ),
        (
            "rings of sockets, sleeping at once",
            &[
                ("VMA_RING_ALLOCATION_LOGIC_TX", "10"),
                ("VMA_RING_ALLOCATION_LOGIC_RX", "10"),
                ("VMA_RX_POLL", "0"),
                ("VMA_SELECT_POLL", "0"),
            ],
        ),
    ];
    for (name, cases) in [("threads", &THREADS_CASES[..]), ("fork", &FORK_CASES[..])] {
        let program = c_program(name);
        for case in cases {
            comparison.assert_same(&program, &[case], &variants);
        }
    }
}
