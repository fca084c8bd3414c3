//! `VMA_EXCEPTION_HANDLING`: what becomes of requests that only the kernel can fulfil, and of a
//! library that cannot start.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{Finished, Namespaces, Pair, Running, SOON, or_skip, preloaded, preloaded_in_place};

/// Requests that only the kernel can fulfil: the case, the call in it, and the library's words.
const REQUESTS: [(&str, &str, &str); 4] = [
    (
        "peek_offset",
        "setsockopt",
        "unimplemented setsockopt level=0x1, optname=0x2a (SO_PEEK_OFF)",
    ),
    (
        "signals_by_fcntl",
        "fcntl",
        "unimplemented fcntl or ioctl for O_ASYNC",
    ),
    (
        "signals_by_ioctl",
        "ioctl",
        "unimplemented fcntl or ioctl for O_ASYNC",
    ),
    ("more_to_come", "send", "unimplemented flag MSG_MORE"),
];

fn program() -> PathBuf {
    testkit::c_program("exceptions")
}

fn finish(mut command: Command, mode: &str) -> Finished {
    command
        .env("VMA_EXCEPTION_HANDLING", mode)
        .env("VMA_TRACELEVEL", "debug");
    Running::start(command).unwrap().wait(SOON).unwrap()
}

fn run(pair: &Pair, case: &str, mode: &str) -> Finished {
    let mut command = preloaded(&pair.b, &program()).unwrap();
    command.arg(case);
    finish(command, mode)
}

fn bare(pair: &Pair, case: &str) -> Finished {
    let mut command = pair.b.command(program());
    command.arg(case);
    Running::start(command).unwrap().wait(SOON).unwrap()
}

#[test]
fn the_kernel_fulfils_requests_and_has_the_socket_back() {
    let pair = or_skip!(Namespaces::pair());
    for (case, _, words) in REQUESTS {
        let expected = bare(&pair, case);
        for (mode, level) in [
            ("-2", "DEBUG"),
            ("-1", "DEBUG"),
            ("0", "DEBUG"),
            ("1", "ERROR"),
        ] {
            let seen = run(&pair, case, mode);
            assert_eq!(
                (seen.status, &seen.stdout),
                (expected.status, &expected.stdout)
            );
            let said = format!(" VMA {level}: fd 3: {words}");
            assert_eq!(
                seen.stderr.matches(&said).count(),
                1,
                "{case} {mode}: {}",
                seen.stderr
            );
            assert_eq!(
                seen.stderr.matches(" VMA ERROR: ").count(),
                usize::from(mode == "1")
            );
            let back = seen.stderr.contains("fd 3: back to the kernel: ");
            assert!(back, "{case} {mode}: {}", seen.stderr);
        }
    }
}

#[test]
fn requests_can_be_refused() {
    let pair = or_skip!(Namespaces::pair());
    for (case, call, words) in REQUESTS {
        let seen = run(&pair, case, "2");
        let failed = format!("{call}: -1 EINVAL\n");
        assert!(seen.stdout.starts_with(&failed), "{case}: {}", seen.stdout);
        assert!(
            !seen.stdout.contains(": 1\n") && seen.status.success(),
            "{}",
            seen.stdout
        );
        let said = format!(" VMA ERROR: fd 3: {words}: refused\n");
        assert!(seen.stderr.contains(&said), "{case}: {}", seen.stderr);
        assert!(
            seen.stderr.contains(": offloaded"),
            "{case}: {}",
            seen.stderr
        );
        assert!(
            !seen.stderr.contains("back to the kernel"),
            "{case}: {}",
            seen.stderr
        );
    }
}

#[test]
fn requests_can_end_the_program() {
    let pair = or_skip!(Namespaces::pair());
    for (case, _, words) in REQUESTS {
        let seen = run(&pair, case, "3");
        assert_eq!(
            seen.status.signal(),
            Some(libc::SIGABRT),
            "{case}: {seen:?}"
        );
        assert_eq!(seen.stdout, "", "{case}");
        let said = format!(" VMA ERROR: fd 3: {words}: the program ends\n");
        assert!(seen.stderr.contains(&said), "{case}: {}", seen.stderr);
    }
}

#[test]
fn what_is_supported_is_no_exception() {
    let pair = or_skip!(Namespaces::pair());
    let expected = bare(&pair, "ordinary");
    assert!(expected.status.success(), "{expected:?}");
    for mode in ["-2", "-1", "0", "1", "2", "3"] {
        let seen = run(&pair, "ordinary", mode);
        assert_eq!(
            (seen.status, &seen.stdout),
            (expected.status, &expected.stdout),
            "{mode}"
        );
        assert!(
            !seen.stderr.contains("VMA ERROR"),
            "{mode}: {}",
            seen.stderr
        );
        assert!(
            seen.stderr.contains("fd 3: 10.77.0.2:"),
            "{mode}: {}",
            seen.stderr
        );
        assert!(
            !seen.stderr.contains("fd 3: back to the kernel"),
            "{mode}: {}",
            seen.stderr
        );
    }
    // What the kernel does not know either.
    for mode in ["-1", "1"] {
        let seen = run(&pair, "unknown_option", mode);
        assert_eq!(
            seen.stdout,
            "setsockopt: -1 ENOPROTOOPT\nend of unknown_option\n"
        );
        assert!(
            !seen.stderr.contains("unimplemented"),
            "{mode}: {}",
            seen.stderr
        );
    }
}

#[test]
fn a_library_that_cannot_start_leaves_the_program_to_the_kernel_or_ends_it() {
    for (mode, code) in [("-1", 0), ("-2", 255)] {
        let mut command = preloaded_in_place(&program()).unwrap();
        command.arg("no_descriptors");
        let seen = finish(command, mode);
        assert_eq!(seen.status.code(), Some(code), "{mode}: {seen:?}");
        let cause = "the network configuration cannot be read: ";
        let said = if mode == "-2" {
            format!(" VMA ERROR: vma failed to start: {cause}")
        } else {
            assert_eq!(seen.stdout, "socket: 0\nend of no_descriptors\n");
            format!(" VMA WARNING: nothing is accelerated: {cause}")
        };
        assert!(seen.stderr.contains(&said), "{mode}: {}", seen.stderr);
    }
}

#[test]
fn an_interface_that_cannot_be_opened_ends_a_program_that_needs_it() {
    let pair = or_skip!(Namespaces::pair());
    for (mode, code) in [("-1", 0), ("-2", 255)] {
        let mut command = preloaded(&pair.b, Path::new("setpriv")).unwrap();
        command
            .args(["--reuid", "65534", "--clear-groups"])
            .arg(program())
            .arg("binds");
        let seen = finish(command, mode);
        assert_eq!(seen.status.code(), Some(code), "{mode}: {seen:?}");
        let words = "vma failed to start: no interface could be opened\n";
        assert_eq!(seen.stderr.contains(words), mode == "-2", "{}", seen.stderr);
        assert!(
            seen.stderr
                .contains(" VMA WARNING: vb is not accelerated: "),
            "{}",
            seen.stderr
        );
        assert!(
            seen.stdout.ends_with("exit handler\n"),
            "{mode}: {}",
            seen.stdout
        );
        assert_eq!(seen.stdout.contains("bound\n"), mode == "-1");
    }
    // Where it can be opened nothing ends.
    let seen = run(&pair, "binds", "-2");
    assert!(seen.status.success(), "{seen:?}");
}
