//! `VMA_HANDLE_SIGSEGV` and `VMA_HANDLE_SIGINTR`: what the library's handlers do, and that the
//! program does not see them.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{
    Finished, Namespaces, Running, SOON, or_skip, panic_unless_paused, preloaded,
    preloaded_in_place,
};

const BACKTRACE: (&str, &str) = ("VMA_HANDLE_SIGSEGV", "1");

fn program() -> PathBuf {
    testkit::c_program("handlers")
}

/// Runs a case where its core dump harms nobody.
fn run_in_own_directory(
    mut command: Command,
    case: &str,
    environment: &[(&str, &str)],
) -> Finished {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("crash-{case}-{:?}", std::thread::current().id()));
    fs::create_dir_all(&directory).unwrap();
    command.arg(case).envs(environment.iter().copied());
    let child = Running::start({
        command.current_dir(&directory);
        command
    });
    let finished = child.unwrap().wait(SOON);
    fs::remove_dir_all(directory).unwrap();
    finished.unwrap()
}

fn run(case: &str, environment: &[(&str, &str)]) -> Finished {
    run_in_own_directory(preloaded_in_place(&program()).unwrap(), case, environment)
}

fn run_bare(case: &str) -> Finished {
    run_in_own_directory(Command::new(program()), case, &[])
}

/// The lines of the backtrace, without their prefix.
fn backtrace(log: &str) -> Vec<&str> {
    log.lines()
        .filter_map(|line| line.split_once(" VMA PANIC: "))
        .map(|(_, text)| text)
        .collect()
}

#[test]
fn a_crash_is_explained_and_ends_the_process_as_without_the_library() {
    for case in [
        "crash",
        "crash_with_socket",
        "crash_of_thread",
        "sent",
        "stack_overflow",
    ] {
        let bare = run_bare(case);
        assert_eq!(bare.status.signal(), Some(libc::SIGSEGV), "{case}");
        let seen = run(case, &[BACKTRACE]);
        // With the mark of a core dump.
        assert_eq!(
            seen.status.into_raw(),
            bare.status.into_raw(),
            "{case}: {seen:?}"
        );
        assert_eq!(seen.stdout, bare.stdout);
        let lines = backtrace(&seen.stderr);
        match case {
            "stack_overflow" => assert!(lines.is_empty(), "{lines:?}"),
            "sent" => assert!(
                lines[0].starts_with("Segmentation fault: sent by process "),
                "{lines:?}"
            ),
            _ => {
                assert_eq!(
                    lines[0],
                    "Segmentation fault at address 0x10 (not mapped, si_code 1); backtrace:"
                );
                assert!(lines[1].starts_with("#0  0x"), "{lines:?}");
                let place = lines[1].split_once(" (").unwrap().1.trim_end_matches(')');
                assert_eq!(function_at(place), "crash_here", "{lines:#?}");
                let main = lines.iter().any(|line| line.contains("libc.so.6+0x"));
                assert!(lines.len() > 3 && main, "{lines:#?}");
            }
        }
        let silent = run(case, &[]);
        assert_eq!(
            silent.status.into_raw(),
            bare.status.into_raw(),
            "{case}: {silent:?}"
        );
        assert!(backtrace(&silent.stderr).is_empty(), "0 is the default");
    }
}

/// The function at `<object>+<offset>`.
fn function_at(place: &str) -> String {
    let (object, offset) = place.rsplit_once('+').unwrap();
    let output = Command::new("addr2line")
        .args(["-f", "-e", object, offset])
        .output();
    let output = output.expect("addr2line comes with the compiler");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn the_backtrace_goes_to_the_log_file() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crash.log");
    let file = ("VMA_LOG_FILE", path.to_str().unwrap());
    let seen = run(
        "crash_with_socket",
        &[BACKTRACE, file, ("VMA_LOG_DETAILS", "1")],
    );
    assert_eq!(seen.stderr, "");
    let log = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(backtrace(&log).len() > 3, "{log}");
    assert!(log.lines().all(|line| line.starts_with(" Tid: ")), "{log}");
}

#[test]
fn a_handler_of_the_program_is_used_instead() {
    let bare = run_bare("own_handler");
    assert!(bare.status.success(), "{bare:?}");
    let seen = run("own_handler", &[BACKTRACE]);
    assert_eq!(
        (seen.status, &seen.stdout),
        (bare.status, &bare.stdout),
        "{seen:?}"
    );
    assert!(backtrace(&seen.stderr).is_empty(), "{seen:?}");
    // A crash reporter that gives the signal back gets the backtrace as well.
    let bare = run_bare("own_handler_gives_up");
    let seen = run("own_handler_gives_up", &[BACKTRACE]);
    assert_eq!(
        (seen.status, &seen.stdout),
        (bare.status, &bare.stdout),
        "{seen:?}"
    );
    assert_eq!(seen.status.signal(), Some(libc::SIGSEGV));
    assert!(backtrace(&seen.stderr).len() > 3, "{seen:?}");
}

/// The directory without what a failed run has left in it.
fn fresh(directory: &Path) -> &Path {
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory).unwrap();
    directory
}

#[test]
fn without_a_handler_ctrl_c_ends_the_process_and_leaves_nothing_behind() {
    let pair = or_skip!(Namespaces::pair());
    for enabled in ["0", "1"] {
        let directory =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("interrupted-{enabled}"));
        let directory = fresh(&directory);
        let mut command = preloaded(&pair.b, &program()).unwrap();
        command.env("VMA_STATS_SHMEM_DIR", directory);
        let environment = [("VMA_HANDLE_SIGINTR", enabled)];
        let seen = run_in_own_directory(command, "interrupt_default", &environment);
        assert_eq!(seen.status.signal(), Some(libc::SIGINT), "{seen:?}");
        assert_eq!(seen.stdout, "SIGINT: SIG_DFL\n");
        let left = fs::read_dir(directory).unwrap().count();
        // The statistics file, and the socket beside it.
        assert_eq!(left, if enabled == "0" { 2 } else { 0 });
        fs::remove_dir_all(directory).unwrap();
    }
}

#[test]
fn ctrl_c_ends_a_thread_that_holds_locks() {
    let pair = or_skip!(Namespaces::pair());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interrupted-busy");
    let directory = fresh(&directory);
    for _ in 0..12 {
        let mut command = preloaded(&pair.b, &program()).unwrap();
        command.env("VMA_STATS_SHMEM_DIR", directory);
        let seen = run_in_own_directory(command, "interrupt_busy", &[("VMA_HANDLE_SIGINTR", "1")]);
        assert_eq!(seen.status.signal(), Some(libc::SIGINT), "{seen:?}");
        assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "{seen:?}");
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn ctrl_c_ends_every_wait_and_runs_the_program_s_handler() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let _peer = testkit::ScriptedPeer::start(&pair.a).unwrap();
        for polls in ["0", "1000", "-1"] {
            let command = preloaded(&pair.b, &program()).unwrap();
            let environment = [
                ("VMA_HANDLE_SIGINTR", "1"),
                ("VMA_TRACELEVEL", "debug"),
                ("VMA_RX_POLL", polls),
                ("VMA_SELECT_POLL", polls),
            ];
            let seen = run_in_own_directory(command, "interrupt_threads", &environment);
            assert!(seen.status.success(), "{polls}: {seen:?}");
            let (waits, rest) = seen.stdout.split_once("handled 1\n").unwrap();
            let mut waits: Vec<_> = waits.lines().collect();
            waits[1..].sort_unstable();
            let expected = [
                "signal",
                "epoll_wait: -1 EINTR",
                "poll: -1 EINTR",
                "recv: -1 EINTR",
                "select: -1 EINTR",
            ];
            assert_eq!(waits, expected, "{polls}");
            let expected = "recv that would wait: -1 EINTR\nrecv that does not: -1 EAGAIN\n\
                        recv of what is there: 20\n";
            assert!(rest.starts_with(expected), "{polls}: {rest}");
            assert!(
                rest.contains("poll without waiting: 0\n"),
                "{polls}: {rest}"
            );
            let lines = seen.stderr.lines();
            let offloaded = lines.filter(|line| line.ends_with(": offloaded"));
            assert_eq!(offloaded.count(), 2, "{polls}");
        }
    });
}

#[test]
fn a_truncated_statistics_file_does_not_end_the_process() {
    let pair = or_skip!(Namespaces::pair());
    let _peer = testkit::ScriptedPeer::start(&pair.a).unwrap();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("truncated");
    let directory = fresh(&directory);
    let expected = [
        (
            "truncated_statistics",
            Some(libc::SIGBUS),
            "recv: 20\n  abcdefgh\nrecv: 21\n  abcdefgh\nSIGBUS: SIG_DFL\nhandler\n\
             recv: 22\n  abcdefgh\nSIGBUS: the handler\n",
        ),
        (
            "truncated_statistics_and_handler",
            None,
            "recv: 20\n  abcdefgh\nrecv: 21\n  abcdefgh\n\
             end of truncated_statistics_and_handler\n",
        ),
    ];
    for (case, signal, stdout) in expected {
        let mut command = preloaded(&pair.b, &program()).unwrap();
        command.env("VMA_STATS_SHMEM_DIR", directory);
        let seen = run_in_own_directory(command, case, &[("VMA_TRACELEVEL", "debug")]);
        assert_eq!(
            (seen.status.signal(), seen.stdout.as_str()),
            (signal, stdout)
        );
        assert!(seen.stderr.contains(": offloaded"), "{seen:?}");
    }
    fs::remove_dir_all(directory).unwrap();
}
