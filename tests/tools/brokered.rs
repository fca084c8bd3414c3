//! `vma-run --broker`: the processes of a program share an interface.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use testkit::{
    Namespaces, Pair, Running, SOON, eventually, libvma_path, needs, or_skip, preloaded,
    statistics_directory, tool,
};

const PORTS: [u16; 2] = [7421, 7422];
/// A broker goes on for ten seconds, and so does the interface.
const ENDS: Duration = Duration::from_secs(90);
const SIGTERM: i32 = 15;

/// Two servers in one shell, as a user starts them.
fn start(pair: &Pair, wish: &str) -> Running {
    // It is looked for beside vma-run.
    let daemon = tool("vmad", "vmad").unwrap();
    let vma_run = tool("vma-run", "vma-run").unwrap();
    assert_eq!(daemon.parent(), vma_run.parent());
    let mut command = preloaded(&pair.b, &vma_run).unwrap();
    command.env_remove("LD_PRELOAD").env_remove("VMA_BROKER");
    command.args(["--broker", wish, "--library"]);
    command.arg(libvma_path().unwrap());
    let echo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vmad/tests/broker/echo.py");
    let server = |port| format!("python3 {} {} {port}", echo.display(), Pair::ADDRESS_B);
    let [first, second] = PORTS.map(server);
    let script = format!(
        "trap 'kill $first $second' TERM; {first} & first=$!; {second} & second=$!; wait; wait"
    );
    command.args(["sh", "-c", &script]);
    Running::start(command).unwrap()
}

/// Whether a datagram comes back.
fn answers(pair: &Pair, port: u16) -> bool {
    pair.a.enter(|| {
        let socket = UdpSocket::bind((Pair::ADDRESS_A, 0)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        socket.connect((Pair::ADDRESS_B, port)).unwrap();
        socket.send(b"x").is_ok() && socket.recv(&mut [0; 8]).is_ok()
    })
}

/// The ports of datagram sockets past the kernel, and of how many processes they are.
fn offloaded() -> (BTreeSet<u16>, usize) {
    let directory = statistics_directory();
    let listing = stats::list_directory(&directory).unwrap();
    let (mut ports, mut processes) = (BTreeSet::new(), BTreeSet::new());
    for process in &listing.live {
        let reader = stats::Reader::open(&directory, process.pid);
        let sockets = reader.and_then(|it| it.sockets()).unwrap_or_default();
        let ours = sockets
            .iter()
            .filter(|it| it.offloaded && it.protocol == stats::PROTOCOL_UDP);
        for port in ours.filter_map(|it| Some(it.local?.port())) {
            if PORTS.contains(&port) {
                ports.insert(port);
                processes.insert(process.pid);
            }
        }
    }
    (ports, processes.len())
}

/// The brokers that were started for a process.
fn brokers_of(pid: u32) -> Vec<PathBuf> {
    let has_it = |place: &PathBuf| {
        let line = fs::read(place.join("cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|octet| *octet == 0).collect();
        words.contains(&&b"--broker-for"[..]) && words.contains(&pid.to_string().as_bytes())
    };
    let places = fs::read_dir("/proc").unwrap();
    let places = places.filter_map(|entry| Some(entry.ok()?.path()));
    places.filter(has_it).collect()
}

/// Each counts all processes with these ports.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn processes_share_an_interface_by_a_broker_that_ends_with_them() {
    let _turn = turn();
    or_skip!(needs::require(&["python3"]));
    if Path::new("/run/vma/vmad.sock").exists() {
        return;
    }
    let pair = or_skip!(Namespaces::pair());
    let program = start(&pair, "yes");
    let pid = program.pid();
    let mut seen = (BTreeSet::new(), 0);
    let is_shared = eventually(SOON, || {
        let is_answered = PORTS.iter().all(|port| answers(&pair, *port));
        seen = offloaded();
        is_answered && seen.0.len() == PORTS.len()
    });
    assert!(is_shared, "{seen:?} {}", program.stderr());
    assert_eq!(seen.1, 2, "of two processes");
    assert_eq!(brokers_of(pid).len(), 1);
    let directory = PathBuf::from(format!("/run/vma-run.{pid}.0"));
    assert!(directory.join("vmad.sock").exists());
    // It is not the program's child, which would wait for it.
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    assert_eq!(children.split_whitespace().count(), 2, "{children}");

    let ended = program.stop(SIGTERM, SOON).unwrap();
    assert!(eventually(ENDS, || brokers_of(pid).is_empty()), "{ended:?}");
    assert!(!directory.exists());
}

#[test]
fn without_one_the_second_process_is_the_kernels() {
    let _turn = turn();
    or_skip!(needs::require(&["python3"]));
    let pair = or_skip!(Namespaces::pair());
    let program = start(&pair, "no");
    let all_answer = || PORTS.iter().all(|port| answers(&pair, *port));
    assert!(eventually(SOON, all_answer), "{}", program.stderr());
    assert!(brokers_of(program.pid()).is_empty());
    assert!(offloaded().1 <= 1);
    program.stop(SIGTERM, SOON).unwrap();
}

#[test]
fn without_the_rights_yes_is_an_error_and_auto_is_not() {
    let vma_run = tool("vma-run", "vma-run").unwrap();
    let run = |wish: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--inh-caps=-all", "--bounding-set=-all"]);
        command.arg(&vma_run).args(["--broker", wish, "--library"]);
        command.arg(libvma_path().unwrap()).args(["echo", "ran"]);
        command.env_remove("VMA_BROKER").output().unwrap()
    };
    let refused = run("yes");
    assert_eq!(refused.status.code(), Some(126), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("CAP_"));
    let went_on = run("auto");
    assert_eq!(went_on.stdout, b"ran\n", "{went_on:?}");
    assert!(String::from_utf8_lossy(&went_on.stderr).contains("no broker is started"));
}
