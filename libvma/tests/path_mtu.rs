//! What ICMP says of a path, and of a peer: calls report it as the kernel does, and as soon.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use testkit::{
    Echo, Namespace, Namespaces, Pair, Running, Skip, or_skip, panic_unless_paused, preloaded,
};

const SOON: Duration = Duration::from_secs(60);
const FAR: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 99, 0, 2);

/// Behind the peer, which forwards, a link of MTU 600 leads to an echo service.
struct Stage {
    pair: Pair,
    _far: Namespace,
    _echo: Echo,
}

impl Stage {
    fn new() -> Result<Self, Skip> {
        let pair = Namespaces::pair()?;
        let far = Namespace::create("c")?;
        let link = "link add vc mtu 600 type veth peer name vd mtu 600 netns";
        let link: Vec<_> = link.split(' ').chain([far.name()]).collect();
        pair.a.ip(&link).unwrap();
        pair.a
            .ip_batch("address add 10.99.0.1/24 dev vc\nlink set vc up\n")
            .unwrap();
        far.ip_batch(
            "address add 10.99.0.2/24 dev vd\nlink set vd up\nroute add default via 10.99.0.1\n",
        )
        .unwrap();
        pair.b
            .ip(&["route", "add", "10.99.0.0/24", "via", "10.77.0.1"])
            .unwrap();
        far.wait_until_running("vd", SOON).unwrap();
        pair.a.enter(|| {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            std::fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0").unwrap();
        });
        far.enter(|| std::fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0").unwrap());
        let echo = Echo::start(&far, FAR).unwrap();
        Ok(Self {
            pair,
            _far: far,
            _echo: echo,
        })
    }

    /// What the program prints for each step, on standard output.
    fn run(&self, with_library: bool, steps: &[&str]) -> String {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/probe.c");
        let program = testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
        let mut command = if with_library {
            let mut command = preloaded(&self.pair.b, &program).unwrap();
            command.env("VMA_TRACELEVEL", "debug");
            command
        } else {
            self.pair.b.command(&program)
        };
        command.args([&Pair::ADDRESS_B.to_string(), "7502"]);
        let mut process = Running::start_interactive(command).unwrap();
        let mut input = process.stdin().unwrap();
        assert!(
            process.wait_for_output("ready", SOON),
            "{}",
            process.stderr()
        );
        for (index, step) in steps.iter().enumerate() {
            writeln!(input, "{step}").unwrap();
            let done = format!("{} done\n", index + 1);
            assert!(
                process.wait_for_output(&done, SOON),
                "{step}: {}",
                process.stdout()
            );
        }
        let log = process.stderr();
        assert!(!with_library || log.contains(": offloaded"), "{log}");
        process.stdout()
    }
}

/// Runs the steps on the kernel and with the library, each on a stage of its own, for paths are remembered.
fn compare(steps: &[&str]) -> Result<String, Skip> {
    let expected = Stage::new()?.run(false, steps);
    let seen = Stage::new()?.run(true, steps);
    assert_eq!(expected, seen, "steps: {steps:#?}");
    Ok(seen)
}

#[test]
fn a_learned_path_mtu_is_kept_to() {
    panic_unless_paused(|| {
        const SMALL: &str = "send 10.99.0.2 7 100";
        const LARGE: &str = "send 10.99.0.2 7 1000";
        let said = or_skip!(compare(&[
            SMALL,
            "recv",
            SMALL,
            "recv",
            // Lost on the way, and from here on sent in fragments.
            LARGE,
            "wait 50",
            LARGE,
            "recv",
            LARGE,
            "recv",
            SMALL,
            "recv",
            "silence",
            // Forbidden, and never.
            "discover 2",
            LARGE,
            SMALL,
            "recv",
            "discover 0",
            LARGE,
            "recv",
            "discover 3",
            LARGE,
            "silence",
            "discover 1",
            LARGE,
            "recv",
        ]));
        assert_eq!(said.matches("recv: 1000\n").count(), 4, "{said}");
    });
}

#[test]
fn a_connected_socket_learns_of_its_path() {
    panic_unless_paused(|| {
        let said = or_skip!(compare(&[
            "connect 10.99.0.2 7",
            "write 100",
            "recv",
            "write 100",
            "recv",
            "mtu",
            "write 1000",
            "wait 50",
            "write 1000",
            "write 1000",
            "recv",
            "mtu",
            "error",
        ]));
        assert!(said.contains("EMSGSIZE"), "{said}");
        // The same by other calls.
        for notice in ["recv", "error", "poll"] {
            or_skip!(compare(&[
                "connect 10.99.0.2 7",
                "write 100",
                "recv",
                "write 100",
                "recv",
                "write 1000",
                "wait 50",
                notice,
                "write 1000",
                "error",
                "write 1000",
                "recv",
            ]));
        }
    });
}

#[test]
fn refusals_of_the_peer_are_reported() {
    panic_unless_paused(|| {
        for notice in ["write 100", "recv", "error", "poll"] {
            let said = or_skip!(compare(&[
                // So that its neighbour is known.
                "send 10.99.0.2 7 100",
                "recv",
                "connect 10.99.0.2 9",
                "write 100",
                "wait 50",
                notice,
                "wait 50",
                notice,
                "error",
                "silence",
                "connect 10.99.0.2 7",
                "write 100",
                "recv",
            ]));
            assert!(
                said.contains("ECONNREFUSED") || said.contains("is 111"),
                "{said}"
            );
        }
    });
}

#[test]
fn the_error_queue_has_what_it_has_on_the_kernel() {
    panic_unless_paused(|| {
        let said = or_skip!(compare(&[
            "send 10.99.0.2 7 100",
            "recv",
            "recverr",
            "send 10.99.0.2 9 100",
            "wait 50",
            "poll",
            "errqueue",
            "errqueue",
            "send 10.99.0.2 7 1000",
            "wait 50",
            "errqueue",
            "error",
            "send 10.99.0.2 7 1000",
            "recv",
        ]));
        assert!(said.contains("errno 90"), "{said}");
    });
}
