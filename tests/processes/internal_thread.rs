//! Where the internal thread runs, and how long a call that joins a group takes, as parameters say.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use testkit::{Accelerated, Namespaces, Pair, SOON, echo_streams, eventually, or_skip, preloaded};

/// A socket past the kernel; how long it took to join a group with it, in milliseconds.
const SCRIPT: &str = r"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 7001))
begun = time.monotonic()
group = socket.inet_aton('239.1.2.4') + socket.inet_aton(sys.argv[1])
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
print('joined', int((time.monotonic() - begun) * 1000), flush=True)
sys.stdin.read()
";

fn start(pair: &Pair, environment: &[(&str, &str)]) -> Accelerated {
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command
        .args(["-c", SCRIPT, &Pair::ADDRESS_B.to_string()])
        .envs(environment.iter().copied());
    let mut program = Accelerated::start(command).unwrap();
    let process = program.process();
    let has_joined = eventually(SOON, || process.stdout().ends_with('\n'));
    assert!(has_joined, "{}", process.stderr());
    program
}

/// The directory of the internal thread in `/proc`.
fn internal_thread(program: &mut Accelerated) -> PathBuf {
    let tasks = format!("/proc/{}/task", program.process().pid());
    let is_internal = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "vma-internal")
    };
    let mut found = None;
    let runs = eventually(SOON, || {
        let threads = fs::read_dir(&tasks).unwrap().flatten();
        found = threads.map(|it| it.path()).find(is_internal);
        found.is_some()
    });
    assert!(runs, "there is no internal thread");
    found.unwrap()
}

/// `Cpus_allowed_list` of the internal thread, as soon as it is that.
fn runs_on(program: &mut Accelerated, cpus: &str) -> bool {
    let status = internal_thread(program).join("status");
    let expected = format!("Cpus_allowed_list:\t{cpus}");
    eventually(Duration::from_secs(5), || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        text.lines().any(|line| line == expected)
    })
}

#[test]
fn the_internal_thread_runs_where_it_is_told_to() {
    let pair = or_skip!(Namespaces::pair());
    for (asked, cpus) in [("0", "0"), ("0x2", "1"), ("1,0-1", "0-1")] {
        let mut program = start(&pair, &[("VMA_INTERNAL_THREAD_AFFINITY", asked)]);
        assert!(runs_on(&mut program, cpus), "{asked}");
    }
    // With others it runs where it can; the program's own thread is nobody's business.
    let mut program = start(&pair, &[("VMA_INTERNAL_THREAD_AFFINITY", "1000")]);
    let process = program.process();
    let warning = "the internal thread runs on any CPU, not on [1000]";
    assert!(eventually(SOON, || process.stderr().contains(warning)));
}

#[test]
fn the_internal_thread_goes_into_a_cpuset() {
    let pair = or_skip!(Namespaces::pair());
    let directory = tempfile_directory();
    fs::write(directory.join("tasks"), "").unwrap();
    let path = directory.to_str().unwrap();
    let mut program = start(&pair, &[("VMA_INTERNAL_THREAD_CPUSET", path)]);
    let thread = internal_thread(&mut program);
    let number = thread.file_name().unwrap().to_string_lossy().into_owned();
    assert!(eventually(SOON, || {
        fs::read_to_string(directory.join("tasks")).is_ok_and(|text| text == number)
    }));
    fs::remove_file(directory.join("tasks")).unwrap();
    drop(program);
    let mut program = start(&pair, &[("VMA_INTERNAL_THREAD_CPUSET", path)]);
    let process = program.process();
    let warning = "the internal thread stays out of the cpuset";
    assert!(eventually(SOON, || process.stderr().contains(warning)));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    drop(program);
    fs::remove_dir(directory).unwrap();
}

/// Stands for a cpuset: a real one takes a control group of version 1.
fn tempfile_directory() -> PathBuf {
    let name = format!("cpuset-{}", std::process::id());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn a_call_that_joins_waits_as_it_is_told_to() {
    let pair = or_skip!(Namespaces::pair());
    let took = |environment| {
        let mut program = start(&pair, environment);
        let output = program.process().stdout();
        let msec = output.trim().strip_prefix("joined ").unwrap();
        msec.parse::<u32>().unwrap()
    };
    let usual = took(&[]);
    let waited = took(&[("VMA_WAIT_AFTER_JOIN_MSEC", "300")]);
    assert!((300..1300).contains(&waited), "{waited} ms");
    assert!(usual < 300, "{usual} ms");
}

/// How often the internal thread has gone to sleep.
fn sleeps(program: &mut Accelerated) -> u64 {
    let status = fs::read_to_string(internal_thread(program).join("status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn rings_that_nobody_polls_are_drained_as_often_as_is_asked_for() {
    const INTERVAL: &str = "VMA_PROGRESS_ENGINE_INTERVAL";
    const MAX: &str = "VMA_PROGRESS_ENGINE_WCE_MAX";
    const EACH: &str = "VMA_INTERNAL_THREAD_ARM_CQ";
    let pair = or_skip!(Namespaces::pair());
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    let cases: [(&[_], bool); 5] = [
        (&[], true),
        (&[(INTERVAL, "0")], false),
        (&[(MAX, "0")], false),
        (&[(INTERVAL, "0"), (EACH, "1")], true),
        (&[(INTERVAL, "50")], true),
    ];
    for (environment, is_drained) in cases {
        let mut program = start(&pair, environment);
        for _ in 0..3 {
            sender.send_to(b"x", (Pair::ADDRESS_B, 7001)).unwrap();
        }
        let has_come = || program.received_by_rings() >= 3;
        let patience = Duration::from_millis(if is_drained { 10_000 } else { 300 });
        assert_eq!(
            eventually(patience, has_come),
            is_drained,
            "{environment:?}"
        );
        if environment.is_empty() {
            // It does not look a hundred times a second at a ring to which nothing comes.
            thread::sleep(Duration::from_millis(1500));
            let before = sleeps(&mut program);
            thread::sleep(Duration::from_secs(1));
            let after = sleeps(&mut program);
            assert!(after - before < 20, "{}", after - before);
        }
    }
}

/// A stream that sends once. The first segments are acknowledged at once, within the call that
/// sends.
const SENDING: &str = r"
import socket, sys
s = socket.create_connection((sys.argv[1], 7002))
s.send(b'x')
print('sent', flush=True)
sys.stdin.read()
";

#[test]
fn sending_receives_acknowledgements_if_it_is_asked_to() {
    let pair = or_skip!(Namespaces::pair());
    echo_streams(&pair.a, Pair::ADDRESS_A, 7002).unwrap();
    let packets = |is_asked| {
        let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
        let peer = Pair::ADDRESS_A.to_string();
        command.args(["-c", SENDING, &peer]).envs([
            ("VMA_RX_POLL_ON_TX_TCP", is_asked),
            ("VMA_PROGRESS_ENGINE_INTERVAL", "0"),
        ]);
        let mut program = Accelerated::start(command).unwrap();
        assert!(says(&mut program, "sent"));
        program.received_by_rings()
    };
    // On a busy machine the acknowledgement is late, or a timer has taken it, now and then.
    let has_effect = (0..8).any(|_| packets("0") == 1 && packets("1") == 2);
    assert!(
        has_effect,
        "the handshake's answer, and the acknowledgement"
    );
}

/// Waits for a line. The banner, in standard error, has the program's text.
fn says(program: &mut Accelerated, line: &str) -> bool {
    let process = program.process();
    eventually(SOON, || process.stdout().lines().any(|it| it == line))
}

/// Waits with each call until an octet comes by standard input.
const WAITING: &str = r"
import select, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 7001))
poll = select.epoll()
poll.register(s, select.EPOLLIN)
poll.register(sys.stdin, select.EPOLLIN)
print('waits', flush=True)
while (sys.stdin.fileno(), select.EPOLLIN) not in poll.poll(0.3):
    pass
";

#[test]
fn the_share_of_polling_is_measured_if_it_is_asked_for() {
    let pair = or_skip!(Namespaces::pair());
    for is_asked in ["0", "1"] {
        let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
        command
            .args(["-c", WAITING])
            .envs([("VMA_CPU_USAGE_STATS", is_asked), ("VMA_SELECT_POLL", "-1")]);
        let mut program = Accelerated::start(command).unwrap();
        assert!(says(&mut program, "waits"));
        let share = || {
            let rows = program.reader().multiplexers().unwrap();
            rows.iter().map(|row| row.polling_cpu).max().unwrap_or(0)
        };
        if is_asked == "1" {
            assert!(eventually(SOON, || share() > 50), "{} percent", share());
        } else {
            assert_eq!(share(), 0);
        }
    }
}
