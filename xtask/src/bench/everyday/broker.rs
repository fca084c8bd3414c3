//! The broker that the services of a run may ask.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::Running;

use crate::cargo;
use crate::failure::Failure;

/// The users that the packages of the services make. Those that begin as root need no grant.
const USERS: [&str; 6] = ["iperf3", "knot", "mysql", "postgres", "redis", "www-data"];
const START: Duration = Duration::from_secs(20);

/// `vmad --broker`, until this is dropped.
#[derive(Debug)]
pub(super) struct Broker {
    directory: PathBuf,
    _running: Running,
}

impl Broker {
    /// Its socket is in a directory of `home`, which each run has at /run/vma.
    pub(super) fn start(home: &Path) -> Result<Self, Failure> {
        let built = cargo::build(&["build", "--release", "--package", "vmad"])?;
        let directory = home.join("broker");
        std::fs::create_dir(&directory)?;
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755))?;
        let policy = directory.join("vmad.conf");
        let rules = USERS.map(|user| format!("allow user {user}\n")).concat();
        std::fs::write(&policy, rules)?;
        let mut command = Command::new(built.path("vmad")?);
        command.args(["--broker", "--console", "--broker-policy"]);
        command.arg(policy).arg("--broker-socket");
        command.arg(directory.join("vmad.sock"));
        let mut running = Running::start(command)?;
        if !running.wait_for_output("opens interfaces", START) {
            let said = running.stdout() + &running.stderr();
            return Err(Failure::Reason(format!("no broker: {said}")));
        }
        Ok(Self {
            directory,
            _running: running,
        })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}
