//! A C program that is its own peer: one process of it obeys what others of it say.

use std::path::Path;
use std::time::Duration;

use crate::comparison::Comparison;
use crate::namespace::Namespace;
use crate::pair::Pair;
use crate::running::Running;

const SOON: Duration = Duration::from_secs(30);

/// Starts `program peer <address>` at [`Pair::ADDRESS_A`], without the library.
///
/// # Panics
///
/// If it is not ready soon.
pub fn obeying_peer(namespace: &Namespace, program: &Path) -> Running {
    start(namespace, program, &[])
}

impl Comparison {
    /// The same, over what the compared program's sockets are of.
    ///
    /// # Panics
    ///
    /// As [`obeying_peer`].
    pub fn obeying_peer(&self, program: &Path) -> Running {
        start(&self.pair.a, program, self.told)
    }
}

fn start(namespace: &Namespace, program: &Path, told: &[(&str, &str)]) -> Running {
    let mut command = namespace.command(program);
    command.args(["peer", &Pair::ADDRESS_A.to_string()]);
    command.envs(told.iter().copied());
    let mut peer = Running::start(command).expect("the program can be started");
    assert!(peer.wait_for_output("ready", SOON), "{}", peer.stderr());
    peer
}
