//! What a broker says of itself: who has which interface, and who was refused. A document in a file
//! beside the broker's socket, which anybody may read.

use std::fmt::{Display, Write as _};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::process_start_time_ticks;

/// No broker writes a longer one: 64 processes an interface, each with [`PORTS_SHOWN`].
const BYTES_MAX: u64 = 16 << 20;
/// Where programs ask the broker, if they are told nothing else.
pub const BROKER_SOCKET: &str = "/run/vma/vmad.sock";
/// Ports of a process that are named.
pub const PORTS_SHOWN: usize = 32;

/// The document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerStatus {
    /// The broker's process.
    pub pid: u32,
    /// When it began, so that no later process is taken for it.
    pub start_ticks: u64,
    /// The broker's version.
    pub version: String,
    /// Those that are open.
    pub interfaces: Vec<BrokerInterface>,
    /// How many grants were refused since the broker began.
    pub refusals: u64,
    /// The latest of them; those of the same process's user, program and reason are one.
    pub refused: Vec<Refusal>,
}

/// An interface that the broker has opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerInterface {
    /// The inode of its network namespace, as `readlink /proc/PID/ns/net` says it.
    pub namespace: u64,
    /// Its index there.
    pub index: u32,
    /// Its name there.
    pub name: String,
    /// Where the XDP program runs.
    pub mode: String,
    /// How many queues it has.
    pub queues: u32,
    /// The processes that have it.
    pub clients: Vec<BrokerClient>,
}

/// A process that has a part of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerClient {
    /// The process.
    pub pid: u32,
    /// Its user.
    pub user: u32,
    /// The name of its program.
    pub program: String,
    /// Its ports, at most [`PORTS_SHOWN`].
    pub ports: Vec<String>,
    /// How many ports it has.
    pub ports_held: u64,
    /// How many flows to one peer each.
    pub flows: u64,
    /// Received frames that it has not taken yet.
    pub frames_received: u64,
    /// Frames that the interface is sending for it.
    pub frames_sending: u64,
    /// Frames that are its own to send by.
    pub frames_to_send: u64,
    /// Packets that were lost for lack of room in its rings.
    pub dropped: u64,
    /// It has not looked into its rings for a while though something is there: it gets no new
    /// connections.
    pub is_late: bool,
}

/// A process that was not served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The last such process.
    pub pid: u32,
    /// Its user, where that is known.
    pub user: Option<u32>,
    /// The name of its program, where that is known.
    pub program: String,
    /// The interface, where it is known.
    pub interface: String,
    /// The reason.
    pub why: String,
    /// How often.
    pub times: u64,
    /// The last time, seconds since 1970.
    pub last: u64,
}

impl BrokerStatus {
    /// The file of the broker with this socket.
    pub fn path(socket: &Path) -> PathBuf {
        socket.with_extension("json")
    }

    /// What the broker with this socket says, which `parse` reads as JSON.
    ///
    /// # Errors
    /// In words: there is no such broker, or it has ended, or that is something else.
    pub fn read<E: Display>(
        socket: &Path,
        parse: impl FnOnce(&[u8]) -> Result<Self, E>,
    ) -> Result<Self, String> {
        let path = Self::path(socket);
        let shown = path.display();
        let missing =
            |error| format!("no broker has left its status in {shown}: {error} (vmad --broker)");
        let mut bytes = Vec::new();
        let file = fs::File::open(&path).map_err(missing)?;
        file.take(BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(missing)?;
        let status =
            parse(&bytes).map_err(|error| format!("{shown} is no broker's status: {error}"))?;
        if process_start_time_ticks(status.pid) != Some(status.start_ticks) {
            let pid = status.pid;
            return Err(format!(
                "the broker that left its status in {shown}, process {pid}, has ended, or is not seen from here"
            ));
        }
        Ok(status)
    }

    /// For a person.
    pub fn render(&self, now: u64) -> String {
        let mut text = format!(
            "broker {} runs, process {}; {} interface(s), {} refused\n",
            printable(&self.version),
            self.pid,
            self.interfaces.len(),
            self.refusals
        );
        for interface in &self.interfaces {
            push_interface(&mut text, interface);
        }
        if !self.refused.is_empty() {
            text += "\nRefused:\n";
        }
        for refusal in &self.refused {
            let user = refusal
                .user
                .map_or_else(|| "?".to_owned(), |user| user.to_string());
            let ago = now.saturating_sub(refusal.last);
            // Writing into a string cannot fail, here and below.
            let _ = writeln!(
                text,
                "  {} time(s), last {ago} s ago: process {} ({}) of user {user}{}{}: {}",
                refusal.times,
                refusal.pid,
                printable(&refusal.program),
                if refusal.interface.is_empty() {
                    ""
                } else {
                    " at "
                },
                printable(&refusal.interface),
                printable(&refusal.why),
            );
        }
        text
    }
}

fn push_interface(text: &mut String, interface: &BrokerInterface) {
    let _ = writeln!(
        text,
        "\n{} (index {}, network namespace {}): {}, {} queue(s), {} process(es)",
        printable(&interface.name),
        interface.index,
        interface.namespace,
        printable(&interface.mode),
        interface.queues,
        interface.clients.len(),
    );
    if interface.clients.is_empty() {
        return;
    }
    *text +=
        "    PID   USER PROGRAM           FLOWS  RECEIVED   SENDING   TO SEND   DROPPED  PORTS\n";
    for client in &interface.clients {
        let ports: Vec<_> = client.ports.iter().map(|it| printable(it)).collect();
        let more = client.ports_held.saturating_sub(ports.len() as u64);
        let _ = writeln!(
            text,
            "{:>7} {:>6} {:<16} {:>6} {:>9} {:>9} {:>9} {:>9}  {}{}{}",
            client.pid,
            client.user,
            printable(&client.program),
            client.flows,
            client.frames_received,
            client.frames_sending,
            client.frames_to_send,
            client.dropped,
            ports.join(", "),
            match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            },
            if client.is_late {
                " (late: gets no new connections)"
            } else {
                ""
            },
        );
    }
}

/// Names are the processes' own words: none of them moves a terminal's cursor.
fn printable(text: &str) -> String {
    text.chars()
        .map(|it| if it.is_control() { '?' } else { it })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> BrokerStatus {
        BrokerStatus {
            pid: std::process::id(),
            start_ticks: process_start_time_ticks(std::process::id()).unwrap(),
            version: "1.2.3".to_owned(),
            interfaces: vec![BrokerInterface {
                namespace: 4_026_531_840,
                index: 7,
                name: "eth1".to_owned(),
                mode: "xdp generic".to_owned(),
                queues: 2,
                clients: vec![BrokerClient {
                    pid: 77,
                    user: 1000,
                    program: "feed\u{1b}[2J".to_owned(),
                    ports: vec!["udp 10.0.0.1:80".to_owned()],
                    ports_held: 3,
                    frames_received: 5,
                    is_late: true,
                    ..BrokerClient::default()
                }],
            }],
            refusals: 4,
            refused: vec![Refusal {
                pid: 9,
                user: Some(1001),
                program: "x".to_owned(),
                interface: "eth1".to_owned(),
                why: "user 1001 may not".to_owned(),
                times: 4,
                last: 100,
            }],
        }
    }

    #[test]
    fn a_document_says_who_has_what_and_who_was_refused() {
        let text = status().render(160);
        for part in [
            "broker 1.2.3 runs",
            "eth1 (index 7, network namespace 4026531840): xdp generic, 2 queue(s), 1 process(es)",
            "feed?[2J",
            "udp 10.0.0.1:80 and 2 more (late",
            "4 time(s), last 60 s ago: process 9 (x) of user 1001 at eth1: user 1001 may not",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn what_no_living_broker_wrote_is_no_status() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("vmad.sock");
        let file = BrokerStatus::path(&socket);
        let nothing = BrokerStatus::read(&socket, |_| Err::<_, &str>(""));
        assert!(nothing.unwrap_err().contains("no broker"));
        fs::write(&file, "{}").unwrap();
        let read = |parsed: Result<BrokerStatus, &str>| BrokerStatus::read(&socket, |_| parsed);
        assert_eq!(read(Ok(status())), Ok(status()));
        let dead = BrokerStatus {
            start_ticks: 1,
            ..status()
        };
        assert!(read(Ok(dead)).unwrap_err().contains("has ended"));
        assert!(read(Err("no JSON")).unwrap_err().contains("is no"));
    }
}
