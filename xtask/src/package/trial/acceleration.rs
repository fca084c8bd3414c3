//! The installed library accelerates a program of the root.

use std::process::Command;
use std::time::Duration;

use testkit::{Namespace, Namespaces, Pair, Running};

use super::root::Root;
use crate::failure::Failure;
use crate::output::say;
use crate::packets::Watcher;
use crate::sockperf::SERVER_IS_READY;

const START: Duration = Duration::from_secs(20);
const ENOUGH: u64 = 1000;

/// sockperf in the root, both ends under the library that is installed there.
pub(super) fn check(root: &Root) -> Result<(), Failure> {
    let pair = Namespaces::pair().map_err(|skip| Failure::Reason(skip.to_string()))?;
    let address = Pair::ADDRESS_B.to_string();
    let server = sockperf(root, &pair.b, &["server", "-i", &address]);
    let mut server = Running::start(server)?;
    if !server.wait_for_output(SERVER_IS_READY, START) {
        return Err(Failure::Reason(format!(
            "{}{}",
            server.stdout(),
            server.stderr()
        )));
    }
    let client = ["ping-pong", "-i", &address, "-t", "2"];
    let mut client = Running::start(sockperf(root, &pair.a, &client))?;
    let directory = root.path().join("tmp");
    let mut watcher = Watcher::new(&directory, client.pid());
    while client.status()?.is_none() {
        watcher.look();
        std::thread::sleep(Duration::from_millis(20));
    }
    let packets = watcher.packets();
    say(format_args!("packages: {packets:?}"));
    if packets.offloaded < ENOUGH {
        let reasons: Vec<_> = watcher.reasons().into_iter().collect();
        return Err(Failure::Reason(format!(
            "the installed library did not accelerate sockperf: {packets:?} {}\n{}{}",
            reasons.join(", "),
            client.stdout(),
            client.stderr()
        )));
    }
    Ok(())
}

/// The root sees the kernel's files of the namespace, as an installed system does.
fn sockperf(root: &Root, namespace: &Namespace, arguments: &[&str]) -> Command {
    const SCRIPT: &str = "
        root=$1; shift
        mount --rbind /proc $root/proc && mount --rbind /sys $root/sys && mount --rbind /dev $root/dev || exit 1
        exec chroot $root env LD_PRELOAD=libvma.so VMA_SPEC=latency sockperf \"$@\"";
    let mut command = namespace.command("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh"]);
    command.arg(root.path()).args(arguments);
    command
}
