//! `VMA_STATS_FILE`: what sockets did, in a file that outlives them.

use std::fs;
use std::path::{Path, PathBuf};

use testkit::{Running, SOON, preloaded_in_place};

/// Sends three messages of two kilobytes each and closes the socket; a second one is open at the
/// end, also in a child.
const PROGRAM: &str = r#"
    use Socket;
    socket(A, PF_INET, SOCK_DGRAM, 0) or die;
    my $discard = sockaddr_in(9, inet_aton("127.0.0.1"));
    send(A, "x" x 2048, 0, $discard) for 1 .. 3;
    close(A);
    socket(B, PF_INET, SOCK_DGRAM, 0) or die;
    bind(B, sockaddr_in(0, INADDR_LOOPBACK)) or die;
    print fileno(B), "\n";
    my $child = fork();
    exit(0) if $child == 0;
    waitpid($child, 0);
"#;

fn file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&path);
    path
}

/// What the program prints, and what the library says.
fn run(path: &Path) -> [String; 2] {
    let mut command = preloaded_in_place(Path::new("perl")).unwrap();
    command.args(["-e", PROGRAM]).env("VMA_STATS_FILE", path);
    // No interface of this machine is touched.
    command
        .env("VMA_TRACELEVEL", "warning")
        .env("VMA_OFFLOADED_SOCKETS", "0");
    let finished = Running::start(command).unwrap().wait(SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
    [finished.stdout, finished.stderr]
}

#[test]
fn closed_sockets_are_appended_and_open_ones_at_the_end() {
    let path = file("stats-file");
    fs::write(&path, "earlier\n").unwrap();
    let [fd, said] = run(&path);
    assert_eq!(said, "");
    let fd = fd.trim();
    let expected = format!(
        "earlier\nVMA: [fd={fd}] Tx OS info: 6 / 3 / 0 / 0 [kilobytes/packets/eagains/errors]\n\
         VMA: [fd={fd}] Rx and Tx where not active\n"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn each_process_can_have_a_file() {
    let path = file("stats-of-%d");
    let directory = path.parent().unwrap();
    let files = || {
        let entries = fs::read_dir(directory).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        let files = names.filter(|name| name.starts_with("stats-of-"));
        files.collect::<Vec<_>>()
    };
    for old in files() {
        fs::remove_file(directory.join(old)).unwrap();
    }
    run(&path);
    let written = files();
    assert_eq!(written.len(), 1, "{written:?}");
    let pid = written[0].strip_prefix("stats-of-").unwrap();
    assert!(pid.parse::<u32>().is_ok(), "{pid}");
}

#[test]
fn what_is_no_regular_file_is_left_alone() {
    let link = file("stats-link");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    for path in [
        link.as_path(),
        Path::new("/dev/null"),
        Path::new("/nowhere/at/all"),
    ] {
        let [_, said] = run(path);
        let complaint = format!(
            "VMA_STATS_FILE: cannot open {} as a regular",
            path.display()
        );
        assert_eq!(said.matches(&complaint).count(), 1, "{said}");
    }
}

/// Opens a socket, and waits.
const WAITER: &str = r#"
    use Socket;
    $| = 1;
    socket(A, PF_INET, SOCK_DGRAM, 0) or die;
    bind(A, sockaddr_in(0, INADDR_LOOPBACK)) or die;
    print "open\n";
    <STDIN>;
"#;

#[test]
fn what_a_killed_process_leaves_for_vma_stats_goes_at_the_next_start() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("killed-statistics");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).unwrap();
    let start = || {
        let mut command = preloaded_in_place(Path::new("perl")).unwrap();
        command.args(["-e", WAITER]);
        command.env("VMA_STATS_SHMEM_DIR", &directory);
        command.env("VMA_OFFLOADED_SOCKETS", "0");
        let mut running = Running::start_interactive(command).unwrap();
        assert!(running.wait_for_output("open\n", SOON));
        let file = directory.join(format!("vmastat.{}", running.pid()));
        assert!(file.exists());
        (running, file)
    };
    let (alive, file_of_living) = start();
    let (killed, file_of_dead) = start();
    killed.stop(libc::SIGKILL, SOON).unwrap();
    assert!(file_of_dead.exists(), "nobody has looked yet");
    let (next, own) = start();
    assert!(!file_of_dead.exists());
    assert!(file_of_living.exists() && own.exists());
    drop((alive, next));
    fs::remove_dir_all(&directory).unwrap();
}

/// Opens a socket, and becomes itself anew while a child has what it had; then opens another and
/// waits.
const AGAIN: &str = r#"
    use Socket;
    $| = 1;
    socket(A, PF_INET, SOCK_DGRAM, 0) or die;
    bind(A, sockaddr_in(0, INADDR_LOOPBACK)) or die;
    if (shift eq "first") {
        pipe(R, W);
        if (fork() == 0) {
            close(W);
            <R>;
            exit(0);
        }
        $^F = 1000;
        exec($^X, "-e", $ENV{SCRIPT}, "second");
    }
    print "open\n";
    <STDIN>;
"#;

#[test]
fn a_process_that_becomes_another_program_goes_on_to_publish() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("statistics-again");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).unwrap();
    let mut command = preloaded_in_place(Path::new("perl")).unwrap();
    command.args(["-e", AGAIN, "first"]).env("SCRIPT", AGAIN);
    command.env("VMA_STATS_SHMEM_DIR", &directory);
    command.env("VMA_OFFLOADED_SOCKETS", "0");
    let mut running = Running::start_interactive(command).unwrap();
    assert!(running.wait_for_output("open\n", SOON));
    let shown = stats::Reader::open(&directory, running.pid()).unwrap();
    assert_eq!(shown.sockets().unwrap().len(), 1);
    let said = running.stderr();
    assert!(!said.contains("no statistics"), "{said}");
    drop(running);
    fs::remove_dir_all(&directory).unwrap();
}
