//! Filters (seccomp(2)) that deny what the library needs: they cost acceleration, and never a
//! datagram.

#[path = "../../libvma/src/filters/calls.rs"]
mod calls;

use std::net::UdpSocket;
use std::time::Duration;

use calls::{CALLS, When};
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
    Ok(received_and_counted(arguments, mode)?.0)
}

/// The same, and how many packets came past the kernel before the filter, if it comes later, and in
/// all.
fn received_and_counted(
    arguments: &[&str],
    mode: Option<&str>,
) -> Result<(String, [u64; 2]), Skip> {
    let pair = Namespaces::pair()?;
    let program = testkit::c_program("seccomp");
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
    // Else it may never have begun.
    let is_counted = arguments[0] == "after";
    let mut packets = [0; 2];
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
        if mode.is_some() && is_counted {
            match *stage {
                "again" => packets[0] = receiver.packets(),
                "both" => packets[1] = receiver.packets(),
                _ => {}
            }
        }
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
    Ok((lines.join("\n"), packets))
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

/// What the library calls at these times.
fn library_calls(at: &[When]) -> Vec<(&'static str, libc::c_long)> {
    let listed = CALLS.iter().filter(|call| at.contains(&call.when));
    listed
        .map(|call| (call.name.strip_prefix("SYS_").unwrap(), call.number))
        .collect()
}

/// What the program and its C library call beside those.
const PROGRAMS_READS: Calls = &[
    ("brk", libc::SYS_brk),
    ("clock_gettime", libc::SYS_clock_gettime),
    ("close", libc::SYS_close),
    ("epoll_ctl", libc::SYS_epoll_ctl),
    ("fcntl", libc::SYS_fcntl),
    ("getrandom", libc::SYS_getrandom),
    ("mmap", libc::SYS_mmap),
    ("newfstatat", libc::SYS_newfstatat),
    ("recvfrom", libc::SYS_recvfrom),
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

/// Every other call ends the process.
fn arguments_of(when: &str, calls: &[(&str, libc::c_long)]) -> Vec<String> {
    let numbers = calls.iter().map(|(_, number)| number.to_string());
    [when.to_owned(), "kill".to_owned()]
        .into_iter()
        .chain(numbers)
        .collect()
}

fn as_strs(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn the_manual_page_lists_the_calls() {
    let page = include_str!("../../man/vma.7");
    let words: Vec<_> = page
        .split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'))
        .collect();
    for (name, _) in library_calls(&[When::AtFirst, When::Always, When::IfAllowed]) {
        assert!(
            words.contains(&name),
            "{name} is missing in the manual page"
        );
    }
}

/// The table, taken at its word: the program stays accelerated, and no other call is made.
#[test]
fn a_filter_that_kills_needs_no_more_than_the_manual_page_says() {
    panic_unless_paused(|| {
        for (when, at) in [
            ("after", &[When::Always][..]),
            ("before", &[When::AtFirst, When::Always]),
        ] {
            let expected = or_skip!(received(&[when, "1", "nothing"], None));
            let arguments = arguments_of(when, &[&library_calls(at), PROGRAMS_OWN].concat());
            for mode in ["generic", "native"] {
                let seen = or_skip!(received_and_counted(&as_strs(&arguments), Some(mode)));
                assert_eq!(expected, seen.0, "{when}");
                let [first, all] = seen.1;
                let is_expected = all > first + 3 * DATAGRAMS as u64 && first > 0;
                assert!(is_expected || when == "before", "{when}: {first}, {all}");
            }
        }
    });
}

/// With any one of them missing, everything is the kernel's before the filter is in force: the
/// program needs none but its own.
#[test]
fn a_filter_that_kills_without_one_of_the_calls_finds_the_library_gone() {
    panic_unless_paused(|| {
        let expected = or_skip!(received(&["after", "1", "nothing"], None));
        let is_gone = |when: &str, calls: &[(&str, libc::c_long)], missing: &str| {
            let arguments = arguments_of(when, calls);
            let (seen, [first, all]) = received_and_counted(&as_strs(&arguments), Some("auto"))?;
            assert_eq!(expected, seen, "{when}, without {missing}");
            assert_eq!(first, all, "{when}, without {missing}");
            assert!(
                first > 0 || when == "before",
                "not accelerated before the filter"
            );
            Ok::<(), Skip>(())
        };
        for (when, missing) in [
            ("after", "bpf"),
            ("after", "sched_yield"),
            ("after", "getsockopt"),
            ("before", "bpf"),
            ("before", "clone3"),
        ] {
            let mut calls = library_calls(&[When::AtFirst, When::Always]);
            calls.retain(|(name, _)| *name != missing);
            or_skip!(is_gone(when, &[&calls[..], PROGRAMS_OWN].concat(), missing));
        }
        for when in ["after", "before"] {
            let own = [PROGRAMS_OWN, PROGRAMS_READS].concat();
            or_skip!(is_gone(when, &own, "all"));
        }
    });
}
