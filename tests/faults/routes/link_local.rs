//! Streams between link-local addresses of IPv6, on a host with two links that have the same ones.

use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use testkit::{
    Accelerated, Namespace, SOON, Skip, eventually, or_skip, panic_unless_paused, preloaded,
};

use crate::routes::servers::{ask, serve};
use crate::routes::stage::Stage;

const SCRIPT: &str = include_str!("link_local.py");

/// `fe80::1` is host `a`'s on both links, `fe80::2` host `b`'s.
fn stage() -> Result<Stage, Skip> {
    if !Path::new("/proc/net/if_inet6").exists() {
        return Err(Skip::new("this kernel has no IPv6"));
    }
    let stage = Stage::new()?;
    for line in [
        "a: address add fe80::1/64 dev va nodad",
        "a: address add fe80::1/64 dev wa nodad",
        "address add fe80::2/64 dev vb nodad",
        "address add fe80::2/64 dev wb nodad",
    ] {
        stage.change(line);
    }
    Ok(stage)
}

fn run(host: &Namespace, is_preloaded: bool, arguments: &[&str]) -> Accelerated {
    let mut command = match is_preloaded {
        true => preloaded(host, Path::new("python3")).unwrap(),
        false => host.command("python3"),
    };
    command.args(["-c", SCRIPT]).args(arguments);
    let mut program = Accelerated::start(command).unwrap();
    let process = program.process();
    let is_ready = process.wait_for_output("ready", SOON);
    assert!(is_ready, "{}{}", process.stdout(), process.stderr());
    program
}

/// Packets that came past the kernel to sockets at a link-local address.
fn near_packets(program: &Accelerated) -> Vec<u64> {
    let sockets = program.sockets().into_iter();
    let near = sockets.filter(|socket| {
        let local = socket.local.map(|address| address.ip());
        socket.offloaded && local == Some("fe80::2".parse().unwrap()) && socket.peer.is_some()
    });
    near.map(|socket| socket.rx_packets).collect()
}

/// Also those that go to the kernel with what nobody has read, and those that wait to be accepted
/// when a child accepts.
#[test]
fn link_local_streams_are_those_of_the_kernel() {
    panic_unless_paused(|| {
        let stage = or_skip!(stage());
        let _peer = run(&stage.pair.a, false, &["peer"]);
        let mut kernels = run(&stage.pair.b, false, &["self", "20000"]);
        let mut ours = run(&stage.pair.b, true, &["self", "21000"]);
        let log = ours.process().stderr();
        assert_eq!(ours.process().stdout(), kernels.process().stdout(), "{log}");
        // Seven clients and what three listeners have accepted, but for four that the kernel has.
        let packets = near_packets(&ours);
        assert_eq!(packets.len(), 12 - 4, "{:?}", ours.sockets());
        assert!(packets.iter().all(|count| *count > 0), "{packets:?}");
    });
}

#[test]
fn link_local_traffic_of_two_links_at_once() {
    panic_unless_paused(|| {
        let stage = or_skip!(stage());
        let (a, b) = (&stage.pair.a, &stage.pair.b);
        for is_server in [true, false] {
            let (server_host, client_host, targets) = match is_server {
                true => (b, a, ["fe80::2%va", "fe80::2%wa"]),
                false => (a, b, ["fe80::1%vb", "fe80::1%wb"]),
            };
            let server = serve(server_host, is_server, "::");
            let said = thread::scope(|scope| {
                let ask = |target| scope.spawn(move || ask(client_host, !is_server, target));
                let clients: Vec<_> = targets.into_iter().map(ask).collect();
                let said = clients.into_iter().map(|it| it.join().unwrap());
                said.collect::<Vec<_>>()
            });
            for (said, target) in said.iter().zip(targets) {
                assert!(said.contains(&format!("to {target}\n")), "{said}");
            }
            if is_server {
                let has_all = || {
                    let rings = server.reader().rings().unwrap();
                    rings.iter().filter(|it| it.rx_packets > 600).count() == 2
                };
                assert!(eventually(SOON, has_all), "{:?}", server.sockets());
            }
        }
    });
}

/// As those of other addresses do: the interface is down for a moment, and the peers' hardware
/// addresses change.
#[test]
#[ignore = "with the others it takes ten seconds"]
fn link_local_streams_outlast_changes_of_their_links() {
    panic_unless_paused(|| {
        let stage = or_skip!(stage());
        let _peer = run(&stage.pair.a, false, &["peer"]);
        for (is_preloaded, base) in [(false, "22000"), (true, "23000")] {
            let mut program = run(&stage.pair.b, is_preloaded, &["stay", base]);
            let mut input = program.process().stdin().unwrap();
            let mut carries = |what: &str| {
                writeln!(input, "{what}").unwrap();
                let process = program.process();
                let is_done = process.wait_for_output(&format!("after {what}"), SOON);
                let said = process.stdout();
                assert!(is_done, "{said}{}", process.stderr());
                let count = said.matches(&format!("{what}: True")).count();
                assert_eq!(count, 6, "{said}");
            };
            carries("at first");
            stage.change("link set vb down");
            thread::sleep(Duration::from_millis(300));
            stage.change("link set vb up; address replace fe80::2/64 dev vb nodad");
            stage.pair.b.wait_until_running("vb", SOON).unwrap();
            carries("down and up");
            for (link, mac) in [("va", "02:00:00:00:77:01"), ("wa", "02:00:00:00:77:02")] {
                stage.change(&format!("a: link set {link} address {mac}"));
                stage.change(&format!(
                    "neigh replace fe80::1 lladdr {mac} dev {} nud stale",
                    link.replace('a', "b")
                ));
            }
            carries("other neighbours");
            if is_preloaded {
                assert_eq!(near_packets(&program).len(), 6, "{:?}", program.sockets());
            }
        }
    });
}
