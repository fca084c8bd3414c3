//! Two hosts with two cables between them, and programs that send across.

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ChildStdin;
use std::time::Duration;

use stats::SocketSnapshot;
use testkit::{Accelerated, Namespace, Namespaces, Pair, SOON, Skip, preloaded};

/// Of host `a`, behind either cable.
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// Of host `a`, one for each cable.
pub(crate) const DEVICES: [&str; 2] = ["va", "wa"];
/// What the library may take longer than the kernel's sockets, which are at once where the change
/// is.
pub(crate) const LATE_MAX_USEC: i64 = 100_000;

/// `va`-`vb` with 10.77.0.0/24, and `wa`-`wb` with 10.78.0.0/24. Host `b` knows a way to [`FAR`] by
/// the first.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) pair: Pair,
}

impl Stage {
    pub(crate) fn new() -> Result<Self, Skip> {
        let pair = Namespaces::pair()?;
        let cable = "link add wa index 14 type veth peer name wb index 25 netns";
        let cable: Vec<_> = cable.split(' ').chain([pair.b.name()]).collect();
        pair.a.ip(&cable).unwrap();
        for host in [&pair.a, &pair.b] {
            host.enter(|| {
                for conf in ["all", "default"] {
                    let settings = [
                        ("rp_filter", "0"),
                        ("arp_notify", "1"),
                        ("ignore_routes_with_linkdown", "1"),
                    ];
                    for (name, value) in settings {
                        let path = format!("/proc/sys/net/ipv4/conf/{conf}/{name}");
                        std::fs::write(path, value).unwrap();
                    }
                }
            });
        }
        let of_a = "address add 10.78.0.1/24 dev wa\naddress add 10.99.0.1/32 dev lo\n\
            link set lo up\nlink set wa addrgenmode none\nlink set wa up\n";
        let of_b = "address add 10.78.0.2/24 dev wb\nlink set wb addrgenmode none\nlink set wb up\n\
            route add 10.99.0.0/24 via 10.77.0.1\n";
        pair.a.ip_batch(of_a).unwrap();
        pair.b.ip_batch(of_b).unwrap();
        pair.b.wait_until_running("wb", SOON).unwrap();
        // The first lookups of the neighbours are no part of the tests.
        let stage = Self { pair };
        for gateway in ["10.77.0.1", "10.78.0.1"] {
            let socket = stage
                .pair
                .b
                .enter(|| std::net::UdpSocket::bind("0.0.0.0:0"));
            socket.unwrap().send_to(b"x", (gateway, 9)).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
        Ok(stage)
    }

    /// Frames that have come to an interface of host `a`.
    pub(crate) fn received_frames(&self, link: &str) -> u64 {
        let said = self
            .pair
            .a
            .ip(&["-s", "-o", "link", "show", link])
            .unwrap_or_default();
        let words = said
            .split("RX:")
            .nth(1)
            .into_iter()
            .flat_map(str::split_whitespace);
        let mut numbers = words.filter_map(|word| word.parse().ok());
        numbers.nth(1).unwrap_or(0)
    }

    /// Does a line of `ip` on host `b`, or on `a` if it begins with "a:".
    pub(crate) fn change(&self, line: &str) {
        let (host, line) = match line.strip_prefix("a: ") {
            Some(line) => (&self.pair.a, line),
            None => (&self.pair.b, line),
        };
        for line in line.split("; ") {
            let arguments: Vec<_> = line.split(' ').collect();
            host.ip(&arguments)
                .unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}

/// A program that answers lines.
#[derive(Debug)]
pub(crate) struct Program {
    process: Accelerated,
    input: ChildStdin,
    is_preloaded: bool,
    read: usize,
}

impl Program {
    pub(crate) fn start(host: &Namespace, is_preloaded: bool, arguments: &[&str]) -> Self {
        let mut program = Self::begin(host, is_preloaded, arguments);
        program.is_ready();
        program
    }

    /// The same for one that is ready only when others are.
    pub(crate) fn begin(host: &Namespace, is_preloaded: bool, arguments: &[&str]) -> Self {
        Self::begin_over(false, host, is_preloaded, arguments)
    }

    /// The same with IPv6 addresses, if `ipv6`, in the place of those that it is told.
    pub(crate) fn begin_over(
        ipv6: bool,
        host: &Namespace,
        is_preloaded: bool,
        arguments: &[&str],
    ) -> Self {
        let mut command = if is_preloaded {
            preloaded(host, &program()).unwrap()
        } else {
            host.command(program())
        };
        command.args(arguments);
        if ipv6 {
            command.env("CASE_OVER_IPV6", "real");
        }
        let mut process = Accelerated::start(command).unwrap();
        let input = process.process().stdin().unwrap();
        Self {
            process,
            input,
            is_preloaded,
            read: "ready\n".len(),
        }
    }

    pub(crate) fn is_ready(&mut self) {
        let process = self.process.process();
        let is_ready = process.wait_for_output("ready", SOON);
        assert!(is_ready, "{}{}", process.stdout(), process.stderr());
    }

    /// What the program answers to a line.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").unwrap();
        let end = match line {
            "mark" => "marked ",
            "clock" => "clock ",
            _ => "reported\n",
        };
        let process = self.process.process();
        let mut answer = String::new();
        let is_there = testkit::eventually(SOON, || {
            answer = process.stdout().split_off(self.read);
            answer.contains(end) && answer.ends_with('\n')
        });
        assert!(is_there, "{line}: {answer}\n{}", process.stderr());
        self.read += answer.len();
        answer
    }

    /// The number that an answer ends with.
    pub(crate) fn ask_time(&mut self, line: &str) -> i64 {
        let answer = self.ask(line);
        answer.split_whitespace().last().unwrap().parse().unwrap()
    }

    /// Packets past the kernel, and through it.
    pub(crate) fn packets(&self) -> (u64, u64) {
        if !self.is_preloaded {
            return (0, 0);
        }
        (self.process.packets(), self.process.kernel_packets())
    }

    pub(crate) fn sockets(&self) -> Vec<SocketSnapshot> {
        self.process.sockets()
    }

    pub(crate) fn pid(&mut self) -> u32 {
        self.process.process().pid()
    }

    pub(crate) fn log(&mut self) -> String {
        self.process.process().stderr()
    }
}

fn program() -> PathBuf {
    testkit::c_program("traffic")
}
