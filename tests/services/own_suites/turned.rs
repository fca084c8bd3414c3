//! A link that stands for the loopback interface: both ends of a connection of one process pass it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, fs, process};

use testkit::{Namespaces, Pair, RawLink, Running, Skip, needs};

/// Nobody's.
const FAR: &str = "10.77.0.99";
const FAR6: &str = "fd77::99";
/// What the library says of a socket that it has.
const IS_OURS: [&str; 2] = [": past the kernel by ", ": offloaded"];

/// A link whose far end sends everything back, with the addresses swapped. Programs take it for 127.0.0.1 and ::1 (`c/turned.c`).
pub(crate) struct Turned {
    pair: Pair,
    shim: PathBuf,
    /// Of the library, a file for each process.
    logs: PathBuf,
}

/// What a command printed, and whether it was well.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) is_good: bool,
    pub(crate) stdout: String,
    /// Standard output and error, and what became of a command that had to be killed.
    pub(crate) all: String,
}

impl Turned {
    pub(crate) fn new() -> Result<Self, Skip> {
        needs::require(&["nft"])?;
        let pair = Namespaces::new().ipv6().create()?;
        for (end, link) in [(&pair.a, "va"), (&pair.b, "vb")] {
            end.make_whole_frames(link).unwrap();
        }
        let [near, far] = [(&pair.b, "vb"), (&pair.a, "va")].map(|(end, link)| {
            let mac = RawLink::open(end, link).unwrap().mac();
            mac.map(|octet| format!("{octet:02x}")).join(":")
        });
        for address in [FAR, FAR6] {
            let neighbour = ["neighbour", "add", address, "lladdr", &far, "dev", "vb"];
            pair.b.ip(&neighbour).unwrap();
        }
        send_back(&pair, &near, &far)?;
        let shim = testkit::c_program_with("turned", &["-shared", "-fPIC"]);
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let logs = env::temp_dir().join(format!("vmat-turned-{}-{count}", process::id()));
        fs::create_dir_all(&logs).unwrap();
        // Programs that are not root's write there, too.
        fs::set_permissions(&logs, fs::Permissions::from_mode(0o1777)).unwrap();
        Ok(Self { pair, shim, logs })
    }

    /// A program that takes the link for the loopback interface, with the library or without.
    pub(crate) fn command(&self, program: impl AsRef<Path>, with: bool) -> Command {
        let program = program.as_ref();
        let mut command = match with {
            true => testkit::preloaded(&self.pair.b, program).unwrap(),
            false => self.pair.b.command(program),
        };
        command
            .envs(self.environment(with))
            .env("PATH", needs::PATH);
        command
    }

    /// The variables that make it so.
    pub(crate) fn environment(&self, with: bool) -> Vec<(&'static str, String)> {
        let mut preloaded = vec![self.shim.clone()];
        let mut variables = vec![
            ("TURNED_OWN", Pair::ADDRESS_B.to_string()),
            ("TURNED_OWN6", Pair::IPV6_ADDRESS_B.to_string()),
            ("TURNED_FAR", FAR.to_owned()),
            ("TURNED_FAR6", FAR6.to_owned()),
        ];
        if with {
            preloaded.push(testkit::libvma_path().unwrap());
            let log = self.logs.join("%d").display().to_string();
            variables.extend([
                ("VMA_TRACELEVEL", "debug".to_owned()),
                ("VMA_LOG_FILE", log),
            ]);
        }
        let preloaded = env::join_paths(preloaded).unwrap().into_string().unwrap();
        variables.push(("LD_PRELOAD", preloaded));
        variables
    }

    /// Runs a command, and ends what it leaves behind.
    pub(crate) fn run(&self, command: Command, timeout: Duration) -> Printed {
        let ended = Running::start(command).unwrap().wait(timeout);
        for pid in self.pair.b.pids() {
            drop(Command::new("kill").args(["-9", &pid.to_string()]).output());
        }
        match ended {
            Ok(finished) => Printed {
                is_good: finished.status.success(),
                all: format!("{}{}{}", finished.stdout, finished.stderr, finished.status),
                stdout: finished.stdout,
            },
            Err(error) => Printed {
                is_good: false,
                stdout: String::new(),
                all: error.to_string(),
            },
        }
    }

    /// How many sockets have passed the kernel since this was asked last.
    pub(crate) fn take_ours(&self) -> usize {
        let mut ours = 0;
        for entry in fs::read_dir(&self.logs).unwrap().flatten() {
            let log = fs::read(entry.path()).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let is_ours = |line: &&str| IS_OURS.iter().any(|words| line.contains(words));
            ours += log.lines().filter(is_ours).count();
            fs::remove_file(entry.path()).unwrap();
        }
        ours
    }
}

impl Drop for Turned {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.logs));
    }
}

/// Has the kernel send packets to the far address back as coming from there, before the call that
/// sent them returns, as on the loopback interface. Checksums stay right. What ICMP quotes is
/// swapped back. `fwd` would mark packets so that an XDP program in generic mode does not see them
/// (`skb_is_redirected`); a copy has no such mark.
fn send_back(pair: &Pair, near: &str, far: &str) -> Result<(), Skip> {
    let own = Pair::ADDRESS_B;
    let own6 = Pair::IPV6_ADDRESS_B;
    let number = |address: std::net::Ipv4Addr| format!("{:#x}", u32::from(address));
    let quoted = [own, FAR.parse().unwrap()].map(number);
    let number6 = |address: std::net::Ipv6Addr| format!("{:#x}", u128::from(address));
    let quoted6 = [own6, FAR6.parse().unwrap()].map(number6);
    let way = format!("ether saddr set {far} ether daddr set {near} dup to \"va\" drop");
    let back = format!("ip saddr set {FAR} ip daddr set {own} {way}");
    let back6 = format!("ip6 saddr set {FAR6} ip6 daddr set {own6} {way}");
    let rules = format!(
        "table netdev back {{ chain back {{
            type filter hook ingress device \"va\" priority 0;
            ip daddr {FAR} icmp type {{ 3, 11 }} @th,160,32 set {} @th,192,32 set {} {back}
            ip daddr {FAR} {back}
            ip6 daddr {FAR6} icmpv6 type < 128 @th,128,128 set {} @th,256,128 set {} {back6}
            ip6 daddr {FAR6} {back6}
        }}\n}}\n",
        quoted[0], quoted[1], quoted6[0], quoted6[1]
    );
    let mut nft = pair.a.command("nft");
    nft.args(["-f", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut nft = nft.spawn().unwrap();
    nft.stdin
        .take()
        .unwrap()
        .write_all(rules.as_bytes())
        .unwrap();
    let said = nft.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&said.stderr);
    match said.status.success() {
        true => Ok(()),
        false => Err(Skip::new(format!("nft cannot send packets back: {words}"))),
    }
}
