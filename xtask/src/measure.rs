//! sockperf between two network namespaces, on the kernel's sockets or with libvma preloaded.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGINT;
use tempfile::TempDir;
use testkit::{Finished, Namespace, Namespaces, Pair, Running};

use crate::failure::Failure;
use crate::interrupt::{self, POLL_INTERVAL};
use crate::needs;
use crate::packets::{Packets, Watcher};
use crate::sockperf::{self, Latency, SERVER_IS_READY};

/// Bytes of a ping-pong message.
pub(crate) const PING_PONG_BYTES: u32 = 64;
/// Bytes of a throughput message: sockperf's smallest.
pub(crate) const THROUGHPUT_BYTES: u32 = 14;

/// How long a program may take to start, and to end when it is told to.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// What a client takes before and after its measurement (a warm-up of two seconds, then
/// statistics), with a margin for a busy machine.
const CLIENT_EXTRA: Duration = Duration::from_secs(20);

/// Whose sockets sockperf uses, and where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// The kernel's, on the CPUs that the scheduler chooses.
    Kernel,
    /// The kernel's, client and server on one CPU. Blocking sockets gain by it wherever waking a
    /// sleeping CPU takes long, as in most virtual machines: a fair comparison looks at both.
    KernelOneCpu,
    /// libvma's, on the CPUs that the scheduler chooses.
    Libvma,
}

/// What sockperf sends its messages by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Udp,
    Tcp,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        }
    }

    /// sockperf's option.
    fn option(self) -> Option<&'static str> {
        match self {
            Self::Udp => None,
            Self::Tcp => Some("--tcp"),
        }
    }
}

/// What both ends sent and received, with libvma.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) client: Packets,
    pub(crate) server: Packets,
}

/// Messages per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Throughput {
    pub(crate) sent_per_sec: f64,
    pub(crate) received_per_sec: f64,
}

/// Two namespaces joined by a veth pair, the library, and a directory for statistics. All but the
/// library goes away with the value, and what runs inside too.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) pair: Pair,
    library: PathBuf,
    statistics: TempDir,
    /// The number of the CPU for [`Sockets::KernelOneCpu`].
    one_cpu: String,
}

/// A client and its server that have ended.
struct Run {
    client: Finished,
    server: Finished,
    ends: Ends,
}

/// Fails, before anything else takes time, if this user cannot make a [`Stage`].
pub(crate) fn require_root(task: &str) -> Result<(), Failure> {
    if needs::is_root() {
        return Ok(());
    }
    Err(Failure::Reason(format!(
        "{task} makes network namespaces and loads an XDP program, which only root may do; run\n\n    \
         sudo -E env \"PATH=$PATH\" cargo xtask {task}\n"
    )))
}

impl Stage {
    pub(crate) fn new(library: PathBuf) -> Result<Self, Failure> {
        let pair = Namespaces::pair().map_err(|skip| {
            Failure::Reason(format!(
                "this machine cannot run it: {skip}\n\
                 (in a container, start that with --privileged; the kernel needs veth, and AF_XDP \
                 for the acceleration)"
            ))
        })?;
        let statistics = tempfile::Builder::new().prefix("vma-xtask-").tempdir()?;
        let status = fs::read_to_string("/proc/self/status")?;
        let one_cpu = last_cpu(&status).unwrap_or("0").to_owned();
        Ok(Self {
            pair,
            library,
            statistics,
            one_cpu,
        })
    }

    /// Latency of ping-pong for about `seconds`.
    pub(crate) fn ping_pong(
        &self,
        protocol: Protocol,
        sockets: Sockets,
        seconds: u32,
    ) -> Result<(Latency, Ends), Failure> {
        let run = self.run(protocol, sockets, "ping-pong", PING_PONG_BYTES, seconds)?;
        let latency = sockperf::latency(&run.client.stdout)
            .ok_or_else(|| unreadable("ping-pong client", &run.client))?;
        Ok((latency, run.ends))
    }

    /// Messages (UDP) per second of a client that sends as fast as it can for `seconds`.
    pub(crate) fn throughput(&self, sockets: Sockets, seconds: u32) -> Result<Throughput, Failure> {
        let run = self.run(
            Protocol::Udp,
            sockets,
            "throughput",
            THROUGHPUT_BYTES,
            seconds,
        )?;
        let sent = sockperf::sent(&run.client.stdout)
            .filter(|sent| sent.seconds > 0.0)
            .ok_or_else(|| unreadable("throughput client", &run.client))?;
        let received = sockperf::received(&run.server.stdout)
            .ok_or_else(|| unreadable("throughput server", &run.server))?;
        Ok(Throughput {
            sent_per_sec: sent.messages as f64 / sent.seconds,
            received_per_sec: received as f64 / sent.seconds,
        })
    }

    fn run(
        &self,
        protocol: Protocol,
        sockets: Sockets,
        mode: &str,
        message_bytes: u32,
        seconds: u32,
    ) -> Result<Run, Failure> {
        let address = Pair::ADDRESS_B.to_string();
        let mut server = self.sockperf(sockets, &self.pair.b, &["server", "-i", &address]);
        server.args(protocol.option());
        server.stdin(std::process::Stdio::null());
        let mut server = Running::start(server)?;
        wait_until_ready(&mut server)?;

        let (message_bytes, time) = (message_bytes.to_string(), seconds.to_string());
        let arguments = [mode, "-i", &address, "-m", &message_bytes, "-t", &time];
        let mut client = self.sockperf(sockets, &self.pair.a, &arguments);
        client.args(protocol.option());
        let mut client = Running::start(client)?;

        let mut client_watcher = Watcher::new(self.statistics.path(), client.pid());
        let mut server_watcher = Watcher::new(self.statistics.path(), server.pid());
        let deadline = Instant::now() + Duration::from_secs(seconds.into()) + CLIENT_EXTRA;
        while client.status()?.is_none() && Instant::now() < deadline {
            interrupt::check()?;
            if sockets == Sockets::Libvma {
                client_watcher.look();
                server_watcher.look();
            }
            thread::sleep(POLL_INTERVAL);
        }
        let client = client.wait(Duration::ZERO)?;
        if sockets == Sockets::Libvma {
            server_watcher.look();
        }
        let server = server.stop(SIGINT, READY_TIMEOUT)?;

        let ends = Ends {
            client: client_watcher.packets(),
            server: server_watcher.packets(),
        };
        if sockets == Sockets::Libvma && (ends.client.offloaded == 0 || ends.server.offloaded == 0)
        {
            let reasons = &client_watcher.reasons() | &server_watcher.reasons();
            return Err(not_offloaded(ends, &reasons, [&client, &server]));
        }
        Ok(Run {
            client,
            server,
            ends,
        })
    }

    fn sockperf(&self, sockets: Sockets, namespace: &Namespace, arguments: &[&str]) -> Command {
        let mut command = match sockets {
            Sockets::Kernel => namespace.command("sockperf"),
            Sockets::KernelOneCpu => {
                let mut command = namespace.command("taskset");
                command.args(["--cpu-list", &self.one_cpu, "sockperf"]);
                command
            }
            Sockets::Libvma => namespace.preload("sockperf", &self.library),
        };
        if sockets == Sockets::Libvma {
            command
                .env("VMA_SPEC", "latency")
                .env("VMA_STATS_SHMEM_DIR", self.statistics.path());
        } else {
            command.env_remove("LD_PRELOAD");
        }
        command.args(arguments);
        command
    }
}

/// The last CPU that a process may use, as `/proc/self/status` lists them (proc_pid_status(5)). The
/// first one tends to serve the machine's interrupts.
fn last_cpu(status: &str) -> Option<&str> {
    let cpus = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    cpus.trim()
        .rsplit([',', '-'])
        .next()
        .filter(|cpu| !cpu.is_empty())
}

/// Waits until a server receives, which with libvma includes that its flow is in place.
fn wait_until_ready(server: &mut Running) -> Result<(), Failure> {
    let deadline = Instant::now() + READY_TIMEOUT;
    while !server.wait_for_output(SERVER_IS_READY, POLL_INTERVAL) {
        interrupt::check()?;
        if server.status()?.is_some() || Instant::now() > deadline {
            return Err(Failure::Reason(format!(
                "sockperf server does not start; it said:\n{}{}",
                sockperf::plain(&server.stdout()),
                server.stderr()
            )));
        }
    }
    Ok(())
}

fn unreadable(who: &str, finished: &Finished) -> Failure {
    Failure::Reason(format!(
        "the sockperf {who} reported no result ({}); it said:\n{}{}",
        finished.status,
        sockperf::plain(&finished.stdout),
        finished.stderr
    ))
}

/// Why an end of a preloaded run stayed in the kernel, as far as the statistics and the logs tell.
fn not_offloaded(ends: Ends, reasons: &BTreeSet<String>, logs: [&Finished; 2]) -> Failure {
    let mut text = format!(
        "nothing was offloaded at the client ({} packets) or the server ({} packets):\n",
        ends.client.offloaded, ends.server.offloaded
    );
    for reason in reasons {
        text += &format!("  reason of a socket: {reason}\n");
    }
    for line in logs.iter().flat_map(|log| log.stderr.lines()) {
        if line.contains("WARNING") || line.contains("ERROR") || line.contains("ERR:") {
            text += &format!("  {}\n", sockperf::plain(line).trim());
        }
    }
    text += "In general, AF_XDP needs Linux 5.9 or later, CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, and no other XDP \
             program on the interface";
    Failure::Reason(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_cpu_of_the_list_is_taken() {
        for (list, cpu) in [
            ("0-1", Some("1")),
            ("3", Some("3")),
            ("0-3,8,10-11", Some("11")),
            ("0,2", Some("2")),
            ("", None),
        ] {
            let status =
                format!("Cpus_allowed:\tff\nCpus_allowed_list:\t{list}\nMems_allowed:\t1\n");
            assert_eq!(last_cpu(&status), cpu, "{list}");
        }
        assert_eq!(last_cpu("Uid:\t0\n"), None);
    }
}
