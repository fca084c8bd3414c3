//! Small Debian systems in directories, made by debootstrap (which needs the network), to try
//! things out in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo;
use crate::failure::Failure;
use crate::output::say;
use crate::process;

/// A root with these packages beyond what every Debian has, made once and kept as `target/<name>`.
pub(crate) fn base(name: &str, packages: &str) -> Result<PathBuf, Failure> {
    let directory = cargo::target_directory().join(name);
    let finished = directory.join("finished");
    if finished.exists() {
        return Ok(directory.join("root"));
    }
    say("debootstrap makes a Debian, which takes a minute or two");
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap
        .args([
            "--variant=minbase",
            &format!("--include={packages}"),
            &suite(),
        ])
        .arg(directory.join("root"))
        .env("DEBIAN_FRONTEND", "noninteractive");
    process::run(debootstrap)?;
    fs::write(finished, "")?;
    Ok(directory.join("root"))
}

/// This system's, so that its libraries are those that were linked with.
fn suite() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.unwrap_or("stable").to_owned()
}

/// Copies it to `to`, which does not exist yet.
pub(crate) fn copy(base: &Path, to: &Path) -> Result<(), Failure> {
    let mut copy = Command::new("cp");
    copy.args(["--archive", "--reflink=auto"]).arg(base).arg(to);
    process::run(copy)
}
