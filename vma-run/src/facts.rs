//! What this machine and this user have.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use dev_xdp::bpf::link::AttachMode;
use dev_xdp::measured_modes;
use netconf::{Link, Netconf};
use rustix::process::{Resource, getrlimit};

use crate::holder;
use crate::measure::{self, Measured};
use crate::probe::{self, Opened};

/// As gathered; nothing is judged here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Effective capabilities, a bit each; `None` if /proc does not say.
    pub(crate) capabilities: Option<u64>,
    /// Major and minor.
    pub(crate) kernel: Option<(u32, u32)>,
    /// Type information of the kernel.
    pub(crate) has_btf: bool,
    /// Bytes that a process may lock; `None` is no limit.
    pub(crate) locked_memory: Option<u64>,
    /// `None`: netlink does not answer.
    pub(crate) interfaces: Option<Vec<Interface>>,
    pub(crate) cpus: usize,
    /// As the kernel lists them: "2-3,6".
    pub(crate) isolated_cpus: String,
    /// Those that are in use.
    pub(crate) governors: BTreeSet<String>,
}

/// An Ethernet interface that is up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) driver: Option<String>,
    pub(crate) is_veth: bool,
    /// A VLAN, a bond or the like.
    pub(crate) is_upper: bool,
    pub(crate) queues: u32,
    pub(crate) mtu: u32,
    pub(crate) has_address: bool,
    /// A bridge or a bond has it.
    pub(crate) is_part: bool,
    /// Number of the XDP program that is attached.
    pub(crate) xdp_program: Option<u32>,
    /// Whose it is, or who has the queues, as far as that can be seen.
    pub(crate) holder: Option<String>,
    /// What an attempt to open a socket came to; `None`: none was made.
    pub(crate) opened: Option<Opened>,
    /// What the modes of XDP took; `None`: they were not measured.
    pub(crate) measured: Option<Measured>,
    /// The mode that was faster when they were, since the machine was started.
    pub(crate) measured_mode: Option<AttachMode>,
}

/// Whether sockets are opened to see what comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Made,
    /// They are, and the interfaces that let them are measured.
    Measured,
    Spared,
}

impl Facts {
    pub(crate) fn gather(attempt: Attempt) -> Self {
        Self {
            capabilities: parse_capabilities(&read("/proc/self/status")),
            kernel: parse_release(&read("/proc/sys/kernel/osrelease")),
            has_btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            locked_memory: getrlimit(Resource::Memlock).current,
            interfaces: interfaces(attempt),
            cpus: thread::available_parallelism().map_or(1, Into::into),
            isolated_cpus: read("/sys/devices/system/cpu/isolated").trim().to_owned(),
            governors: governors(Path::new("/sys/devices/system/cpu")),
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn parse_capabilities(status: &str) -> Option<u64> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(value.trim(), 16).ok()
}

/// "6.1.0-13-amd64" is 6.1.
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release
        .trim()
        .split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn interfaces(attempt: Attempt) -> Option<Vec<Interface>> {
    let netconf = Netconf::open().ok()?;
    let links = netconf
        .links()
        .filter(|link| link.up && link.ethernet && !link.loopback);
    let seen = links.map(|link| interface(&netconf, link, attempt));
    Some(seen.collect())
}

/// How long the kernel may take to give a queue free whose process has ended: it waits for the lock
/// of all network namespaces.
const RELEASE_PATIENCE: Duration = Duration::from_secs(2);

/// A queue that a process has is not waited for.
fn open_when_released(link_index: u32, name: &str) -> Opened {
    let begun = Instant::now();
    loop {
        let opened = probe::open(link_index);
        let may_be_released = opened == Opened::Busy && begun.elapsed() < RELEASE_PATIENCE;
        if !may_be_released || holder::find(None, link_index, name).is_some() {
            return opened;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn interface(netconf: &Netconf, link: &Link, attempt: Attempt) -> Interface {
    let name = &link.name;
    // A link to the driver's directory; virtual interfaces have none, and are what their kind says.
    let driver = fs::read_link(format!("/sys/class/net/{name}/device/driver")).ok();
    let driver = driver
        .as_deref()
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy().into_owned())
        .or_else(|| link.kind.clone());
    let xdp_program = netconf.xdp_program(link.index).ok().flatten();
    let is_tried = attempt != Attempt::Spared && xdp_program.is_none();
    let opened = is_tried.then(|| open_when_released(link.index, name));
    let is_upper = netconf.spec(link).upper.is_some();
    // Interfaces over others have one mode.
    let is_measured = attempt == Attempt::Measured && opened == Some(Opened::Yes) && !is_upper;
    let is_held = xdp_program.is_some() || opened == Some(Opened::Busy);
    let holder = is_held.then(|| holder::find(xdp_program, link.index, name));
    Interface {
        measured: is_measured.then(|| measure::measure(netconf, link)),
        holder: holder.flatten(),
        opened,
        measured_mode: measured_mode(link),
        driver,
        is_upper,
        is_veth: link.kind.as_deref() == Some("veth"),
        queues: queues(name).unwrap_or(link.rx_queues),
        mtu: link.mtu,
        has_address: netconf.addresses_of(link.index).next().is_some(),
        is_part: link.master.is_some(),
        xdp_program,
        name: name.clone(),
    }
}

fn measured_mode(link: &Link) -> Option<AttachMode> {
    let path = Path::new(measured_modes::FILE);
    measured_modes::look_up(path, link.mac?, &dev_xdp::driver(&link.name))
}

/// The receive queues that are in use, of which there may be fewer than were allocated.
fn queues(name: &str) -> Option<u32> {
    let entries = fs::read_dir(format!("/sys/class/net/{name}/queues")).ok()?;
    let count = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-"))
        .count();
    u32::try_from(count).ok().filter(|count| *count > 0)
}

fn governors(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::read_to_string(entry.path().join("cpufreq/scaling_governor")).ok())
        .map(|text| text.trim().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_the_effective_ones() {
        let status = "CapPrm:\t0000000000000000\nCapEff:\t000001ffffffffff\n";
        assert_eq!(parse_capabilities(status), Some(0x1ff_ffff_ffff));
        assert_eq!(parse_capabilities(""), None);
    }

    #[test]
    fn a_release_begins_with_two_numbers() {
        assert_eq!(parse_release("6.1.0-13-amd64\n"), Some((6, 1)));
        assert_eq!(parse_release("5.15-rc1"), Some((5, 15)));
        assert_eq!(parse_release("next"), None);
    }

    #[test]
    fn governors_are_named_once() {
        let directory = tempfile::tempdir().unwrap();
        for (cpu, governor) in [("cpu0", "powersave\n"), ("cpu1", "powersave\n")] {
            let path = directory.path().join(cpu).join("cpufreq");
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("scaling_governor"), governor).unwrap();
        }
        fs::create_dir(directory.path().join("cpuidle")).unwrap();
        assert_eq!(governors(directory.path()), ["powersave".to_owned()].into());
    }

    #[test]
    fn this_machine_tells_something() {
        let facts = Facts::gather(Attempt::Made);
        assert!(facts.capabilities.is_some() && facts.kernel.is_some());
        assert!(facts.cpus > 0 && facts.interfaces.is_some());
    }
}
