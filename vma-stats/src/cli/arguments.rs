//! The options as they are declared, and what they come to.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Parser, Subcommand};
use stats::SectionInfo;

use super::values::{dump, fd_list, local_address, seconds, section};
use super::{Details, Options, Output, Process, Requests};
use crate::capture::{Capture, Filter, Ring};
use crate::fd_list::FdList;

/// Shows what the sockets of a process that runs libvma do.
///
/// On a terminal: screens with keys and mouse ('?' explains them). With -v, -c or --plain, or into
/// a pipe or file: the views of the original tool. Without -p or -n, the first process found in the
/// directory is shown.
#[derive(Debug, Parser)]
#[command(
    name = "vma_stats",
    version = VERSION,
    rename_all = "snake_case",
    args_override_self = true,
    group = ArgGroup::new("process").multiple(false),
    group = ArgGroup::new("output").multiple(false),
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Show the process with this id
    #[arg(short, long, value_name = "PID", group = "process", global = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// Show the process that runs the program of this name
    #[arg(short, long, value_name = "APPLICATION", group = "process", global = true,
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,

    /// Show the first process found (the default)
    #[arg(short, long, group = "process")]
    find_pid: bool,

    /// Where the library writes its statistics (its VMA_STATS_SHMEM_DIR)
    #[arg(
        short = 'k',
        long,
        value_name = "DIRECTORY",
        default_value = "/tmp/",
        global = true
    )]
    directory: PathBuf,

    /// Do not remove the files of processes that are gone
    #[arg(short = 'F', long)]
    forbid_clean: bool,

    /// Seconds between two reports; fractions are allowed
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds, global = true)]
    interval: Duration,

    /// Print this many reports and exit; 0 = until the process ends
    #[arg(short, long, value_name = "COUNT", global = true)]
    cycles: Option<u64>,

    /// 1 = counters of every socket, 2 = with queues, 3 = everything, 4 = multicast groups,
    /// 5 = all processes' sockets as netstat lists them
    #[arg(short, long, value_name = "VIEW", global = true,
          value_parser = clap::value_parser!(u8).range(1..=5))]
    view: Option<u8>,

    /// 1 = totals, 2 = change per second (with --json and --csv: change during the interval)
    #[arg(short, long, value_name = "DETAILS", default_value_t = 1, global = true,
          value_parser = clap::value_parser!(u8).range(1..=2))]
    details: u8,

    /// Only sockets with these descriptors, for example 4-16,1
    #[arg(short, long, value_name = "LIST", default_value = "0-", value_parser = fd_list, global = true)]
    sockets: FdList,

    /// Let all counters begin anew
    #[arg(short, long)]
    zero: bool,

    /// Set the library's log level: none, panic, error, warn, info, details, debug, fine, finer,
    /// all
    #[arg(short, long, value_name = "LEVEL", allow_hyphen_values = true)]
    log_level: Option<String>,

    /// Set how much the library puts in front of its log lines, 0 to 3
    #[arg(short = 'D', long = "details_level", value_name = "LEVEL",
          value_parser = clap::value_parser!(u8).range(0..=3))]
    details_level: Option<u8>,

    /// Have the library log the statistics of a socket, at a log level; 0 = of all; and exit
    #[arg(short = 'S', long = "fd_dump", value_names = ["FD", "LEVEL"], num_args = 1..=2)]
    fd_dump: Vec<String>,

    /// Print, even on a terminal
    #[arg(long, global = true)]
    plain: bool,

    /// Print view 1 with rings, buffer pools, and why sockets are not offloaded
    #[arg(long, group = "output", global = true)]
    explain: bool,

    /// Print one JSON document per report and line
    #[arg(long, group = "output", global = true)]
    json: bool,

    /// Print a section as comma-separated values
    #[arg(long, group = "output", value_name = "SECTION", num_args = 0..=1, default_missing_value = "sockets",
          require_equals = true, value_parser = section, global = true)]
    csv: Option<&'static SectionInfo>,

    /// Print metrics for Prometheus, or serve them on a local address
    #[arg(long, group = "output", value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "",
          require_equals = true, global = true)]
    prometheus: Option<String>,

    /// Metrics with a series for each socket, instead of sums by program, protocol, state and
    /// reason
    #[arg(long = "per_socket", requires = "prometheus")]
    per_socket: bool,
}

#[derive(Clone, Debug, Subcommand)]
pub(super) enum Command {
    /// Say why each socket is accelerated or not, and what to change
    Explain {
        /// Only the socket with this descriptor
        fd: Option<i32>,
    },
    /// Write the statistics to a file, one JSON document per interval
    Record { file: PathBuf },
    /// Show what was recorded
    Replay { file: PathBuf },
    /// Say which processes the broker serves, what they have, and who was refused
    Broker {
        /// The socket of the broker (the library's VMA_BROKER)
        #[arg(default_value = stats::BROKER_SOCKET)]
        socket: PathBuf,
    },
    /// Write the packets that pass by the kernel, as pcapng
    ///
    /// The filter has the common words of pcap-filter(7): host, net, port, portrange with src and
    /// dst, ip, ip6, tcp, udp, inbound, outbound, less, greater, and, or, not; and fd N. With -c,
    /// that many packets are written; with -s, those of these descriptors.
    Capture {
        /// Write to this file instead of standard output
        #[arg(short = 'w', long, value_name = "FILE")]
        write: Option<PathBuf>,

        /// Begin another file when one has so many millions of octets
        #[arg(short = 'C', long = "file_size", value_name = "MEGABYTES", requires = "write",
              value_parser = clap::value_parser!(u32).range(1..))]
        file_size: Option<u32>,

        /// Write to the first file again after so many
        #[arg(short = 'W', long = "files", value_name = "COUNT", requires = "file_size",
              value_parser = clap::value_parser!(u32).range(1..))]
        files: Option<u32>,

        /// Octets of each packet that are kept
        #[arg(long = "snapshot_length", value_name = "OCTETS", default_value_t = stats::SNAP_MAX,
              value_parser = clap::value_parser!(u32).range(1..=i64::from(stats::SNAP_MAX)))]
        snapshot_length: u32,

        /// Which packets: all, without one
        filter: Vec<String>,
    },
}

pub(super) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (statistics layout 1.7)");

impl Arguments {
    pub(super) fn resolve(self, on_terminal: bool) -> Result<Options, String> {
        let output = self.output(on_terminal)?;
        let requests = Requests {
            zero: self.zero,
            // The original counts to seven here, and has names for six in the environment.
            log_level: self.log_level.map(|level| match level.as_str() {
                "7" => "all".to_owned(),
                _ => level,
            }),
            log_details: self.details_level,
            dump: dump(&self.fd_dump)?,
        };
        let process = match (self.pid, self.name) {
            (Some(pid), _) => Process::Pid(pid),
            (None, Some(name)) => Process::Name(name),
            (None, None) => Process::FirstLive,
        };
        let details = if self.details == 2 {
            Details::Deltas
        } else {
            Details::Totals
        };
        let replay = match self.command {
            Some(Command::Replay { file }) => Some(file),
            _ => None,
        };
        Ok(Options {
            process,
            directory: self.directory,
            interval: self.interval,
            cycles: self.cycles.unwrap_or(0),
            details,
            sockets: self.sockets,
            keep_stale: self.forbid_clean,
            output,
            requests,
            replay,
        })
    }

    fn output(&self, on_terminal: bool) -> Result<Output, String> {
        match &self.command {
            Some(Command::Explain { fd }) => return Ok(Output::Words(*fd)),
            Some(Command::Record { file }) => return Ok(Output::Record(file.clone())),
            Some(Command::Broker { socket }) => {
                return Ok(Output::Broker {
                    socket: socket.clone(),
                    is_json: self.json,
                });
            }
            Some(Command::Capture {
                write,
                file_size,
                files,
                snapshot_length,
                filter,
            }) => {
                return Ok(Output::Capture(Box::new(Capture {
                    file: write.clone(),
                    ring: Ring {
                        bytes: u64::from(file_size.unwrap_or(0)) * 1_000_000,
                        files: files.unwrap_or(0),
                    },
                    snap: *snapshot_length,
                    filter: Filter::parse(filter)?,
                })));
            }
            Some(Command::Replay { .. }) | None => {}
        }
        if self.explain {
            return Ok(Output::Basic { explained: true });
        }
        if self.json {
            return Ok(Output::Json);
        }
        if let Some(section) = self.csv {
            return Ok(Output::Csv(section));
        }
        if let Some(address) = &self.prometheus {
            return Ok(Output::Prometheus {
                address: local_address(address)?,
                is_single: self.per_socket,
            });
        }
        let prints = self.plain || self.view.is_some() || self.cycles.is_some();
        Ok(match self.view {
            None if on_terminal && !prints => Output::Screens,
            None | Some(1) => Output::Basic { explained: false },
            Some(2) => Output::Medium,
            Some(3) => Output::Full,
            Some(4) => Output::Groups,
            Some(_) => Output::Netstat,
        })
    }
}
