//! What the library costs a program that has no use for it, and one that sleeps.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::{Accelerated, Namespaces, Pair, Running, SOON, or_skip, preloaded};

/// What the library may add to a program that has no use for it. Without optimisation it is loaded
/// for longer.
fn more_max() -> Duration {
    Duration::from_millis(if testkit::libvma_is_optimised() { 1 } else { 3 })
}
/// Ways to run each program, interleaved.
const ROUNDS: usize = 60;

/// What a program takes of a processor from start to end, standard streams closed. A busy machine
/// adds to the time that passes, and little to this.
#[expect(clippy::zombie_processes, reason = "wait4 waits")]
fn run_time(command: &mut Command) -> Duration {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let mut status = 0;
    // SAFETY: all-zero is a value of this struct of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the status and the usage of this child, which nobody else waits
    // for.
    let pid = unsafe { libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage) };
    assert_eq!(pid, child.id().cast_signed());
    assert_eq!(status, 0, "{command:?}");
    let time = |time: libc::timeval| {
        let seconds = Duration::from_secs(time.tv_sec.cast_unsigned());
        seconds + Duration::from_micros(time.tv_usec.cast_unsigned())
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// The value below which a third of the samples lie: what a busy machine adds falls on few of the
/// fast ones.
fn lower_third(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 3]
}

#[test]
fn programs_without_sockets_start_as_fast() {
    let _turn = crate::turn();
    let library = testkit::libvma_path().unwrap();
    let programs: [(&str, &[&str]); 3] = [("true", &[]), ("ls", &["/"]), ("bash", &["-c", ":"])];
    for (program, arguments) in programs {
        // Machines are busy at times: one quiet measurement of several is enough to show what it
        // costs.
        let mut seen = Vec::new();
        for _ in 0..10 {
            let (mut bare, mut with_library) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let mut command = Command::new(program);
                bare.push(run_time(command.args(arguments)));
                let mut command = Command::new(program);
                with_library.push(run_time(
                    command.args(arguments).env("LD_PRELOAD", &library),
                ));
            }
            seen.push(lower_third(with_library).saturating_sub(lower_third(bare)));
            if seen.last() < Some(&more_max()) {
                break;
            }
        }
        println!("{program}: {seen:?} more");
        assert!(
            seen.last() < Some(&more_max()),
            "{program} takes {seen:?} longer"
        );
    }
}

#[test]
fn programs_without_sockets_print_the_same_and_open_nothing() {
    let _turn = crate::turn();
    let library = testkit::libvma_path().unwrap();
    let programs: [(&str, &[&str]); 4] = [
        ("true", &[]),
        ("ls", &["/"]),
        // Its descriptors: those of the standard streams and of the directory.
        ("ls", &["/proc/self/fd"]),
        (
            "bash",
            &["-c", "echo out; echo err >&2; ls /proc/self/fd; exit 3"],
        ),
    ];
    for (program, arguments) in programs {
        let output = |command: &mut Command| command.args(arguments).output().unwrap();
        let bare = output(&mut Command::new(program));
        let with_library = output(Command::new(program).env("LD_PRELOAD", &library));
        assert_eq!(bare, with_library, "{program} {arguments:?}");
    }
}

/// Threads of a process, its open descriptors that are neither files nor pipes, and whether `vb`
/// has an XDP program.
#[test]
fn a_program_that_waits_has_no_thread_and_no_device() {
    let _turn = crate::turn();
    let pair = or_skip!(Namespaces::pair());
    let mut command = preloaded(&pair.b, Path::new("cat")).unwrap();
    command.env("VMA_TRACELEVEL", "debug");
    let mut cat = Accelerated::start(command).unwrap();
    let mut input = cat.process().stdin().unwrap();
    std::io::Write::write_all(&mut input, b"started\n").unwrap();
    assert!(cat.process().wait_for_output("started", SOON));
    let pid = cat.process().pid();
    assert_eq!(
        fs::read_dir(format!("/proc/{pid}/task")).unwrap().count(),
        1,
        "threads"
    );
    let mut bare = Running::start_interactive(pair.b.command("cat")).unwrap();
    let mut input = bare.stdin().unwrap();
    std::io::Write::write_all(&mut input, b"started\n").unwrap();
    assert!(bare.wait_for_output("started", SOON));
    let descriptors = |pid| fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    assert_eq!(descriptors(pid), descriptors(bare.pid()), "descriptors");
    let link = pair.b.ip(&["-details", "link", "show", "vb"]).unwrap();
    assert!(!link.contains("xdp"), "{link}");
    assert_eq!(cat.process().stderr(), "");
}

fn echo(environment: &[(&str, &str)]) -> Result<(Pair, Accelerated), testkit::Skip> {
    let pair = Namespaces::pair()?;
    let program = testkit::c_program("echo");
    let mut command = preloaded(&pair.b, &program).unwrap();
    command
        .args([&Pair::ADDRESS_B.to_string(), "7700"])
        .envs(environment.iter().copied());
    let mut echo = Accelerated::start(command).unwrap();
    assert!(
        echo.process().wait_for_output("ready", SOON),
        "{}",
        echo.process().stderr()
    );
    let socket = pair
        .a
        .enter(|| std::net::UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    for _ in 0..1000 {
        socket.send_to(&[0; 64], (Pair::ADDRESS_B, 7700)).unwrap();
        socket.recv(&mut [0; 64]).unwrap();
    }
    assert!(echo.packets() > 1900, "{:?}", echo.sockets());
    Ok((pair, echo))
}

#[test]
fn memory_after_the_first_socket_is_small() {
    let _turn = crate::turn();
    let (_pair, mut echo) = or_skip!(echo(&[]));
    let pid = echo.process().pid();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident_kib: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .and_then(|number| number.parse().ok())
        .unwrap();
    println!("resident: {resident_kib} KiB");
    assert!(resident_kib < 32 * 1024, "{resident_kib} KiB");
}

/// User and system time of a process, in clock ticks.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    // Fields 14 and 15 of proc(5); the third is the first after the name.
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_sleeping_process_uses_no_processor() {
    let _turn = crate::turn();
    let (pair, mut echo) = or_skip!(echo(&[]));
    let pid = echo.process().pid();
    // It polls for a while first.
    std::thread::sleep(Duration::from_millis(1500));
    let ticks_of_two_seconds = || {
        let before = cpu_ticks(pid);
        std::thread::sleep(Duration::from_secs(2));
        cpu_ticks(pid) - before
    };
    // A tick is ten milliseconds; the gauges' upkeep may fall on one, and a busy machine's
    // interrupts on others.
    let mut seen = Vec::new();
    while seen.len() < 5 && seen.last().is_none_or(|ticks| *ticks > 2) {
        seen.push(ticks_of_two_seconds());
    }
    assert!(
        seen.last() <= Some(&2),
        "{seen:?} ticks in two seconds each"
    );
    // It wakes when something comes.
    let socket = pair
        .a
        .enter(|| std::net::UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket.send_to(b"wake up", (Pair::ADDRESS_B, 7700)).unwrap();
    assert_eq!(socket.recv(&mut [0; 64]).unwrap(), 7);
}

#[test]
fn the_first_socket_needs_little_stack() {
    let _turn = crate::turn();
    let pair = or_skip!(Namespaces::pair());
    let program = testkit::c_program("small_stack");
    // Without optimisation everything takes several times as much.
    let bytes = if testkit::libvma_is_optimised() {
        24
    } else {
        80
    } * 1024;
    let mut command = preloaded(&pair.b, &program).unwrap();
    command.args([Pair::ADDRESS_B.to_string(), bytes.to_string()]);
    let finished = Running::start(command).unwrap().wait(SOON).unwrap();
    assert_eq!(finished.stdout, "bound: 0\n", "{finished:?}");
}
