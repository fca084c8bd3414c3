//! The program as a user runs it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use testkit::{Namespaces, Pair, or_skip};

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
    let foreign = run(&["--foo"]);
    assert_eq!(foreign.status.code(), Some(2), "{foreign:?}");
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
        report.contains(
            "va             veth, 1 queue, MTU 1500, generic XDP, an AF_XDP socket opens\n"
        ),
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

#[test]
fn whoever_has_the_interface_is_named() {
    let pair = or_skip!(Namespaces::pair());
    let (_directory, file) = library();
    let check = |options: &[&str]| {
        let mut command = pair.b.command(env!("CARGO_BIN_EXE_vma-run"));
        command
            .arg("--check")
            .args(options)
            .arg("--library")
            .arg(&file)
            .output()
            .unwrap()
    };
    let mut holder = testkit::preloaded(&pair.b, "sockperf".as_ref()).unwrap();
    holder.args(["sr", "-i", &Pair::ADDRESS_B.to_string()]);
    let holder = testkit::Running::start(holder).unwrap();
    let mut report = String::new();
    let expected = format!("held by process {} (sockperf)", holder.pid());
    let is_named = testkit::eventually(testkit::SOON, || {
        report = text(&check(&[]).stdout);
        report.contains(&expected)
    });
    assert!(is_named, "{report}");
    drop(holder);
    let report: serde_json::Value = serde_json::from_slice(&check(&["--json"]).stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().any(|it| it["subject"] == "vb"), "{report}");
}

#[test]
fn programs_that_hear_nothing_of_the_library_are_named() {
    let (directory, file) = library();
    let program = directory.path().join("static");
    let mut elf = vec![0; 64];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    fs::write(&program, elf).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_vma-run"))
        .arg("--library")
        .args([&file, &program])
        .output()
        .unwrap();
    let words = text(&output.stderr);
    assert!(words.contains("static is linked statically"), "{words}");
}
