//! A broker for the program and what it starts, where none runs.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::ValueEnum;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The library's parameter that names a broker's socket.
pub(crate) const VARIABLE: &str = "VMA_BROKER";

/// Whether one is to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wish {
    /// If none runs and this user may
    Auto,
    /// The same; without one the program is not started
    Yes,
    /// No
    No,
}

/// What has come of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The program needs no word of it.
    AsBefore,
    /// It serves at this socket.
    Started(PathBuf),
}

/// Has a broker for this process, and what becomes of it. Where nothing is wanted, or there is one
/// already, all is as before.
///
/// # Errors
/// In words: why there is none.
pub(crate) fn arrange(
    wish: Wish,
    capabilities: Option<u64>,
    library: &Path,
) -> Result<Outcome, String> {
    // Who names one, or none, has decided.
    let is_decided = env::var_os(VARIABLE).is_some();
    if wish == Wish::No || is_decided || serves(Path::new(stats::BROKER_SOCKET)) {
        return Ok(Outcome::AsBefore);
    }
    let lacking = lacking(capabilities.unwrap_or(0));
    if !lacking.is_empty() {
        return Err(format!("a broker takes {}", lacking.join(", ")));
    }
    let program = find(library)
        .ok_or("there is no vmad beside this program, beside the library, or in /usr/sbin")?;
    let directory =
        make_directory().map_err(|error| format!("no directory for its socket: {error}"))?;
    let socket = directory.join("vmad.sock");
    match start(&program, &socket) {
        Ok(()) => Ok(Outcome::Started(socket)),
        Err(why) => {
            let _ = fs::remove_dir(&directory);
            Err(format!("{}: {why}", program.display()))
        }
    }
}

/// Whether a broker has this socket.
fn serves(socket: &Path) -> bool {
    let connected = || -> io::Result<()> {
        let kind = SocketType::SEQPACKET;
        let ours = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        Ok(connect(ours, &SocketAddrUnix::new(socket)?)?)
    };
    connected().is_ok()
}

/// What a broker needs and these capabilities are without. SYS_ADMIN is also what bpf(2) asks for.
fn lacking(capabilities: u64) -> Vec<&'static str> {
    let needed = [
        (12, "CAP_NET_ADMIN"),
        (13, "CAP_NET_RAW"),
        (21, "CAP_SYS_ADMIN"),
    ];
    let missing = |(bit, name): (u32, &'static str)| (capabilities & 1 << bit == 0).then_some(name);
    needed.into_iter().filter_map(missing).collect()
}

/// The daemon: of the same build, or the system's.
fn find(library: &Path) -> Option<PathBuf> {
    let own = env::current_exe().ok();
    let directories = [
        own.as_deref().and_then(Path::parent),
        library.parent(),
        Some(Path::new("/usr/sbin")),
    ];
    let files = directories.into_iter().flatten().map(|it| it.join("vmad"));
    files.into_iter().find(|file| file.is_file())
}

/// One that others can look into: programs give up their user and go on to ask the broker.
fn make_directory() -> io::Result<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let bases = [Some(PathBuf::from("/run")), runtime];
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for base in bases.into_iter().flatten() {
        // A process with this number may have left one.
        for attempt in 0..100 {
            let directory = base.join(format!("vma-run.{}.{attempt}", std::process::id()));
            match fs::DirBuilder::new().mode(0o755).create(&directory) {
                Ok(()) => return Ok(directory),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => failed = error,
                Err(error) => {
                    failed = error;
                    break;
                }
            }
        }
    }
    Err(failed)
}

/// Returns when it serves.
fn start(program: &Path, socket: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(["--broker", "--broker-for", &std::process::id().to_string()]);
    command.arg("--broker-socket").arg(socket);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.stderr(Stdio::piped()).output();
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr)
            .trim_end()
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_named() {
        assert_eq!(lacking(0x1ff_ffff_ffff), [] as [&str; 0]);
        assert_eq!(lacking(1 << 12 | 1 << 21), ["CAP_NET_RAW"]);
        assert_eq!(lacking(0).len(), 3);
    }

    #[test]
    fn nothing_is_started_where_nothing_is_wanted() {
        let library = Path::new("/nonexistent/libvma.so");
        assert_eq!(arrange(Wish::No, None, library), Ok(Outcome::AsBefore));
        let refused = arrange(Wish::Auto, Some(0), library);
        let runs = serves(Path::new(stats::BROKER_SOCKET));
        assert!(runs || refused.unwrap_err().contains("CAP_NET_RAW"));
    }
}
