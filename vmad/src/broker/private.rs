//! A broker for one program and what that starts: `vma-run --broker` has it started, and it ends
//! when nobody is left.

use std::env;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{SocketAddrUnix, connect};

use super::open_socket;
use crate::cli::Options;
use crate::daemon::Failure;

/// How often it is looked whether it serves.
const PAUSE: Duration = Duration::from_millis(5);
/// It binds a socket and reads a file.
const START: Duration = Duration::from_secs(10);
/// How long it waits when its program has ended: that may have made itself a daemon, which opens
/// its interfaces a moment later.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// Starts it in the background, so that nobody waits for it as for a child, and returns when it
/// serves.
pub(crate) fn start(options: &Options) -> Result<(), Failure> {
    let mut command = Command::new(env::current_exe()?);
    command.args(env::args_os().skip(1)).arg("--detached");
    // Ctrl-C at the program's terminal is the program's.
    command.current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let until = Instant::now() + START;
    loop {
        if child.try_wait()?.is_some() {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                let _ = stderr.read_to_string(&mut said);
            }
            return Err(io::Error::other(said.trim_end().to_owned()).into());
        }
        if serves(&options.broker_socket) {
            return Ok(());
        }
        if Instant::now() >= until {
            let _ = child.kill();
            return Err(io::Error::other("it does not begin to serve").into());
        }
        thread::sleep(PAUSE);
    }
}

/// Whether a broker has this socket.
fn serves(socket: &Path) -> bool {
    let connected = || -> io::Result<()> {
        let address = SocketAddrUnix::new(socket)?;
        Ok(connect(open_socket()?, &address)?)
    };
    connected().is_ok()
}

/// It ends: its directory was made for it.
pub(super) fn remove_directory(socket: &Path) {
    if let Some(directory) = socket.parent() {
        // Unless somebody has put something there.
        let _ = fs::remove_dir(directory);
    }
}
