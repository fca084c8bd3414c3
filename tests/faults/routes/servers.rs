//! Servers and clients on a host with two interfaces: at any address, and with both interfaces in
//! one subnet.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::thread;

use testkit::{Accelerated, Namespace, SOON, eventually, or_skip, panic_unless_paused, preloaded};

use crate::routes::stage::Stage;

const PORT: &str = "7720";
/// That a client of `anywhere.c` sends.
const DATAGRAMS: u64 = 200;

fn program() -> PathBuf {
    testkit::c_program("anywhere")
}

fn start(host: &Namespace, is_preloaded: bool, arguments: [&str; 3]) -> Accelerated {
    let mut command = match is_preloaded {
        true => preloaded(host, &program()).unwrap(),
        false => host.command(program()),
    };
    command.args(arguments);
    Accelerated::start(command).unwrap()
}

/// Echoes over UDP and TCP.
pub(crate) fn serve(host: &Namespace, is_preloaded: bool, address: &str) -> Accelerated {
    let mut server = start(host, is_preloaded, ["serve", address, PORT]);
    let process = server.process();
    let is_ready = process.wait_for_output("ready", SOON);
    assert!(is_ready, "{}{}", process.stdout(), process.stderr());
    server
}

/// A client of such echoes. What it says.
pub(crate) fn ask(host: &Namespace, is_preloaded: bool, address: &str) -> String {
    let client = start(host, is_preloaded, ["ask", address, PORT]);
    let finished = client.into_process().wait(SOON).unwrap();
    let said = format!("{address}: {}{}", finished.stdout, finished.stderr);
    assert!(finished.status.success(), "{said}");
    finished.stdout
}

/// Packets that the rings of each interface have received.
fn received(server: &Accelerated) -> HashMap<String, u64> {
    let rings = server.reader().rings().unwrap();
    let of_ring = |it: stats::RingSnapshot| (it.ifname, it.rx_packets);
    rings.into_iter().map(of_ring).collect()
}

#[test]
fn a_server_at_any_address_has_clients_on_both_interfaces_at_once() {
    panic_unless_paused(|| {
        let stage = or_skip!(Stage::new());
        let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
        let mut targets = vec!["10.77.0.2", "10.78.0.2"];
        if has_ipv6 {
            for (host, number) in [(&stage.pair.a, 1), (&stage.pair.b, 2)] {
                for (name, net) in [("v", "fd77"), ("w", "fd78")] {
                    let link = format!("{name}{}", ["", "a", "b"][number]);
                    let address = format!("{net}::{number}/64");
                    host.ip(&["address", "add", &address, "dev", &link, "nodad"])
                        .unwrap();
                }
            }
        }
        for any in ["0.0.0.0", "::"] {
            if any == "::" {
                if !has_ipv6 {
                    break;
                }
                targets.extend(["fd77::2", "fd78::2"]);
            }
            let server = serve(&stage.pair.b, true, any);
            thread::scope(|scope| {
                for target in &targets {
                    scope.spawn(|| ask(&stage.pair.a, false, target));
                }
            });
            let expected = targets.len() as u64 / 2 * (DATAGRAMS + 10);
            let mut seen = HashMap::new();
            let all_came_past_the_kernel = eventually(SOON, || {
                seen = received(&server);
                ["vb", "wb"]
                    .iter()
                    .all(|name| seen.get(*name) >= Some(&expected))
            });
            assert!(all_came_past_the_kernel, "{any}: {seen:?}, {expected} each");
        }
    });
}

/// The other interface stays, and what is made in the place of the lost one is the kernel's.
#[test]
#[ignore = "with the others it takes ten seconds"]
fn a_server_at_any_address_loses_one_of_its_interfaces() {
    panic_unless_paused(|| {
        let stage = or_skip!(Stage::new());
        let mut server = serve(&stage.pair.b, true, "0.0.0.0");
        for address in ["10.77.0.2", "10.78.0.2"] {
            ask(&stage.pair.a, false, address);
        }
        stage.change("link del wb");
        let before = received(&server)["vb"];
        ask(&stage.pair.a, false, "10.77.0.2");
        let expected = before + DATAGRAMS + 10;
        let is_past_kernel = eventually(SOON, || received(&server)["vb"] >= expected);
        assert!(is_past_kernel, "{:?}", server.sockets());
        // With the number that the lost one had, too.
        let cable = "link add wa index 14 type veth peer name wb index 25 netns";
        let cable: Vec<_> = cable.split(' ').chain([stage.pair.b.name()]).collect();
        stage.pair.a.ip(&cable).unwrap();
        for change in [
            "a: address add 10.78.0.1/24 dev wa",
            "a: link set wa up",
            "address add 10.78.0.2/24 dev wb",
            "link set wb up",
        ] {
            stage.change(change);
        }
        stage.pair.a.wait_until_running("wa", SOON).unwrap();
        stage.pair.b.wait_until_running("wb", SOON).unwrap();
        for address in ["10.78.0.2", "10.77.0.2"] {
            ask(&stage.pair.a, false, address);
        }
        assert!(server.process().status().unwrap().is_none());
    });
}

/// Both cables end in a bridge of host `a`, and both interfaces of `b` are in its subnet.
struct OneSubnet {
    stage: Stage,
}

impl OneSubnet {
    fn new() -> Result<Self, testkit::Skip> {
        let stage = Stage::new()?;
        stage
            .pair
            .a
            .ip(&[
                "link",
                "add",
                "name",
                "over",
                "type",
                "bridge",
                "forward_delay",
                "0",
            ])
            .map_err(|error| testkit::Skip::new(format!("no bridge: {error}")))?;
        for change in [
            "a: address flush dev va; address flush dev wa; link set va master over; link set wa master over",
            "a: address add 10.77.0.1/24 dev over; link set over up",
            "address flush dev wb; address add 10.77.0.3/24 dev wb",
        ] {
            let host = if change.starts_with("a: ") { "a: " } else { "" };
            for line in change.trim_start_matches("a: ").split("; ") {
                stage.change(&format!("{host}{line}"));
            }
        }
        stage.pair.a.wait_until_running("over", SOON).unwrap();
        Ok(Self { stage })
    }

    /// Host `a` takes one interface of `b` for where an address is, as when both have answered its
    /// ARP.
    fn comes_in_by(&self, address: &str, link: &str) {
        let shown = self.stage.pair.b.ip(&["-o", "link", "show", link]).unwrap();
        let mac = shown.split("link/ether ").nth(1).unwrap();
        let mac = mac.split(' ').next().unwrap();
        let line = format!("a: neigh replace {address} lladdr {mac} dev over nud permanent");
        self.stage.change(&line);
    }
}

/// Whatever the other interface gets for an address is the socket's that has it, as on the kernel.
#[test]
#[ignore = "with the others it takes ten seconds"]
fn packets_for_an_address_come_by_another_interface_of_the_subnet() {
    panic_unless_paused(|| {
        let net = or_skip!(OneSubnet::new());
        let (a, b) = (&net.stage.pair.a, &net.stage.pair.b);
        for [first, second] in [["vb", "wb"], ["wb", "vb"], ["wb", "wb"]] {
            net.comes_in_by("10.77.0.2", first);
            net.comes_in_by("10.77.0.3", second);
            for is_preloaded in [false, true] {
                for at in ["0.0.0.0", "10.77.0.2", "10.77.0.3"] {
                    let _server = serve(b, is_preloaded, at);
                    for target in ["10.77.0.2", "10.77.0.3"] {
                        if at == "0.0.0.0" || at == target {
                            ask(a, false, target);
                        }
                    }
                }
                // Its source is the kernel's choice, and what comes back takes the way that `a`
                // knows.
                let _server = serve(a, false, "10.77.0.1");
                let said = ask(b, is_preloaded, "10.77.0.1");
                assert!(said.contains("from 10.77.0.2\n"), "{said}");
            }
        }
    });
}
