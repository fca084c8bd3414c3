//! Filters (seccomp(2)) that deny what the library needs: they cost acceleration, and never a datagram.

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use testkit::{Accelerated, Namespaces, Pair, Skip, or_skip, panic_unless_paused, preloaded};

const TIMEOUT: Duration = Duration::from_secs(60);
const PORT: u16 = 7830;
const DATAGRAMS: usize = 10;

/// Each stage of the program, and the ports that it receives on, counted from the first.
const STAGES: &[(&str, &[u16])] = &[
    ("first", &[0]),
    ("again", &[0]),
    ("two", &[0, 1]),
    ("set", &[1]),
    ("third", &[0]),
    ("copy", &[0]),
    ("both", &[1, 0]),
];

/// What the program says it received. `mode`: with the library.
fn received(arguments: &[&str], mode: Option<&str>) -> Result<String, Skip> {
    let pair = Namespaces::pair()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/seccomp.c");
    let program = testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let mut command = match mode {
        Some(mode) => {
            let mut command = preloaded(&pair.b, &program).unwrap();
            command
                .env("VMA_XDP_MODE", mode)
                // What a call polls before it sleeps is not what is looked for.
                .env("VMA_RX_POLL", "1")
                .env("VMA_SELECT_POLL", "0");
            command
        }
        None => pair.b.command(&program),
    };
    command.args([&Pair::ADDRESS_B.to_string(), &PORT.to_string()]);
    command.args(arguments);
    let mut receiver = Accelerated::start(command).unwrap();
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    for (stage, ports) in STAGES {
        let is_ready = receiver
            .process()
            .wait_for_output(&format!("ready {stage}\n"), TIMEOUT);
        assert!(
            is_ready,
            "{arguments:?}, {stage}: {}{}",
            receiver.process().stdout(),
            receiver.process().stderr()
        );
        for number in 0..DATAGRAMS {
            // Some find a receiver that sleeps.
            if number.is_multiple_of(4) {
                std::thread::sleep(Duration::from_millis(5));
            }
            for port in *ports {
                let text = format!("{number} to {port}");
                let to = (Pair::ADDRESS_B, PORT + port);
                sender.send_to(text.as_bytes(), to).unwrap();
            }
        }
        let is_accelerated = arguments[0] == "after" || arguments[1] == "kill";
        if mode.is_some() && *stage == "first" && is_accelerated {
            assert!(receiver.packets() > 0, "not accelerated before the filter");
        }
        // What comes through the kernel may be overtaken.
        std::thread::sleep(Duration::from_millis(120));
        sender
            .send_to(b"next", (Pair::ADDRESS_B, PORT + ports[0]))
            .unwrap();
    }
    let is_done = receiver.process().wait_for_output("done\n", TIMEOUT);
    assert!(is_done, "{arguments:?}: {}", receiver.process().stdout());
    let finished = receiver.into_process().wait(TIMEOUT).unwrap();
    assert!(finished.status.success(), "{arguments:?}: {finished:?}");
    let mut lines: Vec<_> = finished.stdout.lines().collect();
    lines.sort_unstable();
    Ok(lines.join("\n"))
}

const ALL_CALLS: &[&str] = &["bpf", "ppoll", "xdp"];

/// Each call refused by itself, and all of them with each error.
const REFUSALS: &[(&[&str], i32)] = &[
    (&["bpf"], libc::EPERM),
    (&["ppoll"], libc::ENOSYS),
    (&["xdp"], libc::EACCES),
    (ALL_CALLS, libc::EPERM),
    (ALL_CALLS, libc::ENOSYS),
    (ALL_CALLS, libc::EACCES),
];

fn compare(when: &str, mode: &str) {
    panic_unless_paused(|| {
        let expected = or_skip!(received(&[when, "1", "nothing"], None));
        assert_eq!(
            expected.matches(" to ").count(),
            DATAGRAMS * 9,
            "{expected}"
        );
        for (calls, error) in REFUSALS {
            let error = error.to_string();
            let arguments = [&[when, &error], *calls].concat();
            let seen = or_skip!(received(&arguments, Some(mode)));
            assert_eq!(expected, seen, "{arguments:?}");
        }
    });
}

#[test]
fn a_filter_from_the_beginning_costs_no_datagram() {
    compare("before", "auto");
}

#[test]
fn a_filter_that_comes_later_costs_no_datagram() {
    compare("after", "auto");
}

#[test]
fn a_filter_that_comes_later_costs_no_datagram_in_native_mode() {
    compare("after", "native");
}

/// Names and numbers of system calls.
type Calls = &'static [(&'static str, libc::c_long)];

/// What the manual page says that the library calls with the first socket, and on from there.
const AT_FIRST: Calls = &[
    ("bind", libc::SYS_bind),
    ("capget", libc::SYS_capget),
    ("clone3", libc::SYS_clone3),
    ("exit", libc::SYS_exit),
    ("fallocate", libc::SYS_fallocate),
    ("fchmod", libc::SYS_fchmod),
    ("flock", libc::SYS_flock),
    ("fstatfs", libc::SYS_fstatfs),
    ("ftruncate", libc::SYS_ftruncate),
    ("geteuid", libc::SYS_geteuid),
    ("getresuid", libc::SYS_getresuid),
    ("ioctl", libc::SYS_ioctl),
    ("lseek", libc::SYS_lseek),
    ("membarrier", libc::SYS_membarrier),
    ("openat", libc::SYS_openat),
    ("prctl", libc::SYS_prctl),
    ("readlinkat", libc::SYS_readlinkat),
    ("rseq", libc::SYS_rseq),
    ("rt_sigaction", libc::SYS_rt_sigaction),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("sched_setscheduler", libc::SYS_sched_setscheduler),
    ("set_robust_list", libc::SYS_set_robust_list),
    ("setsockopt", libc::SYS_setsockopt),
    ("sigaltstack", libc::SYS_sigaltstack),
    ("socket", libc::SYS_socket),
    ("statx", libc::SYS_statx),
    ("uname", libc::SYS_uname),
];
const ALWAYS: Calls = &[
    ("bpf", libc::SYS_bpf),
    ("brk", libc::SYS_brk),
    ("clock_gettime", libc::SYS_clock_gettime),
    ("clock_nanosleep", libc::SYS_clock_nanosleep),
    ("close", libc::SYS_close),
    ("dup3", libc::SYS_dup3),
    ("epoll_create1", libc::SYS_epoll_create1),
    ("epoll_ctl", libc::SYS_epoll_ctl),
    ("epoll_pwait", libc::SYS_epoll_pwait),
    ("epoll_pwait2", libc::SYS_epoll_pwait2),
    ("eventfd2", libc::SYS_eventfd2),
    ("fcntl", libc::SYS_fcntl),
    ("fstat", libc::SYS_fstat),
    ("futex", libc::SYS_futex),
    ("getpeername", libc::SYS_getpeername),
    ("getpid", libc::SYS_getpid),
    ("getrandom", libc::SYS_getrandom),
    ("getrusage", libc::SYS_getrusage),
    ("getsockname", libc::SYS_getsockname),
    ("getsockopt", libc::SYS_getsockopt),
    ("gettid", libc::SYS_gettid),
    ("madvise", libc::SYS_madvise),
    ("mmap", libc::SYS_mmap),
    ("mprotect", libc::SYS_mprotect),
    ("mremap", libc::SYS_mremap),
    ("munmap", libc::SYS_munmap),
    ("newfstatat", libc::SYS_newfstatat),
    ("ppoll", libc::SYS_ppoll),
    ("pread64", libc::SYS_pread64),
    ("prlimit64", libc::SYS_prlimit64),
    ("read", libc::SYS_read),
    ("recvfrom", libc::SYS_recvfrom),
    ("recvmsg", libc::SYS_recvmsg),
    ("rt_sigpending", libc::SYS_rt_sigpending),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask),
    ("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo),
    ("sched_yield", libc::SYS_sched_yield),
    ("sendmsg", libc::SYS_sendmsg),
    ("sendto", libc::SYS_sendto),
    ("socketpair", libc::SYS_socketpair),
    ("unlinkat", libc::SYS_unlinkat),
    ("write", libc::SYS_write),
];
/// What the program itself calls, and the C library to end it.
const PROGRAMS_OWN: Calls = &[
    ("socket", libc::SYS_socket),
    ("bind", libc::SYS_bind),
    ("setsockopt", libc::SYS_setsockopt),
    ("poll", libc::SYS_poll),
    ("epoll_create1", libc::SYS_epoll_create1),
    ("epoll_wait", libc::SYS_epoll_wait),
    ("exit_group", libc::SYS_exit_group),
    ("rt_sigreturn", libc::SYS_rt_sigreturn),
];

/// The list of the manual page, taken at its word: every other call ends the process.
#[test]
fn a_filter_that_kills_needs_no_more_than_the_manual_page_says() {
    panic_unless_paused(|| {
        let page = include_str!("../../man/vma.7");
        let words: Vec<_> = page
            .split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'))
            .collect();
        for (when, lists) in [
            ("after", [ALWAYS, PROGRAMS_OWN, &[]]),
            ("before", [AT_FIRST, ALWAYS, PROGRAMS_OWN]),
        ] {
            let expected = or_skip!(received(&[when, "1", "nothing"], None));
            let mut arguments = vec![when.to_owned(), "kill".to_owned()];
            for (name, number) in lists.concat() {
                let is_own = PROGRAMS_OWN.iter().any(|(own, _)| *own == name);
                assert!(
                    is_own || words.contains(&name),
                    "{name} is missing in the manual page"
                );
                arguments.push(number.to_string());
            }
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            for mode in ["generic", "native"] {
                let seen = or_skip!(received(&arguments, Some(mode)));
                assert_eq!(expected, seen, "{when}");
            }
        }
    });
}
