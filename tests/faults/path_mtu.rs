//! What ICMP says of a path, and of a peer: calls report it as the kernel does, and as soon.

use std::io::Write;
use std::net::Ipv6Addr;

use testkit::{
    Echo, FAR_ADDRESS, Namespace, Namespaces, Pair, Running, SOON, Skip, far_host, or_skip,
    panic_unless_paused, preloaded,
};

/// In place of [`FAR_ADDRESS`] over IPv6 (tests/c/family.h).
const IPV6_FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x0a63, 2);

/// The version of IP between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

/// Behind the peer, which forwards, a link of MTU 1300 leads to an echo service.
struct Stage {
    pair: Pair,
    version: Version,
    _far: Namespace,
    _echo: Echo,
}

impl Stage {
    fn new(version: Version) -> Result<Self, Skip> {
        let pair = match version {
            Version::V4 => Namespaces::pair()?,
            Version::V6 => Namespaces::new().ipv6().create()?,
        };
        let far = far_host(&pair, 1300)?;
        if version == Version::V6 {
            join_over_ipv6(&pair, &far);
        }
        let echo = match version {
            Version::V4 => Echo::start(&far, FAR_ADDRESS).unwrap(),
            Version::V6 => Echo::start(&far, IPV6_FAR).unwrap(),
        };
        Ok(Self {
            pair,
            version,
            _far: far,
            _echo: echo,
        })
    }

    /// What the program prints for each step, on standard output.
    fn run(&self, with_library: bool, steps: &[&str]) -> String {
        let program = testkit::c_program("probe");
        let mut command = if with_library {
            let mut command = preloaded(&self.pair.b, &program).unwrap();
            command.env("VMA_TRACELEVEL", "debug");
            command
        } else {
            self.pair.b.command(&program)
        };
        command.args([&Pair::ADDRESS_B.to_string(), "7502"]);
        if self.version == Version::V6 {
            command.env("CASE_OVER_IPV6", "real");
        }
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

/// Gives the hosts IPv6 addresses, and the routes between them.
fn join_over_ipv6(pair: &Pair, far: &Namespace) {
    let ends = [
        (&pair.a, "address add 2001:db8::a63:1/64 dev vc nodad\n"),
        (
            far,
            "address add 2001:db8::a63:2/64 dev vd nodad\nroute add default via 2001:db8::a63:1\n",
        ),
        (&pair.b, "route add 2001:db8::/64 via fd77::1\n"),
    ];
    for (namespace, lines) in ends {
        namespace.ip_batch(lines).unwrap();
        namespace.enter(|| {
            std::fs::write("/proc/sys/net/ipv6/icmp/ratelimit", "0").unwrap();
            std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        });
    }
}

/// Runs the steps on the kernel and with the library, each on a stage of its own, for paths are
/// remembered.
fn compare(version: Version, steps: &[&str]) -> Result<String, Skip> {
    let expected = Stage::new(version)?.run(false, steps);
    let seen = Stage::new(version)?.run(true, steps);
    assert_eq!(expected, seen, "steps: {steps:#?}");
    Ok(seen)
}

#[test]
fn a_learned_path_mtu_is_kept_to() {
    learn_of_a_path(Version::V4);
}

fn learn_of_a_path(version: Version) {
    panic_unless_paused(|| {
        const SMALL: &str = "send 10.99.0.2 7 100";
        const LARGE: &str = "send 10.99.0.2 7 1400";
        let said = or_skip!(compare(
            version,
            &[
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
            ]
        ));
        assert_eq!(said.matches("recv: 1400\n").count(), 4, "{said}");
    });
}

#[test]
fn a_connected_socket_learns_of_its_path() {
    learn_when_connected(Version::V4);
}

fn learn_when_connected(version: Version) {
    panic_unless_paused(|| {
        let said = or_skip!(compare(
            version,
            &[
                "connect 10.99.0.2 7",
                "write 100",
                "recv",
                "write 100",
                "recv",
                "mtu",
                "write 1400",
                "wait 50",
                "write 1400",
                "write 1400",
                "recv",
                "mtu",
                "error",
            ]
        ));
        assert!(said.contains("EMSGSIZE"), "{said}");
        // The same by other calls.
        for notice in ["recv", "error", "poll"] {
            or_skip!(compare(
                version,
                &[
                    "connect 10.99.0.2 7",
                    "write 100",
                    "recv",
                    "write 100",
                    "recv",
                    "write 1400",
                    "wait 50",
                    notice,
                    "write 1400",
                    "error",
                    "write 1400",
                    "recv",
                ]
            ));
        }
    });
}

#[test]
#[ignore = "takes a minute"]
fn refusals_of_the_peer_are_reported() {
    be_refused(Version::V4);
}

fn be_refused(version: Version) {
    panic_unless_paused(|| {
        for notice in ["write 100", "recv", "error", "poll"] {
            let said = or_skip!(compare(
                version,
                &[
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
                ]
            ));
            assert!(
                said.contains("ECONNREFUSED") || said.contains("is 111"),
                "{said}"
            );
        }
    });
}

#[test]
fn the_error_queue_has_what_it_has_on_the_kernel() {
    read_the_error_queue(Version::V4);
}

fn read_the_error_queue(version: Version) {
    panic_unless_paused(|| {
        let said = or_skip!(compare(
            version,
            &[
                "send 10.99.0.2 7 100",
                "recv",
                "recverr",
                "send 10.99.0.2 9 100",
                "wait 50",
                "poll",
                "errqueue",
                "errqueue",
                "send 10.99.0.2 7 1400",
                "wait 50",
                "errqueue",
                "error",
                "send 10.99.0.2 7 1400",
                "recv",
            ]
        ));
        assert!(said.contains("errno 90"), "{said}");
    });
}

mod over_ipv6 {
    use super::*;

    #[test]
    #[ignore = "with the others it takes half a minute"]
    fn a_learned_path_mtu_is_kept_to() {
        learn_of_a_path(Version::V6);
    }

    #[test]
    #[ignore = "with the others it takes half a minute"]
    fn a_connected_socket_learns_of_its_path() {
        learn_when_connected(Version::V6);
    }

    #[test]
    #[ignore = "with the others it takes half a minute"]
    fn refusals_of_the_peer_are_reported() {
        be_refused(Version::V6);
    }

    #[test]
    #[ignore = "with the others it takes half a minute"]
    fn the_error_queue_has_what_it_has_on_the_kernel() {
        read_the_error_queue(Version::V6);
    }
}
