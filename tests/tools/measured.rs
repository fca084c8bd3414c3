//! `vma-run --check --measure`: what it says, and that `VMA_XDP_MODE=auto` goes by it.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use testkit::{
    Namespace, Namespaces, Pair, Running, SOON, eventually, libvma_path, or_skip, preloaded, tool,
};

/// `unshare` to run a program where `/run` is a directory of its own: what the machine has measured
/// stays.
fn with_own_run(unshare: &mut Command, directory: &Path) {
    let script = r#"mount --bind "$0" /run && exec "$@""#;
    unshare.args(["--mount", "sh", "-c", script]).arg(directory);
}

fn check(host: &Namespace, run: &Path, arguments: &[&str]) -> String {
    let mut command = host.command("unshare");
    with_own_run(&mut command, run);
    command.arg(tool("vma-run", "vma-run").unwrap());
    command.arg("--check").args(arguments);
    command.arg("--library").arg(libvma_path().unwrap());
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn the_mode_that_answers_sooner_is_taken_from_then_on() {
    let pair = or_skip!(Namespaces::pair());
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path();
    let host = &pair.a;
    let alone = check(host, run, &["--measure"]);
    assert!(
        alone.contains("no neighbour with an IPv4 address is known"),
        "{alone}"
    );

    // Whoever is asked is a neighbour from then on.
    let is_refused = host.enter(|| TcpStream::connect((Pair::ADDRESS_B, 9)).is_err());
    assert!(is_refused);
    let report = check(host, run, &["--measure"]);
    let line = report.lines().find(|line| line.contains(" va ")).unwrap();
    eprintln!("{line}");
    let measured = line
        .split_once("an ARP round trip with 10.77.0.2: native ")
        .unwrap()
        .1;
    let (native, generic) = measured.split_once(" us, generic ").unwrap();
    let microseconds = |text: &str| text.trim_end_matches(" us").parse::<f64>().unwrap();
    for took in [native, generic] {
        assert!((0.5..10_000.0).contains(&microseconds(took)), "{line}");
    }
    // Less than a tenth is no difference.
    let file = run.join("vma/xdp-modes");
    let kept = fs::read_to_string(&file).unwrap();
    let ratio = microseconds(native) / microseconds(generic);
    match kept.split_whitespace().nth(2) {
        Some("native") => assert!(ratio < 0.95, "{line} {kept}"),
        Some("generic") => assert!(ratio > 1.05, "{line} {kept}"),
        _ => assert!((0.85..1.15).contains(&ratio), "{line} {kept}"),
    }
    // Nothing of it is left.
    assert!(!ip(host, &["link", "show", "va"]).contains("xdp"));

    for (mode, shown) in [("native", " xdp "), ("generic", " xdpgeneric ")] {
        fs::write(&file, format!("{} veth {mode}\n", mac_of_va(host))).unwrap();
        assert!(check(host, run, &[]).contains(&format!("{mode} XDP, as measured")));
        let attached = attached(host, run);
        assert!(attached.contains(shown), "{mode}: {attached}");
    }
}

fn ip(host: &Namespace, arguments: &[&str]) -> String {
    let mut command = host.command("ip");
    command.args(arguments);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

fn mac_of_va(host: &Namespace) -> String {
    let shown = ip(host, &["link", "show", "va"]);
    let mut words = shown
        .split_whitespace()
        .skip_while(|word| *word != "link/ether");
    words.nth(1).unwrap().to_owned()
}

/// What ip(8) says of the interface while a program has it.
fn attached(host: &Namespace, run: &Path) -> String {
    const SERVER: &str = "import socket, time\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        s.bind(('10.77.0.1', 7461)); print('ready', flush=True); time.sleep(60)";
    let mut command = preloaded(host, "unshare".as_ref()).unwrap();
    with_own_run(&mut command, run);
    command.args(["python3", "-c", SERVER]);
    let mut server = Running::start(command).unwrap();
    assert!(server.wait_for_output("ready", SOON), "{}", server.stderr());
    let mut shown = String::new();
    let is_attached = eventually(SOON, || {
        shown = ip(host, &["link", "show", "va"]);
        shown.contains(" xdp")
    });
    assert!(is_attached, "{shown}{}", server.stderr());
    shown
}
