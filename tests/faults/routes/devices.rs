//! What becomes of connections when their interface is taken from the library, or from the host:
//! they go on, past the kernel or by it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use testkit::{
    Namespace, Namespaces, Pair, SOON, detach_xdp, eventually, or_skip, panic_unless_paused,
};

use crate::routes::servers::{ask, serve};
use crate::routes::stage::Program;

/// A stream from each end to the other, the near end with the library or not.
struct Streams {
    near: Program,
    far: Program,
}

impl Streams {
    fn start(pair: &Pair, ipv6: bool, is_preloaded: bool) -> Self {
        let port = match (ipv6, is_preloaded) {
            (false, false) => "7730",
            (false, true) => "7731",
            (true, false) => "7732",
            (true, true) => "7733",
        };
        let mut streams = Self {
            near: Program::begin_over(
                ipv6,
                &pair.b,
                is_preloaded,
                &["streams", "10.77.0.2", port, "10.77.0.1", port],
            ),
            far: Program::begin_over(
                ipv6,
                &pair.a,
                false,
                &["streams", "10.77.0.1", port, "10.77.0.2", port],
            ),
        };
        streams.near.is_ready();
        streams.far.is_ready();
        streams
    }

    /// Both come to flow, and nothing was lost or wrong.
    fn assert_flow(&mut self, when: &str) {
        for program in [&mut self.near, &mut self.far] {
            program.ask("mark");
        }
        let mut said = [String::new(), String::new()];
        let flow = eventually(SOON, || {
            said = [self.near.ask("report"), self.far.ask("report")];
            said.iter().all(|it| {
                let words: Vec<_> = it.split_whitespace().collect();
                words.len() > 7
                    && words[1] != "0"
                    && words[7].parse().is_ok_and(|it: u32| it < 50_000)
            })
        });
        let is_whole = said
            .iter()
            .all(|it| it.contains(" wrong 0 ") && it.contains(" open"));
        assert!(flow && is_whole, "{when}: {said:?}\n{}", self.near.log());
    }

    /// Whether packets go past the kernel.
    fn are_accelerated(&mut self) -> bool {
        let before = self.near.packets().0;
        std::thread::sleep(Duration::from_millis(50));
        self.near.packets().0 > before
    }
}

fn link_of_b(pair: &Pair, change: &str) -> std::io::Result<String> {
    pair.b.ip(&change.split(' ').collect::<Vec<_>>())
}

/// The host's administrator takes the XDP program away: `ip` is refused, for it belongs to the
/// process, `bpftool link detach` is not.
#[test]
fn the_xdp_program_is_taken_away_under_traffic() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let mut streams = Streams::start(&pair, false, true);
        streams.assert_flow("at first");
        assert!(streams.are_accelerated());
        // The first is about the mode that the driver has, in which there is no program.
        for (off, is_taken) in [("xdp", true), ("xdpgeneric", false)] {
            let said = link_of_b(&pair, &format!("link set dev vb {off} off"));
            assert_eq!(said.is_ok(), is_taken, "{off}: {said:?}");
        }
        assert!(streams.are_accelerated(), "{}", streams.near.log());

        detach_xdp(streams.near.pid()).unwrap();
        streams.assert_flow("without its program");
        let explained = eventually(SOON, || {
            streams.near.log().contains("vb: its device was taken away")
        });
        assert!(explained, "{}", streams.near.log());
        assert!(!streams.are_accelerated(), "{:?}", streams.near.sockets());
        streams.assert_flow("by the kernel");
    });
}

/// The same for a process that serves datagrams and new connections.
#[test]
#[ignore = "with the others it takes ten seconds"]
fn a_server_goes_on_without_its_xdp_program() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        for at in ["0.0.0.0", "10.77.0.2"] {
            let mut server = serve(&pair.b, true, at);
            ask(&pair.a, false, "10.77.0.2");
            assert!(server.packets() > 0);
            detach_xdp(server.process().pid()).unwrap();
            ask(&pair.a, false, "10.77.0.2");
            let before = server.packets();
            ask(&pair.a, false, "10.77.0.2");
            assert_eq!(server.packets(), before, "{:?}", server.sockets());
        }
    });
}

fn made_again(pair: &Pair) {
    let cable = "link add va index 14 type veth peer name vb index 25 netns";
    let cable: Vec<_> = cable.split(' ').chain([pair.b.name()]).collect();
    pair.a.ip(&cable).unwrap();
    set_up(&pair.a, "va", 1);
    set_up_again(pair);
}

/// Brings a link up, with addresses of both families: those of IPv6 go when it goes down.
fn set_up(host: &Namespace, link: &str, number: u32) {
    let mut lines = format!("address replace 10.77.0.{number}/24 dev {link}\nlink set {link} up\n");
    if Path::new("/proc/net/if_inet6").exists() {
        lines += &format!("address replace fd77::{number}/64 dev {link} nodad\n");
    }
    host.ip_batch(&lines).unwrap();
}

fn set_up_again(pair: &Pair) {
    set_up(&pair.b, "vb", 2);
    pair.b.wait_until_running("vb", SOON).unwrap();
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Four,
    Six,
}

const BOTH: &[Family] = &[Family::Four, Family::Six];

/// The change, twice, with streams on the kernel and with the library, which go on past the kernel
/// or by it. New ones are accepted.
fn survive(what: &str, over: &[Family], change: impl Fn(&Pair)) {
    let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
    for ipv6 in over.iter().map(|family| *family == Family::Six) {
        if ipv6 && !has_ipv6 {
            continue;
        }
        panic_unless_paused(|| {
            let namespaces = Namespaces::new();
            let namespaces = if ipv6 { namespaces.ipv6() } else { namespaces };
            let pair = or_skip!(namespaces.create());
            let mut streams =
                [false, true].map(|is_preloaded| Streams::start(&pair, ipv6, is_preloaded));
            for streams in &mut streams {
                streams.assert_flow("at first");
            }
            assert!(streams[1].are_accelerated(), "{}", streams[1].near.log());
            for round in 0..2 {
                change(&pair);
                for streams in &mut streams {
                    streams.assert_flow(&format!("{what}, {ipv6}, round {round}"));
                }
                pair.a.enter(|| exchange_anew(ipv6));
            }
        });
    }
}

/// A new connection to the server with the library.
fn exchange_anew(ipv6: bool) {
    let to: SocketAddr = match ipv6 {
        true => (Pair::IPV6_ADDRESS_B, 7733).into(),
        false => (Pair::ADDRESS_B, 7731).into(),
    };
    let mut stream = TcpStream::connect_timeout(&to, SOON).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(b"anew").unwrap();
    let mut back = [0; 4];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"anew");
}

fn down_and_up(over: &[Family]) {
    survive("down and up", over, |pair| {
        for wait_msec in [0, 300] {
            link_of_b(pair, "link set vb down").unwrap();
            std::thread::sleep(Duration::from_millis(wait_msec));
            set_up_again(pair);
        }
    });
}

#[test]
fn streams_survive_an_interface_that_goes_down_and_up() {
    down_and_up(&[Family::Four]);
}

/// Without its address meanwhile.
#[test]
#[ignore = "with the others it takes ten seconds"]
fn streams_over_ipv6_survive_an_interface_that_goes_down_and_up() {
    down_and_up(&[Family::Six]);
}

#[test]
#[ignore = "with the others it takes ten seconds"]
fn streams_survive_an_interface_that_is_deleted_and_made_again() {
    survive("made again", BOTH, |pair| {
        link_of_b(pair, "link del vb").unwrap();
        std::thread::sleep(Duration::from_millis(300));
        made_again(pair);
    });
}

/// There nothing of the library is left on it.
#[test]
#[ignore = "with the others it takes ten seconds"]
fn streams_survive_an_interface_that_is_in_another_namespace_for_a_while() {
    let elsewhere = or_skip!(Namespace::create("c"));
    survive("moved and back", BOTH, |pair| {
        link_of_b(pair, &format!("link set vb netns {}", elsewhere.name())).unwrap();
        let shown = || elsewhere.ip(&["link", "show", "vb"]).unwrap();
        let is_free = eventually(SOON, || !shown().contains("xdp"));
        assert!(is_free, "{}", shown());
        elsewhere
            .ip(&["link", "set", "vb", "netns", pair.b.name()])
            .unwrap();
        set_up_again(pair);
    });
}
