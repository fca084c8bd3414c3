//! What happens in one run: programs execute statements, one of them on the kernel or with the
//! library, and others send to it.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::ChildStdin;

use testkit::{Accelerated, Namespace, Pair, Running, SOON, eventually, preloaded};

/// Executes what it is told, a statement in each line.
const PROGRAM: &str = r"
import ctypes, os, select, socket, struct, sys, threading, time
ADDRESS = sys.argv[1]
ANY = '0.0.0.0'
IP, REUSE = socket.IPPROTO_IP, (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
IF, TTL, LOOP = socket.IP_MULTICAST_IF, socket.IP_MULTICAST_TTL, socket.IP_MULTICAST_LOOP
IP6, VB = socket.IPPROTO_IPV6, 23
IF6, HOPS, LOOP6 = socket.IPV6_MULTICAST_IF, socket.IPV6_MULTICAST_HOPS, socket.IPV6_MULTICAST_LOOP

def udp(address, port, reuse=True):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if reuse:
        s.setsockopt(*REUSE)
    s.bind((address, port))
    return s

def udp6(address, port, only=0, scope=0, reuse=True):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    if reuse:
        s.setsockopt(*REUSE)
    s.setsockopt(IP6, socket.IPV6_V6ONLY, only)
    s.bind((address, port, 0, scope))
    return s

def member(port, group):
    s = udp(ANY, port)
    join(s, group)
    return s

def member6(port, group):
    s = udp6('::', port)
    join6(s, group)
    return s

# SO_REUSEPORT, too, as GLib does.
def sharing(address, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for name in socket.SO_REUSEADDR, socket.SO_REUSEPORT:
        s.setsockopt(socket.SOL_SOCKET, name, 1)
    s.bind((address, port))
    return s

# Shows what the headers of datagrams say, too.
def listener(port, *groups):
    s = udp(ANY, port)
    s.setsockopt(IP, 12, 1) # IP_RECVTTL
    s.setsockopt(IP, 13, 1) # IP_RECVTOS
    for group in groups:
        join(s, group)
    return s

def listener6(port, *groups):
    s = udp6('::', port)
    for name in socket.IPV6_RECVPKTINFO, socket.IPV6_RECVHOPLIMIT, socket.IPV6_RECVTCLASS:
        s.setsockopt(IP6, name, 1)
    for group in groups:
        join6(s, group, 0)
    return s

def mreq(group, interface):
    if isinstance(interface, int):
        return struct.pack('4s4si', socket.inet_aton(group), bytes(4), interface)
    return socket.inet_aton(group) + socket.inet_aton(interface)

def option(s, name, value, level=IP):
    try:
        s.setsockopt(level, name, value)
        print('set', flush=True)
    except OSError as error:
        print(error.errno, flush=True)

def join(s, group, interface=ADDRESS):
    option(s, socket.IP_ADD_MEMBERSHIP, mreq(group, interface))

def leave(s, group, interface=ADDRESS):
    option(s, socket.IP_DROP_MEMBERSHIP, mreq(group, interface))

def mreq6(group, index):
    return socket.inet_pton(socket.AF_INET6, group) + struct.pack('i', index)

def join6(s, group, index=VB):
    option(s, socket.IPV6_JOIN_GROUP, mreq6(group, index), IP6)

def leave6(s, group, index=VB):
    option(s, socket.IPV6_LEAVE_GROUP, mreq6(group, index), IP6)

def option6(s, name, value):
    option(s, name, value, IP6)

def by(s, interface):
    option(s, IF, mreq('0.0.0.0', interface) if isinstance(interface, int) else socket.inet_aton(interface))

# struct group_req, group_source_req, group_filter, ip_mreq_source and ip_msfilter.
def name(address):
    if ':' in address:
        return struct.pack('HHI16s104x', socket.AF_INET6, 0, 0, socket.inet_pton(socket.AF_INET6, address))
    return struct.pack('HH4s120x', socket.AF_INET, 0, socket.inet_aton(address))

def of_interface(index, *addresses):
    return struct.pack('I4x', index) + b''.join(map(name, addresses))

def filter_of(index, group, mode, *sources):
    return of_interface(index, group) + struct.pack('II', mode, len(sources)) + b''.join(map(name, sources))

def sources(*addresses):
    return b''.join(map(socket.inet_aton, addresses))

def show_filter(s, index, group):
    level, any, at, len_ = (IP6, '::', 152, 16) if ':' in group else (IP, ANY, 148, 4)
    room = ctypes.create_string_buffer(filter_of(index, group, 0, *4 * [any]))
    size = ctypes.c_uint(len(room) - 1)
    if ctypes.CDLL(None).getsockopt(s.fileno(), level, 48, room, ctypes.byref(size)) < 0:
        return print('no member', flush=True)
    mode, count = struct.unpack_from('II', room, 136)
    print(mode, count, *sorted(room[at + 128 * i:at + len_ + 128 * i] for i in range(min(count, 4))), flush=True)

def send(s, text, *to):
    try:
        print(s.sendto(text.encode(), to) if to else s.send(text.encode()), flush=True)
    except OSError as error:
        print(error.errno, flush=True)

def take(s):
    seen = []
    s.settimeout(0.3)
    try:
        while True:
            data, control, flags, source = s.recvmsg(100, 100)
            of_header = ['/%d' % value[0] for _, _, value in control]
            seen.append(data.decode() + '<' + source[0] + ''.join(of_header))
    except TimeoutError:
        print(*seen, flush=True)

# As before Linux 6.15: nobody is told of groups (NETLINK_ADD_MEMBERSHIP).
def deny_notifications():
    number = {'x86_64': 54, 'aarch64': 208}[os.uname().machine]
    steps = (0x20, 0, 0, 0), (0x15, 0, 5, number), (0x20, 0, 0, 24), (0x15, 0, 3, 270), \
        (0x20, 0, 0, 32), (0x15, 0, 1, 1), (6, 0, 0, 0x50016), (6, 0, 0, 0x7fff0000)
    room = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
    filter = ctypes.create_string_buffer(struct.pack('H6xQ', len(steps), ctypes.addressof(room)))
    prctl = ctypes.CDLL(None).prctl
    print(prctl(38, 1, 0, 0, 0), prctl(22, 2, filter), flush=True)

def in_child(s, w):
    s.settimeout(5)
    os.write(w, b'x')
    print(s.recv(100).decode(), flush=True)
    os._exit(0)

def child_joins(port, group):
    r, w = os.pipe()
    child = os.fork()
    if child:
        os.read(r, 1)
        return child
    s = udp(ANY, port)
    join(s, group)
    in_child(s, w)

# To each group every two milliseconds.
def feed(port, *groups):
    s = udp(ADDRESS, 0)
    by(s, ADDRESS)
    def run():
        for _ in range(1000):
            for group in groups:
                s.sendto(b'fed', (group, port))
            time.sleep(0.002)
    threading.Thread(target=run, daemon=True).start()

# How long it takes until who joins now receives from a group.
def wait_for(group, port):
    s = udp(group, port)
    s.settimeout(5)
    join(s, group)
    joined = time.monotonic()
    s.recv(100)
    return time.monotonic() - joined

print('ready', flush=True)
for line in sys.stdin:
    exec(line)
    print('done', flush=True)
";

/// What happens in one run.
pub(crate) enum Step {
    /// The program under test executes a statement.
    Do(&'static str),
    /// A program of the peer's does, on the kernel.
    Peer(&'static str),
    /// Another program of the same host does, on the kernel.
    Other(&'static str),
    /// The peer sends a text to a group and port.
    Send(&'static str, &'static str),
    /// The same from one of its addresses.
    SendFrom(&'static str, &'static str, &'static str),
}

/// After each statement both sources send to a group and port, and the program shows what it has
/// then.
pub(crate) fn after_each(
    statements: &[&'static str],
    [one, nine]: [&'static str; 2],
    to: &'static str,
    show: &'static str,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for statement in statements {
        steps.push(Step::Do(statement));
        steps.push(Step::SendFrom(one, to, "one"));
        steps.push(Step::SendFrom(nine, to, "nine"));
        steps.push(Step::Do(show));
    }
    steps
}

/// What the program's sockets that are open at the end have received and sent, past the kernel and
/// through it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) received: (u64, u64),
    pub(crate) sent: (u64, u64),
}

/// What all programs say on the kernel.
pub(crate) fn on_kernel(pair: &Pair, steps: &[Step]) -> String {
    let mut command = pair.b.command("python3");
    command.args(arguments(Pair::ADDRESS_B));
    let mut process = Running::start_interactive(command).unwrap();
    let mut run = Run::new(pair, &mut process);
    for step in steps {
        run.take(&mut process, step);
    }
    let said = run.end();
    process.wait(SOON).unwrap().stdout + &said
}

/// What they say when one of them has the library, what it received and sent, and its log.
pub(crate) fn with_library(
    pair: &Pair,
    environment: &[(&str, &str)],
    steps: &[Step],
) -> (String, Counts, String) {
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command
        .args(arguments(Pair::ADDRESS_B))
        .env("VMA_TRACELEVEL", "debug")
        .envs(environment.iter().copied());
    let mut program = Accelerated::start(command).unwrap();
    let mut run = Run::new(pair, program.process());
    for step in steps {
        run.take(program.process(), step);
    }
    let mut counts = Counts::default();
    for socket in program.sockets() {
        counts.received.0 += socket.rx_packets;
        counts.received.1 += socket.rx_os_packets;
        counts.sent.0 += socket.tx_packets;
        counts.sent.1 += socket.tx_os_packets;
    }
    let said = run.end();
    let finished = program.into_process().wait(SOON).unwrap();
    (finished.stdout + &said, counts, finished.stderr)
}

fn arguments(address: Ipv4Addr) -> [String; 4] {
    ["-u", "-c", PROGRAM, &address.to_string()].map(str::to_owned)
}

struct Run<'a> {
    pair: &'a Pair,
    /// Of IPv4 and IPv6, as far as they are used.
    senders: [Option<UdpSocket>; 2],
    program: Input,
    peer: Option<(Running, Input)>,
    other: Option<(Running, Input)>,
}

/// The standard input of a program, and how many statements it has had.
struct Input {
    stdin: ChildStdin,
    done: usize,
}

impl Input {
    fn new(process: &mut Running) -> Self {
        Self {
            stdin: process.stdin().unwrap(),
            done: 0,
        }
    }

    fn execute(&mut self, process: &mut Running, statement: &str) {
        writeln!(self.stdin, "{statement}").unwrap();
        self.done += 1;
        let is_done = || process.stdout().matches("done\n").count() >= self.done;
        let in_time = eventually(SOON, is_done);
        assert!(in_time, "{statement}: {}", process.stderr());
    }
}

impl<'a> Run<'a> {
    fn new(pair: &'a Pair, process: &mut Running) -> Self {
        Self {
            pair,
            senders: [None, None],
            program: Input::new(process),
            peer: None,
            other: None,
        }
    }

    fn take(&mut self, process: &mut Running, step: &Step) {
        let pair = self.pair;
        match step {
            Step::Do(statement) => self.program.execute(process, statement),
            Step::Peer(statement) => {
                let start = || on_host(&pair.a, Pair::ADDRESS_A);
                let (process, input) = self.peer.get_or_insert_with(start);
                input.execute(process, statement);
            }
            Step::Other(statement) => {
                let start = || on_host(&pair.b, Pair::ADDRESS_B);
                let (process, input) = self.other.get_or_insert_with(start);
                input.execute(process, statement);
            }
            Step::Send(to, text) => {
                let (sender, from): (_, IpAddr) = match to.starts_with('[') {
                    false => (&mut self.senders[0], Pair::ADDRESS_A.into()),
                    true => (&mut self.senders[1], Pair::IPV6_ADDRESS_A.into()),
                };
                let open = || sender_at(pair, (from, 9000).into());
                let sender = sender.get_or_insert_with(open);
                sender.send_to(text.as_bytes(), *to).unwrap();
            }
            Step::SendFrom(from, to, text) => {
                let from = match from.contains(':') {
                    false => format!("{from}:9001"),
                    true => format!("[{from}]:9001"),
                };
                let sender = sender_at(pair, from.parse().unwrap());
                sender.send_to(text.as_bytes(), *to).unwrap();
            }
        }
    }

    /// Ends the programs, and returns what all but that under test have said.
    fn end(self) -> String {
        let mut said = String::new();
        for (process, input) in [self.peer, self.other].into_iter().flatten() {
            drop(input);
            said += &process.wait(SOON).unwrap().stdout;
        }
        said
    }
}

fn on_host(host: &Namespace, address: Ipv4Addr) -> (Running, Input) {
    let mut command = host.command("python3");
    command.args(arguments(address));
    let mut process = Running::start_interactive(command).unwrap();
    let input = Input::new(&mut process);
    (process, input)
}

fn sender_at(pair: &Pair, from: SocketAddr) -> UdpSocket {
    pair.a.enter(|| UdpSocket::bind(from)).unwrap()
}

/// The ways that the receiver waits.
pub(crate) const VARIANTS: &[(&str, &[(&str, &str)])] = &[
    ("default settings", &[]),
    (
        "sleeping at once",
        &[("VMA_RX_POLL", "0"), ("VMA_SELECT_POLL", "0")],
    ),
];

/// The same on the kernel and with the library; of the datagrams received so many past the kernel,
/// and so many through it.
pub(crate) fn compare(pair: &Pair, steps: &[Step], past: u64, through: u64) {
    let expected = on_kernel(pair, steps);
    for (name, environment) in VARIANTS {
        let (seen, counts, log) = with_library(pair, environment, steps);
        let log = testkit::log_tail(&log);
        assert_eq!(seen, expected, "{name}: {log}");
        let expected = (past, through);
        assert_eq!(counts.received, expected, "{name}: past and through: {log}");
    }
}

/// The same for what is sent, too, and with default settings only. Returns the library's log.
pub(crate) fn compare_both(
    pair: &Pair,
    environment: &[(&str, &str)],
    steps: &[Step],
    counts: Counts,
) -> String {
    let expected = on_kernel(pair, steps);
    let (seen, seen_counts, log) = with_library(pair, environment, steps);
    let tail = testkit::log_tail(&log);
    assert_eq!(seen, expected, "{tail}");
    assert_eq!(seen_counts, counts, "{tail}");
    log
}
