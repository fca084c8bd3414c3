//! What the library says, how the lines look, and where they go. No packets are needed, and no
//! privileges.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{Finished, Running, SOON, preloaded_in_place};

fn log_program() -> PathBuf {
    testkit::c_program("log")
}

fn run(case: &str, environment: &[(&str, &str)]) -> Finished {
    let mut command = preloaded_in_place(&log_program()).unwrap();
    command.arg(case).envs(environment.iter().copied());
    Running::start(command).unwrap().wait(SOON).unwrap()
}

/// Runs a case and asserts that it comes to its end.
#[track_caller]
fn succeed(case: &str, environment: &[(&str, &str)]) -> Finished {
    let finished = run(case, environment);
    assert!(finished.status.success(), "{finished:?}");
    finished
}

/// The lines of a log without its beginning `prefix`, which every line must have.
#[track_caller]
fn messages<'a>(log: &'a str, prefix: &str) -> Vec<&'a str> {
    let message = |line: &'a str| {
        line.strip_prefix(prefix)
            .unwrap_or_else(|| panic!("{line:?} begins otherwise than {prefix:?}"))
    };
    log.lines().map(message).collect()
}

const RULE: &str = "---------------------------------------------------------------------------";
const LEVEL_LINE: &str =
    "Log Level                      INFO                       [VMA_TRACELEVEL]";

#[test]
fn a_function_of_the_program_s_takes_the_lines() {
    let finished = succeed(
        "taken",
        &[("VMA_TRACELEVEL", "debug"), ("VMA_LOG_DETAILS", "0")],
    );
    assert_eq!(finished.stderr, "");
    let lines: Vec<_> = finished.stdout.lines().collect();
    let said = |text: &str| lines.iter().any(|line| line.starts_with(text));
    assert!(said("3: VMA INFO: VMA_VERSION: "), "{lines:?}");
    // The calls that set a socket up are shown, too.
    assert!(said("5: VMA DEBUG: setsockopt(fd 3) = 0"), "{lines:?}");
    assert!(said("5: VMA DEBUG: fd 3: back to the kernel"), "{lines:?}");
}

/// What the program has of who started it is an address of that one's.
#[test]
fn an_address_that_is_not_the_program_s_own_is_never_called() {
    for address in ["0x1234", "0x7ffff7fc0000", "(nil)", "x"] {
        let finished = succeed("starts", &[("VMA_LOG_CB_FUNC_PTR", address)]);
        assert_eq!(finished.stdout, "started\nend of starts\n");
        messages(&finished.stderr, " VMA ");
        assert!(finished.stderr.contains("VMA_VERSION"), "{finished:?}");
    }
}

#[test]
fn programs_without_internet_sockets_hear_nothing() {
    let quiet = |program: &str, arguments: &[&str]| {
        for level in ["info", "debug"] {
            let mut command = preloaded_in_place(Path::new(program)).unwrap();
            let file = format!("{}/silent-%d.log", env!("CARGO_TARGET_TMPDIR"));
            command.args(arguments).env("VMA_TRACELEVEL", level);
            command
                .env("VMA_HANDLE_SIGSEGV", "1")
                .env("VMA_LOG_FILE", file);
            let finished = Running::start(command).unwrap().wait(SOON).unwrap();
            assert!(finished.status.success(), "{program}: {finished:?}");
            assert_eq!(finished.stderr, "", "{program}");
        }
    };
    quiet("/bin/ls", &["/"]);
    quiet("/bin/sh", &["-c", "echo a | cat; (exit 0)"]);
    quiet(
        "bash",
        &["-c", "echo a | cat >/dev/null; x=$(ls /); [ -n \"$x\" ]"],
    );
    quiet("perl", &["-e", "print 1"]);
    if Path::new("/usr/bin/python3").exists() {
        quiet("/usr/bin/python3", &["-c", "pass"]);
    }
    let program = log_program();
    quiet(program.to_str().unwrap(), &["other_sockets"]);
    let created = fs::read_dir(env!("CARGO_TARGET_TMPDIR")).unwrap().flatten();
    let created: Vec<_> = created
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("silent-"))
        .collect();
    assert!(created.is_empty(), "{created:?}");
}

#[test]
fn the_first_internet_socket_brings_the_banner() {
    let finished = succeed("starts", &[]);
    assert_eq!(finished.stdout, "started\nend of starts\n");
    let lines = messages(&finished.stderr, " VMA INFO: ");
    assert_eq!(lines[0], RULE);
    let version = concat!(
        "VMA_VERSION: ",
        env!("CARGO_PKG_VERSION"),
        "-1 Release built on "
    );
    assert!(lines[1].starts_with(version), "{}", lines[1]);
    let at = if lines[2].starts_with("Git: ") { 3 } else { 2 };
    let program = log_program();
    assert_eq!(lines[at], format!("Cmd Line: {} starts", program.display()));
    assert_eq!(
        lines[at + 1..],
        [
            RULE,
            // The tests' own directory for statistics, and how long they wait for an interface, are
            // not the defaults.
            lines[at + 2],
            lines[at + 3],
            lines[at + 4],
            RULE
        ]
    );
    assert!(lines.contains(&LEVEL_LINE), "{lines:#?}");
}

#[test]
fn the_environment_is_that_of_the_beginning() {
    let finished = succeed("environment_changes", &[("VMA_TRACELEVEL", "debug")]);
    assert!(
        finished.stdout.starts_with("started\n"),
        "{}",
        finished.stdout
    );
    assert!(finished.stderr.contains("VMA DEBUG: "), "{finished:?}");
}

#[test]
fn levels_choose_what_is_said() {
    for (names, first, last, longest) in [
        ("none", "", "", 0),
        ("panic 0", "", "", 0),
        ("error 1", "", "", 0),
        ("warn warning 2", "", "", 0),
        ("info information 3 nonsense", "VMA INFO", "VMA INFO", 12),
        ("details", "VMA INFO", "VMA INFO", 200),
        ("debug 4", "VMA INFO", "VMA DEBUG", 400),
        (
            "fine func 5 finer func+ 6 all",
            "VMA INFO",
            "VMA DEBUG",
            400,
        ),
    ] {
        for name in names.split(' ') {
            let log = succeed("starts", &[("VMA_TRACELEVEL", name)]).stderr;
            assert!(
                log.lines().next().unwrap_or("").contains(first),
                "{name}: {log}"
            );
            assert!(log.lines().count() <= longest, "{name}: {log}");
            assert_eq!(log.contains("VMA DEBUG: "), last == "VMA DEBUG", "{name}");
            let details = longest >= 200;
            assert_eq!(log.contains("VMA DETAILS: "), details, "{name}");
        }
    }
    let log = succeed(
        "starts",
        &[("VMA_TRACELEVEL", "7"), ("VMA_LOG_DETAILS", "0")],
    )
    .stderr;
    assert!(log.contains("\n VMA WARNING: VMA_TRACELEVEL=7 "), "{log}");
    let capped = [("VMA_TRACELEVEL", "func_all"), ("VMA_LOG_DETAILS", "0")];
    let log = succeed("starts", &capped).stderr;
    let message = "\n VMA WARNING: VMA trace level set to max level DEBUG [VMA_TRACELEVEL]\n";
    assert!(log.contains(message), "{log}");
    for fact in [
        "Current Time: ",
        "Pid: ",
        "System: ",
        "Architecture: ",
        "Node: ",
    ] {
        assert!(
            log.contains(&format!("\n VMA DEBUG: {fact}")),
            "{fact}: {log}"
        );
    }
}

#[test]
fn details_go_before_the_level() {
    for details in 0..=3 {
        let details_text = details.to_string();
        let mut command = preloaded_in_place(&log_program()).unwrap();
        command.arg("starts").env("VMA_LOG_DETAILS", &details_text);
        let child = Running::start(command).unwrap();
        let pid = child.pid();
        let finished = child.wait(SOON).unwrap();
        for line in finished.stderr.lines() {
            let mut rest = line;
            if details >= 3 {
                rest = rest.strip_prefix(" Time: ").unwrap();
                let (time, after) = rest.split_at(9);
                let msec: f64 = time.trim_start().parse().unwrap();
                assert!((0.0..20_000.0).contains(&msec), "{line}");
                assert_eq!(format!("{msec:9.3}"), time);
                rest = after;
            }
            if details >= 2 {
                rest = rest.strip_prefix(&format!(" Pid: {pid:5}")).unwrap();
            }
            if details >= 1 {
                rest = rest.strip_prefix(&format!(" Tid: {pid:5}")).unwrap();
            }
            assert!(rest.starts_with(" VMA INFO: "), "{line}");
        }
        assert!(finished.stderr.contains(LEVEL_LINE));
    }
    // At debug level the ids come by themselves.
    let log = succeed("starts", &[("VMA_TRACELEVEL", "debug")]).stderr;
    assert!(log.lines().all(|line| line.starts_with(" Pid: ")), "{log}");
}

#[test]
fn a_log_file_takes_every_line() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("log-files");
    fs::create_dir_all(&directory).unwrap();
    let pattern = directory.join("vma-%d-%d.log");
    let mut command = preloaded_in_place(&log_program()).unwrap();
    command.arg("starts").env("VMA_LOG_FILE", &pattern);
    let child = Running::start(command).unwrap();
    let path = directory.join(format!("vma-{}-%d.log", child.pid()));
    let finished = child.wait(SOON).unwrap();
    assert!(finished.status.success());
    assert_eq!(finished.stderr, "");
    let log = fs::read_to_string(&path).unwrap();
    assert!(messages(&log, " VMA INFO: ").contains(&LEVEL_LINE), "{log}");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777 & !0o022,
        0o644
    );

    // An existing file is emptied first; descriptor 2 is not the log's.
    let path = directory.join("vma.log");
    fs::write(&path, "old".repeat(10_000)).unwrap();
    for case in ["starts", "many_threads", "closed"] {
        let file = [
            ("VMA_LOG_FILE", path.to_str().unwrap()),
            ("VMA_TRACELEVEL", "debug"),
        ];
        let finished = succeed(case, &file);
        assert_eq!(finished.stderr, "", "{case}");
        let log = fs::read_to_string(&path).unwrap();
        assert!(
            log.starts_with(" Pid: ") && log.contains(" VMA DEBUG: "),
            "{case}: {log:.200}"
        );
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_log_file_is_a_regular_one() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("odd-log-files");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let at = |name: &str| directory.join(name);
    fs::write(at("precious"), "precious").unwrap();
    std::os::unix::fs::symlink(at("precious"), at("link")).unwrap();
    let fifo = std::ffi::CString::new(at("fifo").to_str().unwrap()).unwrap();
    // SAFETY: the path ends with a null byte.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o666) }, 0);
    // Somebody has it open and does not read.
    let _reader = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(at("fifo"))
        .unwrap();
    for path in [
        at("link"),
        at("fifo"),
        directory.clone(),
        "/dev/ptmx".into(),
    ] {
        let finished = succeed("starts", &[("VMA_LOG_FILE", path.to_str().unwrap())]);
        let said = " as a regular file: the log goes to standard error";
        assert!(finished.stderr.contains(said), "{path:?}: {finished:?}");
        assert!(finished.stderr.contains(LEVEL_LINE), "{path:?}");
    }
    assert_eq!(fs::read(at("precious")).unwrap(), b"precious");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn processes_that_share_a_log_file_keep_each_others_lines() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared.log");
    fs::write(&path, "of an earlier process\n").unwrap();
    let file = ("VMA_LOG_FILE", path.to_str().unwrap());
    let environment = [file, ("VMA_TRACELEVEL", "debug")];
    let versions = || {
        fs::read_to_string(&path)
            .unwrap()
            .matches("VMA_VERSION")
            .count()
    };
    let mut first = preloaded_in_place(&log_program()).unwrap();
    first.arg("stays").envs(environment);
    let first = Running::start(first).unwrap();
    while versions() == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    succeed("starts", &environment);
    assert_eq!(versions(), 2);
    assert!(first.wait(SOON).unwrap().status.success());
    let log = fs::read_to_string(&path).unwrap();
    assert_eq!(versions(), 2);
    assert!(!log.contains("earlier"), "{log}");
    let last = log.lines().last().unwrap();
    assert!(last.contains("VMA DEBUG: "), "of the first process: {last}");
    // Nobody writes to it any more.
    succeed("starts", &environment);
    assert_eq!(versions(), 1);
    fs::remove_file(path).unwrap();
}

#[test]
fn a_log_file_that_cannot_be_opened_does_not_end_the_program() {
    let log = succeed("starts", &[("VMA_LOG_FILE", "/nonexistent/vma.log")]).stderr;
    let message = " VMA WARNING: VMA_LOG_FILE: cannot open /nonexistent/vma.log as a regular file: the log goes to \
                   standard error\n";
    assert!(log.starts_with(message), "{log}");
    assert!(log.contains(LEVEL_LINE), "{log}");
}

#[test]
fn a_terminal_shows_colours_and_nothing_else_does() {
    let environment = [("VMA_TRACELEVEL", "all"), ("VMA_LOG_DETAILS", "0")];
    let seen = succeed("terminal", &environment).stdout;
    for line in [
        format!("\x1b[0m VMA INFO: {RULE}\x1b[0m\r\n"),
        "\x1b[2;35m VMA WARNING: VMA trace level set to max level DEBUG [VMA_TRACELEVEL]\x1b[0m\r\n".to_owned(),
    ] {
        assert!(seen.contains(&line), "{line:?} in {seen:?}");
    }
    for line in seen.lines().filter(|line| line.contains(" VMA ")) {
        let whole = line.starts_with("\x1b[") && line.trim_end().ends_with("\x1b[0m");
        assert!(whole, "{line:?}");
    }
    let plain = succeed("terminal", &[("VMA_LOG_COLORS", "0")]).stdout;
    assert!(
        plain.contains(&format!(" VMA INFO: {RULE}\r\n")),
        "{plain:?}"
    );
    assert!(!plain.contains('\x1b'), "{plain:?}");
    let file = succeed("starts", &environment).stderr;
    assert!(!file.contains('\x1b'), "{file:?}");
}

#[test]
fn a_long_line_is_cut_whole() {
    let name = "/".to_owned() + &"directory/".repeat(100);
    let file = [("VMA_LOG_FILE", name.as_str())];
    let log = succeed("starts", &file).stderr;
    let line = log.lines().next().unwrap();
    assert!(
        line.starts_with(" VMA WARNING: VMA_LOG_FILE: cannot open /directory/"),
        "{line}"
    );
    assert_eq!(line.len() + 1, 512);
    assert!(
        log.lines().nth(1).unwrap().starts_with(" VMA INFO: "),
        "{log}"
    );
}

#[test]
fn lines_of_many_threads_stay_whole() {
    let log = succeed("many_threads", &[("VMA_TRACELEVEL", "debug")]).stderr;
    let lines = log
        .lines()
        .filter(|line| line.contains("back to the kernel: a socket option"));
    assert_eq!(lines.count(), 8 * 50);
    for line in log.lines() {
        assert!(line.starts_with(" Pid: "), "{line:?}");
        assert_eq!(line.matches(" Tid: ").count(), 1, "{line:?}");
    }
}

#[test]
fn what_gets_the_number_of_standard_error_gets_no_log_lines() {
    let debug = [("VMA_TRACELEVEL", "debug")];
    let finished = succeed("number_reused", &debug);
    assert_eq!(
        finished.stdout,
        "a file: nothing\nread from a connection: -1 EAGAIN\n\
         a file opened for appending: lines of the log\nend of number_reused\n"
    );
    assert!(finished.stderr.contains(" VMA DEBUG: "));
    let finished = succeed("closed", &debug);
    assert_eq!(
        (finished.stdout.as_str(), finished.stderr.as_str()),
        ("done\nend of closed\n", "")
    );
}

#[test]
fn the_log_follows_standard_error_where_the_program_sends_it() {
    let finished = succeed("redirected", &[("VMA_TRACELEVEL", "debug")]);
    assert_eq!(
        finished.stdout,
        "after dup2: lines of the log\nafter close and dup: lines of the log\n\
         after freopen: lines of the log\nafter vfork: lines of the log\nend of redirected\n"
    );
}

#[test]
fn a_log_that_nobody_reads_does_not_end_the_program() {
    let finished = run("reader_gone", &[("VMA_TRACELEVEL", "debug")]);
    assert_eq!(finished.stdout, "alive\n");
    assert_eq!(finished.status.signal(), Some(libc::SIGPIPE));
}
