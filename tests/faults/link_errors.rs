//! Errors of calls while the network changes are those of the kernel.

use std::io::Write;
use std::time::Duration;

use testkit::{
    Namespaces, Pair, Running, SOON, ScriptedPeer, c_program, or_skip, panic_unless_paused,
    preloaded,
};

/// How long a change of the network may take until a program sees it.
const SETTLE: Duration = Duration::from_millis(700);

/// What the program prints for each step: a change of the network, or a command to the program.
fn steps(process: &mut Running, pair: &Pair, steps: &[&str]) -> String {
    let mut input = process.stdin().unwrap();
    assert!(
        process.wait_for_output("ready", SOON),
        "{}",
        process.stderr()
    );
    let mut number = 0;
    for step in steps {
        if let Some(change) = step.strip_prefix("ip ") {
            pair.b.ip(&change.split(' ').collect::<Vec<_>>()).unwrap();
            std::thread::sleep(SETTLE);
        } else {
            number += 1;
            writeln!(input, "{step}").unwrap();
            let done = format!("{number} done\n");
            assert!(
                process.wait_for_output(&done, SOON),
                "{step}: {}",
                process.stdout()
            );
        }
    }
    process.stdout()
}

#[test]
fn errors_of_a_changed_network_are_those_of_the_kernel() {
    panic_unless_paused(|| {
        const SEND: &str = "send 10.77.0.1 7000";
        const REMOTE: &str = "send 10.99.0.1 7000";
        const STEPS: &[&str] = &[
            SEND,
            "recv",
            SEND,
            "recv",
            REMOTE,
            "ip link set vb down",
            SEND,
            REMOTE,
            "silence",
            "ip link set vb up",
            SEND,
            "drain",
            SEND,
            "recv",
            "ip address del 10.77.0.2/24 dev vb",
            SEND,
            "silence",
            "ip address add 10.77.0.2/24 dev vb",
            SEND,
            "drain",
            SEND,
            "recv",
            "ip neigh flush all",
            SEND,
            "recv",
            SEND,
            "recv",
            "ip route add 10.99.0.0/24 via 10.77.0.1",
            REMOTE,
            REMOTE,
            SEND,
            "recv",
            "ip route del 10.99.0.0/24",
            REMOTE,
            SEND,
            "recv",
            "ip route add blackhole 10.99.0.0/24",
            REMOTE,
            "ip route replace unreachable 10.99.0.0/24",
            REMOTE,
            "ip route replace prohibit 10.99.0.0/24",
            REMOTE,
            "ip route del 10.99.0.0/24",
            "ip route add prohibit 10.77.0.1/32",
            SEND,
            "silence",
            "ip route del 10.77.0.1/32",
            SEND,
            "recv",
            SEND,
            "recv",
            "ip route add 10.77.0.1/32 dev vb mtu 600",
            SEND,
            "recv",
            "ip route del 10.77.0.1/32",
            SEND,
            "recv",
        ];
        let run = |with_library: bool| -> Result<String, testkit::Skip> {
            let pair = Namespaces::pair()?;
            // Answers are "got 5 ...".
            let _peer = ScriptedPeer::start(&pair.a).unwrap();
            let program = c_program("probe");
            let mut command = if with_library {
                preloaded(&pair.b, &program).unwrap()
            } else {
                pair.b.command(&program)
            };
            command.args([&Pair::ADDRESS_B.to_string(), "7501"]);
            let mut process = Running::start_interactive(command).unwrap();
            Ok(steps(&mut process, &pair, STEPS))
        };
        let expected = or_skip!(run(false));
        let seen = or_skip!(run(true));
        assert_eq!(expected, seen, "steps: {STEPS:#?}");
    });
}
