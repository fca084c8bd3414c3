//! A program in a namespace whose only link is Ethernet as the stack: a preloaded library finds
//! what it needs there.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use testkit::{Namespace, Namespaces, Pair, RawLink, Skip};

use crate::call::{Call, Outcome};
use crate::linux::{self, info, sys, worker};
use crate::script::flags;
use crate::stack::{Segment, Setup, Stack, Unreachable, patience};
use crate::sysctl::Change;
use crate::wire;

/// What the program is told, a line each.
#[derive(Serialize, Deserialize)]
enum Request {
    /// The first.
    Begin(worker::Ends),
    Make(Call),
    /// What `TCP_INFO` says, also while a call is under way.
    Info(i32, String),
}

/// What the program says, a line each.
#[derive(Serialize, Deserialize)]
enum Reply {
    /// When a call returned, and what it gave; first of no call.
    Returned(Duration, Outcome),
    Info(Option<i64>),
}

/// The main function of a program that [`Remote`] runs: standard input is a socket.
///
/// # Panics
///
/// If it is not, or if who is on the other side does not speak the same language.
pub fn obey() {
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    let stream = UnixStream::from(input.expect("a descriptor is left"));
    let output = stream.try_clone().expect("a descriptor is left");
    let say = |mut output: &UnixStream, reply: &Reply| {
        let mut line = serde_json::to_string(reply).expect("a reply is plain data");
        line.push('\n');
        // Who started this program may have ended.
        output.write_all(line.as_bytes()).is_ok()
    };
    let mut begun = None;
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        match serde_json::from_str(&line).expect("a request") {
            Request::Begin(ends) => {
                // What a library does at its first socket is not the script's.
                let listener = TcpListener::bind((ends.local.0, 0));
                let listener = listener.expect("an unused port");
                let (calls, incoming) = mpsc::channel();
                let (outgoing, answers) = mpsc::channel::<worker::Answer>();
                let descriptors = worker::Descriptors::default();
                thread::spawn(move || worker::serve(ends, descriptors, incoming, &outgoing));
                let output = output.try_clone().expect("a descriptor is left");
                thread::spawn(move || {
                    for answer in answers {
                        say(&output, &Reply::Returned(answer.time, answer.outcome));
                    }
                });
                // Who waits takes packets as they come, like a kernel.
                thread::spawn(move || while listener.accept().is_ok() {});
                begun = Some(calls);
            }
            Request::Make(call) => {
                let calls = begun.as_ref().expect("the first request begins");
                calls.send(call).expect("the thread takes all calls");
            }
            Request::Info(fd, name) => {
                say(&output, &Reply::Info(info::value(fd, &name)));
            }
        }
    }
}

/// How long a packet may be on its way to where the program's calls see it.
const ARRIVAL: Duration = Duration::from_millis(2);

/// The same for ICMP, which a library may hear of from the kernel.
const MESSAGE_DELAY: Duration = Duration::from_millis(6);

/// The longest time for what needs no packets.
const START: Duration = Duration::from_secs(60);

/// The size of an Ethernet header.
const ETHERNET: usize = 14;

/// A process and the packets of its only link. Plays one script.
pub struct Remote {
    /// Ends before its namespace.
    process: Option<Process>,
    pair: Pair,
    wire: RawLink,
    /// What all frames to the program begin with.
    header: [u8; ETHERNET],
    command: Box<dyn Fn(&Namespace) -> Command + Send>,
    remote: Ipv4Addr,
    local: Ipv4Addr,
    mtu: u16,
    /// When the last packet was on its way to the program.
    injected: Duration,
    /// What is known before the runner asks.
    answered: Option<(Duration, Outcome)>,
    /// On the clock of [`sys::monotonic`].
    start: Duration,
}

struct Process {
    child: Child,
    stream: UnixStream,
    returned: Receiver<(Duration, Outcome)>,
    info: Receiver<Option<i64>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing of it has to outlive the script.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Process {
    fn start(mut command: Command) -> std::io::Result<Self> {
        let (stream, its) = UnixStream::pair()?;
        let child = command.stdin(OwnedFd::from(its)).spawn()?;
        let (returns, returned) = mpsc::channel();
        let (infos, info) = mpsc::channel();
        let replies = BufReader::new(stream.try_clone()?);
        thread::spawn(move || {
            for line in replies.lines().map_while(Result::ok) {
                // The receivers end together with the program.
                let _ = match serde_json::from_str(&line) {
                    Ok(Reply::Returned(time, outcome)) => returns.send((time, outcome)).is_ok(),
                    Ok(Reply::Info(value)) => infos.send(value).is_ok(),
                    Err(_) => break,
                };
            }
        });
        Ok(Self {
            child,
            stream,
            returned,
            info,
        })
    }

    fn ask(&mut self, request: &Request) -> Result<(), String> {
        let mut line = serde_json::to_string(request).expect("a request is plain data");
        line.push('\n');
        let written = self.stream.write_all(line.as_bytes());
        written.map_err(|error| format!("the program has ended: {error}"))
    }
}

impl Remote {
    /// Makes the link. `command` starts a program that does what [`obey`] does, in a namespace.
    ///
    /// # Errors
    ///
    /// This machine does not offer it.
    pub fn new(command: impl Fn(&Namespace) -> Command + Send + 'static) -> Result<Self, Skip> {
        let pair = Namespaces::pair()?;
        let open = |namespace, link| {
            let opened = RawLink::open(namespace, link);
            opened.map_err(|error| Skip::new(format!("no packet socket: {error}")))
        };
        let wire = open(&pair.b, "vb")?;
        let its = open(&pair.a, "va")?.mac();
        let mut header = [0; ETHERNET];
        header[..6].copy_from_slice(&its);
        header[6..12].copy_from_slice(&wire.mac());
        header[12] = 8; // IPv4
        Ok(Self {
            pair,
            wire,
            header,
            command: Box::new(command),
            process: None,
            remote: Ipv4Addr::UNSPECIFIED,
            local: Ipv4Addr::UNSPECIFIED,
            mtu: 0,
            injected: Duration::ZERO,
            answered: None,
            start: Duration::ZERO,
        })
    }

    /// TCP segments that the kernel of the program's namespace has sent, but for resets.
    ///
    /// # Panics
    ///
    /// If the kernel does not tell.
    pub fn kernel_segments(&self) -> u64 {
        let path = "/proc/thread-self/net/snmp";
        let text = self.pair.a.enter(|| fs::read_to_string(path));
        let text = text.expect("procfs is mounted");
        let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
        let mut words = || lines.next().expect("names and values").split(' ');
        let (names, values) = (words(), words());
        let value = |wanted| {
            let mut pairs = names.clone().zip(values.clone());
            let found = pairs.find(|(name, _)| *name == wanted);
            found.map_or(0, |(_, value)| value.parse::<u64>().expect("a number"))
        };
        value("OutSegs") - value("OutRsts")
    }

    fn make_link(&self, setup: &Setup) -> std::io::Result<()> {
        let (a, b) = (&self.pair.a, &self.pair.b);
        let (local, remote, mtu) = (setup.local, setup.remote, setup.mtu);
        let mac = self
            .wire
            .mac()
            .map(|octet| format!("{octet:02x}"))
            .join(":");
        // Nobody answers there but the script.
        b.ip_batch("address flush dev vb\nlink set vb mtu 65535\n")?;
        a.ip_batch(&format!(
            "address flush dev va\n\
             link set va mtu {mtu}\n\
             address add {local}/24 dev va\n\
             route add default dev va\n\
             neighbour replace {remote} lladdr {mac} dev va nud permanent\n"
        ))?;
        a.make_whole_frames("va")
    }

    fn poll_answer(&mut self, wait: Duration) {
        if self.answered.is_none()
            && let Some(process) = &self.process
        {
            self.answered = process.returned.recv_timeout(wait).ok();
        }
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("set_up came first")
    }

    fn send(&mut self, packet: &[u8]) {
        let frame = [&self.header, packet].concat();
        self.wire.send(&frame).expect("the link takes packets");
        self.injected = sys::monotonic();
    }

    /// Lets packets that are on their way arrive: a kernel has them before the script goes on.
    fn let_arrive(&self) {
        let at = self.injected + ARRIVAL;
        thread::sleep(at.saturating_sub(sys::monotonic()));
    }
}

impl Stack for Remote {
    fn set_up(&mut self, setup: &Setup) -> Result<(), String> {
        if setup.is_ipv6 {
            return Err("IPv6".to_owned());
        }
        (self.local, self.remote) = (setup.local, setup.remote);
        self.mtu = setup.mtu;
        self.make_link(setup).map_err(|error| error.to_string())?;
        self.pair.a.enter(|| sys::set_sysctls(&setup.sysctls))?;
        let process = Process::start((self.command)(&self.pair.a));
        let mut process = process.map_err(|error| format!("cannot start the program: {error}"))?;
        process.ask(&Request::Begin(worker::Ends::of(setup)))?;
        let ready = process.returned.recv_timeout(START);
        ready.map_err(|_| "the program does not begin".to_owned())?;
        self.process = Some(process);
        self.start = sys::monotonic();
        Ok(())
    }

    fn change(&mut self, change: &Change) -> Result<(), String> {
        linux::change(&self.pair.a, change)
    }

    fn now(&mut self) -> Duration {
        linux::since(self.start)
    }

    fn sniff(&mut self, deadline: Duration) -> Option<(Duration, Segment)> {
        loop {
            let left = deadline.saturating_sub(self.now());
            let frame = self.wire.receive(left).expect("the link can be read")?;
            let time = self.now();
            let packet = frame
                .get(ETHERNET..)
                .filter(|_| frame[12..ETHERNET] == [8, 0]);
            if let Some(segment) = packet.and_then(wire::decode_tcp) {
                return Some((time, segment));
            }
        }
    }

    fn inject(&mut self, segment: &Segment) {
        // What the link does not carry in one frame comes in several, at one instant.
        let header = wire::encode_tcp(
            &Segment {
                payload: Vec::new(),
                ..segment.clone()
            },
            self.remote,
            self.local,
        )
        .len();
        let room = usize::from(self.mtu).saturating_sub(header).max(1);
        let mut parts = segment.payload.chunks(room).peekable();
        let mut part = segment.clone();
        loop {
            part.payload = parts.next().unwrap_or_default().to_vec();
            let is_last = parts.peek().is_none();
            part.flags = if is_last {
                segment.flags
            } else {
                segment.flags & !(flags::FIN | flags::PSH)
            };
            self.send(&wire::encode_tcp(&part, self.remote, self.local));
            if is_last {
                break;
            }
            let len = u32::try_from(part.payload.len()).expect("a packet is short");
            part.seq = part.seq.wrapping_add(len);
        }
    }

    fn inject_unreachable(&mut self, message: &Unreachable) {
        self.send(&wire::encode_unreachable(message, self.remote, self.local));
        self.injected += MESSAGE_DELAY;
    }

    fn start(&mut self, call: &Call, may_block: bool) -> Result<(), String> {
        self.let_arrive();
        self.process().ask(&Request::Make(call.clone()))?;
        self.answered = None;
        // Even a call that may block often does not.
        self.poll_answer(patience(may_block));
        Ok(())
    }

    fn outcome(&mut self) -> Option<(Duration, Outcome)> {
        self.poll_answer(Duration::ZERO);
        let (time, outcome) = self.answered.take()?;
        Some((time.saturating_sub(self.start), outcome))
    }

    fn tcp_info(&mut self, fd: i32, name: &str) -> Option<i64> {
        self.let_arrive();
        let process = self.process();
        process.ask(&Request::Info(fd, name.to_owned())).ok()?;
        process.info.recv_timeout(START).ok()?
    }
}
