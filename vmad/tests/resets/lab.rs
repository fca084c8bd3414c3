//! A daemon in one namespace, peers in another, and programs that have connections between them.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::{Namespaces, Pair, Running, Skip, copy_program};

const START: Duration = Duration::from_secs(20);

/// A test that measures time runs alone.
static ALONE: RwLock<()> = RwLock::new(());

enum Turn {
    Together(#[expect(dead_code, reason = "held")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>),
}

pub(crate) struct Lab {
    _turn: Turn,
    pair: Pair,
    /// Where peers listen.
    peer: IpAddr,
    directory: TempDir,
    client: PathBuf,
}

impl Lab {
    pub(crate) fn new() -> Result<Self, Skip> {
        // A test that failed left nothing that matters.
        let turn = ALONE.read().unwrap_or_else(PoisonError::into_inner);
        Self::with(Turn::Together(turn), Namespaces::pair()?, Pair::ADDRESS_B)
    }

    /// With IPv6 between the two ends.
    pub(crate) fn over_ipv6() -> Result<Self, Skip> {
        let turn = ALONE.read().unwrap_or_else(PoisonError::into_inner);
        let pair = Namespaces::new().ipv6().create()?;
        Self::with(Turn::Together(turn), pair, Pair::IPV6_ADDRESS_B)
    }

    /// While no other test runs.
    pub(crate) fn alone() -> Result<Self, Skip> {
        let turn = ALONE.write().unwrap_or_else(PoisonError::into_inner);
        Self::with(Turn::Alone(turn), Namespaces::pair()?, Pair::ADDRESS_B)
    }

    fn with(turn: Turn, pair: Pair, peer: impl Into<IpAddr>) -> Result<Self, Skip> {
        let client = testkit::c_program("client");
        let directory = tempfile::tempdir().unwrap();
        // Other users' programs live there, too.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let kept = directory.path().join("client");
        copy_program(&client, &kept);
        Ok(Self {
            _turn: turn,
            pair,
            peer: peer.into(),
            directory,
            client: kept,
        })
    }

    pub(crate) fn pair(&self) -> &Pair {
        &self.pair
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// What is there beside the client itself.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "client").collect()
    }

    fn vmad(&self) -> Command {
        let mut command = self.pair.a.command(env!("CARGO_BIN_EXE_vmad"));
        command.args(["--status-file", &self.path("status.json")]);
        command
    }

    /// A daemon that serves.
    pub(crate) fn daemon(&self, arguments: &[&str]) -> Running {
        let mut command = self.vmad();
        command.args(arguments);
        self.serve(command)
    }

    /// One that watches the same processes from the peers' namespace.
    pub(crate) fn daemon_elsewhere(&self) -> Running {
        let mut command = self.pair.b.command(env!("CARGO_BIN_EXE_vmad"));
        command.args(["--status-file", &self.path("status.json")]);
        self.serve(command)
    }

    /// What the library starts, where it has this daemon's files.
    pub(crate) fn guardian(&self, pid: u32) -> Running {
        let mut command = self.vmad();
        let here = self.directory.path().display().to_string();
        command.args(["--console", "--socket", &self.path("agent")]);
        command.args(["--stats-dir", &here, &format!("--guard={pid}")]);
        Running::start(command).unwrap()
    }

    /// A daemon with the user and the rights that its service has. Its directory is sticky, as /tmp
    /// is.
    pub(crate) fn daemon_as_service(&self) -> Running {
        const RIGHTS: &str = "-all,+net_raw,+sys_ptrace,+fowner";
        let sticky = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(self.directory.path(), sticky).unwrap();
        let program = self.path("vmad");
        copy_program(Path::new(env!("CARGO_BIN_EXE_vmad")), Path::new(&program));
        let mut command = self.pair.a.command("setpriv");
        command.args([
            "--reuid=65533",
            "--regid=65533",
            "--clear-groups",
            "--no-new-privs",
        ]);
        for set in ["inh-caps", "ambient-caps", "bounding-set"] {
            command.arg(format!("--{set}={RIGHTS}"));
        }
        command.args([program.as_str(), "--status-file", &self.path("status.json")]);
        self.serve(command)
    }

    fn serve(&self, mut command: Command) -> Running {
        let here = self.directory.path().display().to_string();
        command.args(["--console", "--socket", &self.path("agent")]);
        command.args(["--stats-dir", &here, "--notify-dir", &here]);
        let mut daemon = Running::start(command).unwrap();
        let serves = daemon.wait_for_output("serves", START);
        assert!(serves, "{}{}", daemon.stdout(), daemon.stderr());
        daemon
    }

    /// What `vmad --status` prints, once it is no older than now.
    pub(crate) fn status(&self, daemon: &Running) -> String {
        let pid = daemon.pid().to_string();
        // It is written once a second.
        thread::sleep(Duration::from_millis(1200));
        self.status_with(daemon, |status| status.contains(&pid))
    }

    pub(crate) fn status_with(&self, daemon: &Running, wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let output = self.vmad().arg("--status").output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            if output.status.success() && wanted(&text) {
                return text;
            }
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(begun.elapsed() < START, "{text}{words}{}", daemon.stdout());
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn counter(&self, status: &str, name: &str) -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok())
            .unwrap_or_else(|| panic!("{name}: {status}"))
    }

    pub(crate) fn open_socket_to_all(&self) {
        fs::set_permissions(self.path("agent"), fs::Permissions::from_mode(0o666)).unwrap();
    }

    fn start(&self, mut command: Command, arguments: &[String]) -> Running {
        command.args(arguments);
        let mut client = Running::start(command).unwrap();
        let is_ready = client.wait_for_output("ready", START);
        assert!(is_ready, "{}{}", client.stdout(), client.stderr());
        client
    }

    fn connecting(&self, agent: &str, peers: &Peers, count: usize) -> Running {
        let address = peers.address();
        let arguments = [
            agent.to_owned(),
            self.path("own"),
            address.ip().to_string(),
            address.port().to_string(),
            count.to_string(),
        ];
        self.start(self.pair.a.command(&self.client), &arguments)
    }

    /// A program that has connections and tells the daemon of them.
    pub(crate) fn client(&self, peers: &Peers, count: usize) -> Running {
        self.connecting(&self.path("agent"), peers, count)
    }

    pub(crate) fn client_without_daemon(&self, peers: &Peers, count: usize) -> Running {
        self.connecting("none", peers, count)
    }

    /// A program of this user that tells of connections of others: local end, peer.
    pub(crate) fn forger(&self, user: &str, connections: &[(SocketAddr, SocketAddr)]) -> Running {
        let mut command = self.pair.a.command("setpriv");
        let user = format!("--reuid={user}");
        command
            .args([user.as_str(), "--clear-groups"])
            .arg(&self.client);
        let mut arguments = vec![self.path("agent"), self.path("forger"), "forge".to_owned()];
        for (local, peer) in connections {
            arguments.extend([local.to_string(), peer.to_string()]);
        }
        let _ = fs::remove_file(self.path("forger"));
        self.start(command, &arguments)
    }

    /// A program that sends this many messages, and does not wait for anything.
    pub(crate) fn flood(&self, messages: usize) -> Running {
        let mut command = self.pair.a.command(&self.client);
        let (agent, own) = (self.path("agent"), self.path("flood"));
        command.args([&agent, &own, "flood", &messages.to_string()]);
        Running::start(command).unwrap()
    }

    /// A program with a TAP device that wants UDP to 10.77.0.1, port 4711, and has given up this
    /// capability.
    pub(crate) fn tap_program(&self, without: &str) -> Running {
        let program = testkit::c_program("tap");
        // The device is made before, so that who may not make one can have it.
        let made = ["tuntap", "add", "tap0", "mode", "tap", "user", "0"];
        self.pair.a.ip(&made).unwrap();
        self.pair.a.ip(&["link", "set", "tap0", "up"]).unwrap();
        let mut command = self.pair.a.command("setpriv");
        if without != "0" {
            command.arg(format!("--bounding-set=-{without}"));
            command.arg(format!("--inh-caps=-{without}"));
        }
        command.arg(program);
        let words = [
            self.path("agent"),
            self.path("own"),
            "tap0".to_owned(),
            "va".to_owned(),
            "10.77.0.1".to_owned(),
            "4711".to_owned(),
        ];
        self.start(command, &words)
    }

    /// A socket on the other host.
    pub(crate) fn peer_socket(&self) -> UdpSocket {
        let socket = self.pair.b.enter(|| UdpSocket::bind("10.77.0.2:0"));
        let socket = socket.unwrap();
        let patience = Some(Duration::from_secs(1));
        socket.set_read_timeout(patience).unwrap();
        socket
    }

    /// A socket on the daemon's host.
    pub(crate) fn local_socket(&self) -> UdpSocket {
        let socket = self.pair.a.enter(|| UdpSocket::bind("10.77.0.1:0"));
        socket.unwrap()
    }

    /// What tc(8) shows of filters at the interface, the TAP device and the loopback interface.
    pub(crate) fn filters(&self) -> String {
        let shown = ["va", "tap0", "lo"].map(|device| {
            let mut command = self.pair.a.command("tc");
            command.args(["filter", "show", "dev", device, "ingress"]);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        });
        shown.concat()
    }

    /// A process that publishes statistics and does nothing else.
    pub(crate) fn publisher(&self) -> Running {
        self.publisher_of("")
    }

    /// The same, which says to have a connection: local end and peer.
    pub(crate) fn publisher_of(&self, claim: &str) -> Running {
        let mut command = self.pair.a.command(std::env::current_exe().unwrap());
        command.args(["--exact", "statistics::publisher", "--ignored"]);
        command.env(crate::statistics::PUBLISH, self.directory.path());
        if !claim.is_empty() {
            command.env(crate::statistics::CLAIM, claim);
        }
        let publisher = Running::start(command).unwrap();
        let file = format!("vmastat.{}", publisher.pid());
        let begun = Instant::now();
        while !self.files().contains(&file) {
            assert!(begun.elapsed() < START, "{}", publisher.stderr());
            thread::sleep(Duration::from_millis(10));
        }
        publisher
    }

    pub(crate) fn listen(&self) -> Peers {
        let address = SocketAddr::new(self.peer, 0);
        let domain = socket2::Domain::for_address(address);
        let listener = self.pair.b.enter(|| {
            let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
            socket.bind(&address.into()).unwrap();
            socket.listen(4096).unwrap();
            // Also of what it accepts: who waits for more fails, and holds nobody up.
            socket.set_read_timeout(Some(START)).unwrap();
            TcpListener::from(socket)
        });
        Peers {
            listener,
            open: Vec::new(),
        }
    }

    /// Ends of connections that the other side listens for.
    pub(crate) fn connect(&self, address: SocketAddr, count: usize) -> Peers {
        let mut peers = self.listen();
        for _ in 0..count {
            let mut stream = self.pair.b.enter(|| TcpStream::connect(address)).unwrap();
            stream.write_all(b"hello").unwrap();
            stream.set_nonblocking(true).unwrap();
            peers.open.push(stream);
        }
        peers
    }
}

/// The other ends.
pub(crate) struct Peers {
    listener: TcpListener,
    open: Vec<TcpStream>,
}

/// How many were reset, and when the last was.
pub(crate) struct Outcome {
    pub(crate) reset: usize,
    pub(crate) last: Duration,
}

impl Peers {
    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    pub(crate) fn accept(&mut self, count: usize) {
        for _ in 0..count {
            let (mut stream, _) = self.listener.accept().unwrap();
            let mut hello = [0; 5];
            stream.read_exact(&mut hello).unwrap();
            stream.set_nonblocking(true).unwrap();
            self.open.push(stream);
        }
    }

    /// As the processes on the other side would name them.
    pub(crate) fn connections(&self) -> Vec<(SocketAddr, SocketAddr)> {
        let ends = self.open.iter();
        ends.map(|stream| (stream.peer_addr().unwrap(), stream.local_addr().unwrap()))
            .collect()
    }

    /// Sends an octet on every connection.
    pub(crate) fn send(&mut self) {
        for stream in &mut self.open {
            stream.write_all(b"x").unwrap();
        }
    }

    /// Waits until all are reset, or for so long.
    pub(crate) fn wait_for_resets(&mut self, timeout: Duration) -> Outcome {
        let begun = Instant::now();
        let mut outcome = Outcome {
            reset: 0,
            last: Duration::ZERO,
        };
        while !self.open.is_empty() && begun.elapsed() < timeout {
            let before = self.open.len();
            self.open
                .retain_mut(|stream| match stream.read(&mut [0; 1]) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => true,
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
                    other => panic!("{other:?}"),
                });
            if self.open.len() < before {
                outcome.reset += before - self.open.len();
                outcome.last = begun.elapsed();
            }
            thread::sleep(Duration::from_millis(1));
        }
        outcome
    }
}

/// Memory of a process that is not swapped out.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}
