//! Processes with the library where no daemon runs: vmad, which it starts for each of them, resets
//! what a killed one leaves.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Pair, Running, Skip, or_skip, preloaded};

use crate::accelerated::{ACCEPTED, WAITING, running, wait_for, watches};
use crate::lab::{Lab, Outcome};
use crate::{AT_ONCE, SIGKILL};

const CONNECTIONS: usize = 100;
const SIGTERM: i32 = 15;
const SOON: Duration = Duration::from_secs(30);

/// Where there is none, the service may serve this machine.
fn lab() -> Result<Lab, Skip> {
    let daemon = UnixDatagram::unbound().unwrap();
    if daemon.connect("/var/run/vma_agent.sock").is_ok() {
        return Err(Skip::new("a daemon serves this machine"));
    }
    Lab::alone()
}

/// Where the kernel shows the guardian of a process, if there is one.
fn guardian_of(pid: u32) -> Option<PathBuf> {
    let argument = format!("--guard={pid}");
    let has_it = |place: &Path| {
        let line = fs::read(place.join("cmdline")).unwrap_or_default();
        line.split(|&octet| octet == 0)
            .any(|word| word == argument.as_bytes())
    };
    let places = fs::read_dir("/proc").unwrap();
    let mut places = places.filter_map(|entry| Some(entry.ok()?.path()));
    places.find(|place| has_it(place))
}

fn descriptors(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place.join("fd")).into_iter().flatten();
    let names = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    names.map(|name| name.display().to_string()).collect()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < SOON, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until it waits for the end of the process.
fn guarded(process: &Running) -> PathBuf {
    until("there is no guardian", || {
        let place = guardian_of(process.pid())?;
        let waits = descriptors(&place).contains(&"anon_inode:[pidfd]".to_owned());
        waits.then_some(place)
    })
}

fn await_end_of(place: &Path) {
    until("the guardian does not end", || {
        (!place.exists()).then_some(())
    });
}

/// Tried again where others needed the CPUs at that moment.
fn reset_at_once(attempt: impl Fn(&Lab) -> (Outcome, usize)) {
    let lab = or_skip!(lab());
    let once = || {
        let (Outcome { reset, last }, count) = attempt(&lab);
        if reset < count || last > AT_ONCE {
            return Err(format!(
                "{reset} of {count} were reset, the last after {last:?}"
            ));
        }
        Ok(())
    };
    let attempts = (0..3).map(|_| testkit::retry_if_paused(once));
    let failures: Vec<String> = attempts.map_while(Result::err).collect();
    assert!(failures.len() < 3, "{failures:#?}");
}

#[test]
fn peers_of_a_killed_client_are_reset_at_once() {
    reset_at_once(|lab| {
        let mut peers = lab.listen();
        let mut client = running(lab, "hold", peers.address(), CONNECTIONS, &[]);
        wait_for(&mut client, "ready");
        peers.accept(CONNECTIONS);
        let guardian = guarded(&client);
        client.signal(SIGKILL).unwrap();
        let outcome = peers.wait_for_resets(Duration::from_secs(5));
        await_end_of(&guardian);
        (outcome, CONNECTIONS)
    });
}

#[test]
fn peers_of_a_killed_server_are_reset_at_once() {
    reset_at_once(|lab| {
        let address = SocketAddr::from((Pair::ADDRESS_A, 7902));
        let mut server = running(lab, "listen", address, ACCEPTED, &[]);
        wait_for(&mut server, "listens");
        let mut peers = lab.connect(address, ACCEPTED + WAITING);
        wait_for(&mut server, "ready");
        guarded(&server);
        server.signal(SIGKILL).unwrap();
        let outcome = peers.wait_for_resets(Duration::from_secs(5));
        (outcome, ACCEPTED + WAITING)
    });
}

#[test]
fn a_process_that_ends_well_needs_no_reset() {
    let lab = or_skip!(lab());
    let address = SocketAddr::from((Pair::ADDRESS_B, 7957));
    let listener = lab.pair().b.enter(|| TcpListener::bind(address).unwrap());
    let mut client = running(&lab, "hold", address, 1, &[]);
    wait_for(&mut client, "ready");
    let mut peer = listener.accept().unwrap().0;
    let guardian = guarded(&client);
    client.signal(SIGTERM).unwrap();
    let mut all = Vec::new();
    peer.set_read_timeout(Some(SOON)).unwrap();
    assert_eq!(peer.read_to_end(&mut all).unwrap(), 5);
    await_end_of(&guardian);
    assert_eq!(lab.files(), [] as [String; 0]);
}

/// Whatever stops a service stops all its processes; a terminal does that, too.
#[test]
fn it_outlives_what_ends_the_program() {
    let lab = or_skip!(lab());
    let mut peers = lab.listen();
    let mut client = running(&lab, "hold", peers.address(), 5, &[]);
    wait_for(&mut client, "ready");
    peers.accept(5);
    let guardian = guarded(&client);
    let pid = guardian.file_name().unwrap().to_str().unwrap().parse();
    let pid = Pid::from_raw(pid.unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    thread::sleep(Duration::from_millis(100));
    client.signal(SIGKILL).unwrap();
    assert_eq!(peers.wait_for_resets(Duration::from_secs(5)).reset, 5);
}

#[test]
fn the_program_does_not_see_it() {
    const CLIENT: &str = "import socket, os, glob, time\n\
        made = os.pipe()\n\
        kept = socket.create_connection(('10.77.0.2', 7956))\n\
        print('connected', flush=True); input()\n\
        try: print('child', os.waitpid(-1, os.WNOHANG))\n\
        except ChildProcessError: print('no child')\n\
        print([open(f).read() for f in glob.glob('/proc/self/task/*/children') if open(f).read()])\n\
        os.close(made[1]); print(os.read(made[0], 1), flush=True); time.sleep(60)";
    let lab = or_skip!(lab());
    let listener = lab
        .pair()
        .b
        .enter(|| TcpListener::bind((Pair::ADDRESS_B, 7956)).unwrap());
    let mut command = preloaded(&lab.pair().a, Path::new("python3")).unwrap();
    command
        .env("VMA_STATS_SHMEM_DIR", lab.directory())
        .args(["-c", CLIENT]);
    let mut client = Running::start_interactive(command).unwrap();
    wait_for(&mut client, "connected");
    let _peer = listener.accept().unwrap();
    let guardian = guarded(&client);
    let own = descriptors(&guardian);
    let is_own = |name: &String| {
        name == "/dev/null"
            || name.starts_with("socket:")
            || name.starts_with("anon_inode:[event")
            || name == "anon_inode:[pidfd]"
            || name.contains("vmastat.")
    };
    assert!(own.iter().all(is_own), "{own:?}");
    let comm = fs::read_to_string(guardian.join("comm")).unwrap();
    assert_eq!(comm, "vma-guardian\n");
    until("it keeps the program's directory", || {
        let directory = fs::read_link(guardian.join("cwd")).ok()?;
        (directory == Path::new("/")).then_some(())
    });
    client.stdin().unwrap().write_all(b"\n").unwrap();
    wait_for(&mut client, "b''");
    assert!(
        client.stdout().contains("no child\n[]\n"),
        "{}",
        client.stdout()
    );
    client.signal(SIGKILL).unwrap();
    await_end_of(&guardian);
}

/// A daemon of the host's that sees a container's statistics can send nothing from there: it says
/// so, and the guardian is not left out on its account.
#[test]
fn a_daemon_of_another_network_namespace_is_no_reason_to_have_no_guardian() {
    let lab = or_skip!(lab());
    let mut daemon = lab.daemon_elsewhere();
    // So that the status is there.
    lab.status(&daemon);
    let mut peers = lab.listen();
    let mut client = running(&lab, "hold", peers.address(), 10, &[("VMA_GUARDIAN", "0")]);
    wait_for(&mut client, "ready");
    peers.accept(10);
    watches(&lab, &daemon, &client);
    let mut guardian = lab.guardian(client.pid());
    guarded(&client);
    assert_eq!(guardian.status().unwrap(), None, "{}", guardian.stdout());
    client.signal(SIGKILL).unwrap();
    let outcome = peers.wait_for_resets(Duration::from_secs(5));
    assert_eq!(outcome.reset, 10);
    wait_for(&mut daemon, "left 10 connections in a network namespace");
    let status = lab.status(&daemon);
    assert_eq!(lab.counter(&status, "in other namespaces"), 10, "{status}");
}
