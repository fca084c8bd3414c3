//! A broker and servers in one namespace, clients of the kernel's in another.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};
use tempfile::TempDir;
use testkit::{Accelerated, Namespaces, Pair, Running, Skip, preloaded};

pub(crate) const START: Duration = Duration::from_secs(60);
/// A datagram that has not come back by then is lost.
const LOST: Duration = Duration::from_secs(2);

/// As systemd does with a socket unit (sd_listen_fds(3)).
const ACTIVATOR: &str = r"
import os, select, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o666); listener.listen(8)
print('listens', flush=True)
for life in range(2):
    select.select([listener], [], [])
    pid = os.fork()
    if pid == 0:
        os.dup2(listener.fileno(), 3); os.set_inheritable(3, True)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')
        os.execv(sys.argv[2], sys.argv[2:])
    print('started', pid, flush=True)
    os.waitpid(pid, 0)
";

pub(crate) struct Lab {
    pub(crate) broker: Option<Running>,
    pair: Pair,
    directory: TempDir,
}

/// What came of sending datagrams and streams to a server.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) datagrams: u32,
    pub(crate) datagrams_lost: u32,
    pub(crate) octets: usize,
    pub(crate) streams_broken: u32,
}

impl Lab {
    pub(crate) fn new(policy: &str) -> Result<Self, Skip> {
        let mut lab = Self::without_broker(policy)?;
        lab.start_broker();
        Ok(lab)
    }

    pub(crate) fn without_broker(policy: &str) -> Result<Self, Skip> {
        testkit::needs::require(&["python3"])?;
        let pair = Namespaces::pair()?;
        // The servers' host knows its neighbour from here on: else a first answer is the kernel's.
        let refused = || TcpStream::connect((Pair::ADDRESS_A, 9)).is_err();
        assert!(pair.b.enter(refused));
        let directory = tempfile::tempdir().unwrap();
        open_to_all(directory.path());
        std::fs::write(directory.path().join("vmad.conf"), policy).unwrap();
        Ok(Self {
            broker: None,
            pair,
            directory,
        })
    }

    /// The first, or another one.
    pub(crate) fn start_broker(&mut self) {
        // In no namespace of the test's: it goes where its clients are.
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmad"));
        command.args(self.broker_arguments());
        let mut broker = Running::start(command).unwrap();
        let is_up = broker.wait_for_output("opens interfaces", START);
        assert!(is_up, "{}{}", broker.stdout(), broker.stderr());
        self.broker = Some(broker);
    }

    /// Its socket is somebody's who starts it twice, each time when a program asks.
    pub(crate) fn start_activator(&mut self) {
        let mut command = Command::new("python3");
        command.args(["-c", ACTIVATOR, &self.socket().display().to_string()]);
        command.arg(env!("CARGO_BIN_EXE_vmad"));
        command.args(self.broker_arguments());
        let mut activator = Running::start(command).unwrap();
        let listens = activator.wait_for_output("listens", START);
        assert!(listens, "{}", activator.stderr());
        self.broker = Some(activator);
    }

    fn broker_arguments(&self) -> Vec<OsString> {
        let policy = self.directory.path().join("vmad.conf");
        let mut arguments: Vec<OsString> = ["--broker", "--console", "--broker-policy"]
            .map(Into::into)
            .into();
        arguments.extend([
            policy.into(),
            "--broker-socket".into(),
            self.socket().into(),
        ]);
        arguments
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(crate) fn log(&self) -> String {
        let broker = self.broker.as_ref().unwrap();
        broker.stdout() + &broker.stderr()
    }

    pub(crate) fn server(&self, port: u16) -> Accelerated {
        self.start(&["python3"], port, &[])
    }

    /// One that has its port together with others.
    pub(crate) fn sharing_server(&self, port: u16) -> Accelerated {
        self.start(&["python3"], port, &["share"])
    }

    /// One that root starts, and that becomes another user: before it opens sockets, or (`late`)
    /// when it has bound them.
    pub(crate) fn server_becoming(&self, user: &str, port: u16, late: &[&str]) -> Accelerated {
        self.start(&["python3"], port, &[&["as", user], late].concat())
    }

    /// The same without any right.
    pub(crate) fn server_of(&self, user: u32, port: u16) -> Accelerated {
        let (user, group) = (format!("--reuid={user}"), format!("--regid={user}"));
        let drop_all = ["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"];
        let setpriv = ["setpriv", &user, &group, "--clear-groups"];
        // The package's, for one in somebody's directory is not everybody's.
        let python = ["/usr/bin/python3"];
        self.start(&[&setpriv[..], &drop_all, &python].concat(), port, &[])
    }

    fn start(&self, program: &[&str], port: u16, more: &[&str]) -> Accelerated {
        // Other users may not look into the directory that the project is in.
        let script = self.directory.path().join("echo.py");
        let library = self.directory.path().join("libvma.so");
        if !script.exists() {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/broker/echo.py");
            std::fs::copy(source, &script).unwrap();
            std::fs::copy(testkit::libvma_path().unwrap(), &library).unwrap();
            // The guardian of those that are killed.
            let beside = self.directory.path().join("vmad");
            testkit::copy_program(Path::new(env!("CARGO_BIN_EXE_vmad")), &beside);
        }
        let script = script.to_str().unwrap();
        let words = [program, &[script]].concat();
        let mut command = preloaded(&self.pair.b, Path::new(words[0])).unwrap();
        command.args(&words[1..]);
        command.args([Pair::ADDRESS_B.to_string(), port.to_string()]);
        command.args(more);
        command.env("LD_PRELOAD", library);
        command.env("VMA_BROKER", self.socket());
        // Other users leave theirs there, too.
        open_to_all(&testkit::statistics_directory());
        let mut server = Accelerated::start(command).unwrap();
        let is_up = server.process().wait_for_output("ready", START);
        assert!(is_up, "{}", server.process().stderr());
        server
    }

    /// Datagrams and a stream, for a while.
    pub(crate) fn traffic(&self, port: u16, time: Duration) -> Traffic {
        let server = SocketAddr::from((Pair::ADDRESS_B, port));
        self.pair.a.enter(|| {
            let mut traffic = Traffic::default();
            let until = Instant::now() + time;
            let datagrams = client();
            datagrams.connect(server).unwrap();
            let mut stream = TcpStream::connect(server).unwrap();
            stream.set_read_timeout(Some(LOST)).unwrap();
            let mut number = 0_u32;
            while Instant::now() < until && traffic.streams_broken == 0 {
                number += 1;
                match exchange(&datagrams, number) {
                    true => traffic.datagrams += 1,
                    false => traffic.datagrams_lost += 1,
                }
                let len = 1 + number as usize * 7919 % 9000;
                match exchange_octets(&mut stream, len, number) {
                    Ok(()) => traffic.octets += len,
                    Err(_) => traffic.streams_broken += 1,
                }
                // Who has been killed does not answer any more.
                if traffic.datagrams_lost > 20 {
                    break;
                }
            }
            traffic
        })
    }

    /// So many datagrams there and back, which the server hears one after the other.
    pub(crate) fn datagrams(&self, port: u16, count: u32) {
        self.pair.a.enter(|| {
            let socket = client();
            socket.connect((Pair::ADDRESS_B, port)).unwrap();
            let answered = (0..count).filter(|number| exchange(&socket, *number));
            assert_eq!(answered.count(), count as usize);
        });
    }

    /// So many datagrams that nobody waits for.
    pub(crate) fn flood(&self, port: u16, count: u32) {
        self.pair.a.enter(|| {
            let socket = client();
            socket.connect((Pair::ADDRESS_B, port)).unwrap();
            for _ in 0..count {
                let _ = socket.send(&[7; 100]);
            }
        });
    }

    /// Says what no library says.
    pub(crate) fn babble(&self) {
        let address = SocketAddrUnix::new(self.socket()).unwrap();
        for message in [&b"x"[..], &[0; 400], b"vmab\x01\0\0\0\x02\0\0\0\0\x08\0\0"] {
            let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
            let socket = socket_with(unix, kind, SocketFlags::CLOEXEC, None).unwrap();
            connect(&socket, &address).unwrap();
            send(&socket, message, SendFlags::NOSIGNAL).unwrap();
            // Whatever it answers, it ends the connection.
            let mut reader = std::fs::File::from(socket);
            let mut answer = Vec::new();
            let _ = reader.read_to_end(&mut answer);
        }
    }

    /// One whose so many children accept from the listener that it has opened, and which they are.
    pub(crate) fn prefork_server(&self, port: u16, workers: usize) -> (Accelerated, Vec<u32>) {
        self.prefork_server_as(port, workers, &[])
    }

    /// The same with workers who become another user.
    pub(crate) fn prefork_server_as(
        &self,
        port: u16,
        workers: usize,
        user: &[&str],
    ) -> (Accelerated, Vec<u32>) {
        let count = workers.to_string();
        let words = [&["workers", &count], user].concat();
        let mut server = self.start(&["python3"], port, &words);
        let mut pids: Vec<u32> = Vec::new();
        // The line may come in parts.
        let is_whole = || {
            let output = server.process().stdout();
            let words = output.split_whitespace();
            pids = words.filter_map(|it| it.parse().ok()).collect();
            pids.len() == workers && output.ends_with('\n')
        };
        assert!(testkit::eventually(START, is_whole));
        (server, pids)
    }

    /// One without the library.
    pub(crate) fn strange_server(&self, port: u16) -> Running {
        let mut command = Command::new("python3");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/broker/echo.py"));
        command.args([Pair::ADDRESS_B.to_string(), port.to_string()]);
        command.arg("share");
        let mut server = self.pair.b.enter(|| Running::start(command)).unwrap();
        assert!(
            server.wait_for_output("ready", START),
            "{}",
            server.stderr()
        );
        server
    }

    /// Streams to a port, each of which is open when this returns.
    pub(crate) fn streams(&self, port: u16, count: usize) -> Vec<TcpStream> {
        self.pair.a.enter(|| {
            let open = || TcpStream::connect((Pair::ADDRESS_B, port)).unwrap();
            let mut streams: Vec<_> = (0..count).map(|_| open()).collect();
            for stream in &mut streams {
                stream.set_read_timeout(Some(LOST)).unwrap();
                exchange_octets(stream, 1000, 7).unwrap();
            }
            streams
        })
    }

    /// What `vmad --status` prints of this broker.
    pub(crate) fn status(&self, more: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmad"));
        command.arg("--status").args(more).arg("--broker-socket");
        command.arg(self.socket());
        // Of no daemon.
        command.arg("--status-file");
        command.arg(self.directory.path().join("daemon.json"));
        let output = command.output().unwrap();
        let text = |octets| String::from_utf8(octets).unwrap();
        text(output.stdout) + &text(output.stderr)
    }

    pub(crate) fn status_document(&self) -> serde_json::Value {
        serde_json::from_str(&self.status(&["--json"])).unwrap()
    }

    /// Whether the interface of the servers has an XDP program.
    pub(crate) fn has_program(&self) -> bool {
        let shown = self.pair.b.ip(&["link", "show", "vb"]).unwrap();
        shown.contains("xdp")
    }
}

fn client() -> UdpSocket {
    let socket = UdpSocket::bind((Pair::ADDRESS_A, 0)).unwrap();
    socket.set_read_timeout(Some(LOST / 10)).unwrap();
    socket
}

/// Whether a datagram comes back. What comes late, of an earlier one, does not count.
fn exchange(socket: &UdpSocket, number: u32) -> bool {
    let mut buffer = [0; 64];
    if socket.send(&number.to_be_bytes()).is_err() {
        return false;
    }
    let until = Instant::now() + LOST;
    while Instant::now() < until {
        match socket.recv(&mut buffer) {
            Ok(4) if buffer[..4] == number.to_be_bytes() => return true,
            Ok(_) => {}
            Err(_) if Instant::now() >= until => {}
            Err(_) => return false,
        }
    }
    false
}

pub(crate) fn exchange_octets(
    stream: &mut TcpStream,
    len: usize,
    seed: u32,
) -> std::io::Result<()> {
    let octets: Vec<u8> = (0..len)
        .map(|it| (it ^ seed as usize).to_le_bytes()[0])
        .collect();
    stream.write_all(&octets)?;
    let mut back = vec![0; len];
    stream.read_exact(&mut back)?;
    assert!(back == octets, "other octets have come back");
    Ok(())
}

fn open_to_all(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(directory, all).unwrap();
}
