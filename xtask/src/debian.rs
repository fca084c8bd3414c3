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

/// Writes a script that can be run.
pub(crate) fn write_program(file: &Path, text: &str) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    fs::write(file, text)?;
    let mode = fs::Permissions::from_mode(0o755);
    Ok(fs::set_permissions(file, mode)?)
}

/// A kernel of this system's release, or of its backports, with its modules: `root/boot` and
/// `root/lib/modules` in the directory `target/<name>`. Fetched once.
pub(crate) fn kernel(name: &str, of_backports: bool) -> Result<PathBuf, Failure> {
    let directory = cargo::target_directory().join(name);
    let finished = directory.join("finished");
    if finished.exists() {
        return Ok(directory);
    }
    say("fetching a kernel of Debian's, 70 to 110 MB");
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    for of_apt in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(directory.join(of_apt))?;
    }
    let suite = suite() + if of_backports { "-backports" } else { "" };
    let source = format!(
        "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
         http://deb.debian.org/debian {suite} main\n"
    );
    fs::write(directory.join("sources.list"), source)?;
    let mut fetch = Command::new("sh");
    fetch.args(["-ec", FETCH_KERNEL]).current_dir(&directory);
    process::run(fetch)?;
    fs::write(finished, "")?;
    Ok(directory)
}

/// With lists of its own, so that the system's do not change.
const FETCH_KERNEL: &str = r#"
    apt() {
        command=$1; shift
        "$command" -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=- \
            -o Dir::State::lists="$PWD/lists" -o Dir::Cache="$PWD/cache" -o APT::Sandbox::User=root \
            -q "$@"
    }
    apt apt-get update
    apt apt-get download "$(apt apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head -n 1)"
    dpkg-deb --extract linux-image-*.deb root
    rm linux-image-*.deb
    depmod --basedir root "$(ls root/lib/modules)"
"#;
