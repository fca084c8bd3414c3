//! Changes of the network under traffic: link down and up, address, neighbour and route.

use std::net::UdpSocket;
use std::time::Duration;

use testkit::{
    Accelerated, Namespaces, Over, Pair, SOON, c_program, eventually, or_skip, panic_unless_paused,
    preloaded,
};

/// How long a change of the network may take until a program sees it.
const SETTLE: Duration = Duration::from_millis(400);

/// A preloaded echo in `b` and a client on the kernel in `a`.
struct Traffic {
    pair: Pair,
    echo: Accelerated,
    client: UdpSocket,
    number: u32,
}

impl Traffic {
    const PORT: u16 = 7500;

    fn start(pair: Pair, environment: &[(&str, &str)]) -> Self {
        let mut command = preloaded(&pair.b, &c_program("echo")).unwrap();
        command
            .args([Pair::ADDRESS_B.to_string(), Self::PORT.to_string()])
            .envs(environment.iter().copied());
        let mut echo = Accelerated::start(command).unwrap();
        assert!(echo.process().wait_for_output("ready", SOON));
        let client = pair
            .a
            .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
            .unwrap();
        let mut traffic = Self {
            pair,
            echo,
            client,
            number: 0,
        };
        traffic.assert_flows("at first");
        traffic
    }

    /// Whether a datagram comes back soon.
    fn flows(&mut self) -> bool {
        self.comes_back(Duration::from_millis(100))
    }

    fn comes_back(&mut self, timeout: Duration) -> bool {
        self.client.set_read_timeout(Some(timeout)).unwrap();
        self.number += 1;
        let sent = self.number.to_be_bytes();
        if self
            .client
            .send_to(&sent, (Pair::ADDRESS_B, Self::PORT))
            .is_err()
        {
            return false;
        }
        let mut buffer = [0; 64];
        // Echoes of earlier numbers may come late.
        while let Ok(len) = self.client.recv(&mut buffer) {
            if buffer[..len] == sent {
                return true;
            }
        }
        false
    }

    /// Traffic comes to flow past the kernel, and nothing is lost then.
    fn assert_flows(&mut self, when: &str) {
        let resumed = eventually(SOON, || self.flows());
        assert!(resumed, "{when}: no echo\n{}", self.words());
        let accelerated = eventually(SOON, || {
            let before = self.echo.packets();
            self.flows() && self.echo.packets() == before + 2
        });
        assert!(
            accelerated,
            "{when}: echoes come through the kernel: {:?}\n{}",
            self.echo.sockets(),
            self.words()
        );
        for _ in 0..200 {
            assert!(
                self.comes_back(SOON),
                "{when}: an echo is missing\n{}",
                self.words()
            );
        }
    }

    fn assert_silence(&mut self, when: &str) {
        std::thread::sleep(SETTLE);
        assert!(!self.flows(), "{when}: an echo");
    }

    fn change(&mut self, change: &str) {
        let arguments: Vec<_> = change.split(' ').collect();
        self.pair.b.ip(&arguments).unwrap();
    }

    fn words(&mut self) -> String {
        let state = self.echo.process().status();
        format!(
            "{state:?}\n{}{}",
            self.echo.process().stdout(),
            self.echo.process().stderr()
        )
    }
}

fn down_and_up(environment: &[(&str, &str)]) {
    let mut traffic = Traffic::start(or_skip!(Namespaces::pair()), environment);
    for round in 0..3 {
        traffic.change("link set vb down");
        traffic.assert_silence("down");
        traffic.change("link set vb up");
        traffic.assert_flows(&format!("up again, round {round}"));
        // The other end of the cable.
        traffic.pair.a.ip(&["link", "set", "va", "down"]).unwrap();
        traffic.assert_silence("no carrier");
        traffic.pair.a.ip(&["link", "set", "va", "up"]).unwrap();
        traffic.assert_flows(&format!("carrier again, round {round}"));
    }
    // Quick changes, of which a follower may see only the last.
    for _ in 0..20 {
        traffic
            .pair
            .b
            .ip_batch("link set vb down\nlink set vb up\n")
            .unwrap();
    }
    traffic.assert_flows("after many changes");
}

#[test]
fn an_interface_goes_down_and_up() {
    panic_unless_paused(|| {
        down_and_up(&[]);
    });
}

#[test]
fn an_interface_goes_down_and_up_under_a_polling_process() {
    panic_unless_paused(|| {
        down_and_up(&[("VMA_SPEC", "latency")]);
    });
}

#[test]
fn an_address_is_removed_and_added_again() {
    panic_unless_paused(|| {
        let mut traffic = Traffic::start(or_skip!(Namespaces::pair()), &[]);
        for round in 0..3 {
            traffic.change("address del 10.77.0.2/24 dev vb");
            traffic.assert_silence("no address");
            traffic.change("address add 10.77.0.2/24 dev vb");
            traffic.assert_flows(&format!("address again, round {round}"));
        }
        traffic.change("address add 10.77.0.3/24 dev vb");
        traffic.assert_flows("another address");
        traffic.change("address del 10.77.0.3/24 dev vb");
        traffic.assert_flows("no other address");
    });
}

#[test]
fn neighbours_are_forgotten_and_change() {
    panic_unless_paused(|| {
        let mut traffic = Traffic::start(or_skip!(Namespaces::pair()), &[]);
        for _ in 0..3 {
            traffic.change("neigh flush all");
            traffic.assert_flows("neighbours flushed");
        }
        // The peer's address moves to another card.
        traffic
            .pair
            .a
            .ip(&["link", "set", "va", "address", "02:00:00:00:00:77"])
            .unwrap();
        traffic.change("neigh flush all");
        traffic.assert_flows("the peer's hardware address has changed");
        traffic.change("neigh replace 10.77.0.1 lladdr 02:00:00:00:00:99 dev vb nud permanent");
        traffic.assert_silence("a wrong neighbour");
        traffic.change("neigh del 10.77.0.1 dev vb");
        traffic.assert_flows("the right neighbour");
    });
}

#[test]
fn our_own_hardware_address_changes() {
    panic_unless_paused(|| {
        for mode in ["auto", "native"] {
            let mode = [("VMA_XDP_MODE", mode)];
            let mut traffic = Traffic::start(or_skip!(Namespaces::pair()), &mode);
            traffic.change("link set vb address 02:00:00:00:00:78");
            traffic.pair.a.ip(&["neigh", "flush", "all"]).unwrap();
            traffic.assert_flows("our hardware address has changed");
        }
    });
}

#[test]
fn the_link_is_deleted_and_made_again() {
    panic_unless_paused(|| {
        let mut traffic = Traffic::start(or_skip!(Namespaces::pair()), &[]);
        traffic.change("link del vb");
        std::thread::sleep(SETTLE);
        assert!(!traffic.flows());
        let near = "link add va index 14 type veth peer name vb index 25 netns";
        let near: Vec<_> = near.split(' ').chain([traffic.pair.b.name()]).collect();
        traffic.pair.a.ip(&near).unwrap();
        let address = "address add 10.77.0.1/24 dev va\nlink set va up\n";
        traffic.pair.a.ip_batch(address).unwrap();
        traffic.change("address add 10.77.0.2/24 dev vb");
        traffic.change("link set vb up");
        traffic.assert_flows("another link of the same name");
    });
}

impl Traffic {
    /// The address moves to another link.
    fn move_address(&mut self, from: &str, to: &str) {
        for change in [
            format!("address del 10.77.0.2/24 dev {from}"),
            format!("address add 10.77.0.2/24 dev {to}"),
        ] {
            self.change(&change);
        }
        self.pair.a.ip(&["neigh", "flush", "all"]).unwrap();
    }
}

#[test]
fn a_bridge_over_an_interface_is_the_kernels() {
    panic_unless_paused(|| {
        let mut traffic = Traffic::start(or_skip!(Namespaces::pair()), &[]);
        traffic.change("link add over type bridge");
        traffic.change("link set vb master over");
        traffic.change("link set over up");
        traffic.move_address("vb", "over");
        assert!(eventually(SOON, || traffic.flows()));
        let before = traffic.echo.packets();
        assert!((0..20).all(|_| traffic.comes_back(SOON)));
        let sockets = traffic.echo.sockets();
        assert_eq!(traffic.echo.packets(), before, "{sockets:?}");
        assert_eq!(sockets[0].detail, "over: a bridge", "{sockets:?}");
        traffic.change("link set vb nomaster");
        traffic.change("link del over");
        traffic.change("address add 10.77.0.2/24 dev vb");
        traffic.pair.a.ip(&["neigh", "flush", "all"]).unwrap();
        traffic.assert_flows("without the bridge");
    });
}

#[test]
fn a_macvlan_over_an_interface_is_another_interface() {
    panic_unless_paused(|| {
        let mut traffic = Traffic::start(or_skip!(Namespaces::pair()), &[]);
        traffic.change("link add link vb over type macvlan mode bridge");
        traffic.change("link set over up");
        traffic.move_address("vb", "over");
        traffic.assert_flows("over it");
        traffic.move_address("over", "vb");
        traffic.assert_flows("without it");
        traffic.change("link del over");
        traffic.assert_flows("alone");
    });
}

#[test]
#[ignore = "takes a kernel with bonds: cargo xtask machine"]
fn a_bond_goes_on_by_its_other_link() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::new().over(Over::Bond).create());
        pair.add_second_link();
        let mut traffic = Traffic::start(pair, &[]);
        for link in ["under", "second", "under"] {
            traffic.change(&format!("link set {link} down"));
            traffic.assert_flows(&format!("{link} is down"));
            traffic.change(&format!("link set {link} up"));
            traffic.assert_flows(&format!("{link} is up again"));
        }
    });
}

#[test]
fn ipsec_policies_are_kept_to() {
    panic_unless_paused(|| {
        let mut traffic = Traffic::start(or_skip!(Namespaces::pair()), &[]);
        for round in 0..2 {
            traffic.change("xfrm policy add dir in src 10.77.0.1 dst 10.77.0.2 action block");
            traffic.assert_silence("blocked");
            traffic.change("xfrm policy flush");
            traffic.assert_flows(&format!("no policy, round {round}"));
        }
        // One that is for others leaves all to the kernel, too: it alone knows which policy is for
        // which packet.
        traffic.change("xfrm policy add dir out src 192.0.2.0/24 dst 198.51.100.0/24 action block");
        std::thread::sleep(SETTLE);
        let before = traffic.echo.packets();
        assert!((0..20).all(|_| traffic.comes_back(SOON)));
        assert_eq!(
            traffic.echo.packets(),
            before,
            "{:?}",
            traffic.echo.sockets()
        );
        traffic.change("xfrm policy flush");
        traffic.assert_flows("no policy");
    });
}

#[test]
fn ipsec_policies_from_before_are_kept_to() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let policy = "xfrm policy add dir out src 192.0.2.0/24 dst 198.51.100.0/24 action block";
        pair.b.ip(&policy.split(' ').collect::<Vec<_>>()).unwrap();
        let mut command = preloaded(&pair.b, &c_program("echo")).unwrap();
        command.args([Pair::ADDRESS_B.to_string(), "7501".to_owned()]);
        let mut echo = Accelerated::start(command).unwrap();
        assert!(echo.process().wait_for_output("ready", SOON));
        let client = pair
            .a
            .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
            .unwrap();
        client.set_read_timeout(Some(SOON)).unwrap();
        for _ in 0..20 {
            client.send_to(b"x", (Pair::ADDRESS_B, 7501)).unwrap();
            client.recv(&mut [0; 8]).unwrap();
        }
        assert_eq!(echo.packets(), 0, "{:?}", echo.sockets());
        // The last answer is here before the program counts it.
        let counted = eventually(SOON, || echo.kernel_packets() == 40);
        assert!(counted, "{:?}", echo.sockets());
    });
}
