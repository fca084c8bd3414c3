//! The program as a user runs it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use testkit::{Namespaces, or_skip};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vma-run"));
    command
        .args(arguments)
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file that is there; the loader finds out that it is no library, says so, and goes on.
fn library() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("libvma.so");
    fs::write(&file, "").unwrap();
    (directory, file)
}

#[test]
fn the_program_gets_the_library_the_profile_and_its_arguments() {
    let (_directory, file) = library();
    let path = file.display().to_string();
    let script = "echo $LD_PRELOAD $VMA_SPEC \"$@\"; exit 7";
    let arguments = [
        "-q", "-s", "latency", "-l", &path, "sh", "-c", script, "sh", "-q", "x y",
    ];
    let output = run(&arguments);
    assert_eq!(text(&output.stdout), format!("{path} latency -q x y\n"));
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn failures_have_the_exit_status_of_a_shell() {
    let (_directory, file) = library();
    let path = file.display().to_string();
    let absent = run(&["-q", "-l", &path, "/nonexistent/program"]);
    assert_eq!(absent.status.code(), Some(127));
    assert!(text(&absent.stderr).contains("vma-run: /nonexistent/program: "));
    assert_eq!(
        run(&["-q", "-l", "/nonexistent.so", "true"]).status.code(),
        Some(126)
    );
    assert_eq!(run(&["-s", "fast", "true"]).status.code(), Some(2));
}

#[test]
fn the_report_knows_the_interfaces_of_the_namespace() {
    let pair = or_skip!(Namespaces::pair());
    let (_directory, file) = library();
    let check = |library: &str| {
        let mut command = pair.a.command(env!("CARGO_BIN_EXE_vma-run"));
        command
            .args(["--check", "--library", library])
            .output()
            .unwrap()
    };
    let ready = check(&file.display().to_string());
    let report = text(&ready.stdout);
    assert!(
        report.contains("va             veth, 1 queue, MTU 1500, generic XDP\n"),
        "{report}"
    );
    assert!(
        ready.status.success() && report.ends_with("can be accelerated here.\n"),
        "{report}"
    );
    let lacking = check("/nonexistent.so");
    let report = text(&lacking.stdout);
    assert_eq!(lacking.status.code(), Some(1));
    assert!(report.contains("MISSING  library "), "{report}");
}

#[test]
fn what_is_missing_is_said_and_the_program_runs_all_the_same() {
    let pair = or_skip!(Namespaces::pair());
    let (_directory, file) = library();
    let mut command = pair.a.command("setpriv");
    command.args([
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--reuid=65534",
        "--clear-groups",
    ]);
    // Where that user may read it.
    let program = file.with_file_name("vma-run");
    fs::copy(env!("CARGO_BIN_EXE_vma-run"), &program).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(file.parent().unwrap(), mode).unwrap();
    let output = command
        .arg(&program)
        .args(["echo", "runs"])
        .output()
        .unwrap();
    let words = text(&output.stderr);
    assert_eq!(text(&output.stdout), "runs\n", "{words}");
    assert!(
        words.contains("without CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF"),
        "{words}"
    );
    assert!(words.contains("the program runs on the kernel"), "{words}");
}
