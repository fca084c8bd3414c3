//! Source packages of Debian's, fetched when a test asks for one. Nothing of the machine's own
//! package lists is touched.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use testkit::{Skip, needs};

/// The unpacked source package of this name, of the machine's own release.
pub(crate) fn source(package: &str) -> Result<PathBuf, Skip> {
    needs::require(&["dpkg-source"])?;
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("sources")
        .join(package);
    let unpacked = directory.join("unpacked");
    if unpacked.is_dir() {
        return Ok(unpacked);
    }
    drop(fs::remove_dir_all(&directory));
    fs::create_dir_all(directory.join("lists/partial")).unwrap();
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let codename = codename.ok_or_else(|| Skip::new("this Debian has no name"))?;
    let list = directory.join("sources.list");
    let key = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let line = format!("deb-src [signed-by={key}] http://deb.debian.org/debian {codename} main\n");
    fs::write(&list, line).unwrap();
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.current_dir(&directory).env("PATH", needs::PATH);
        for (name, path) in [
            ("Etc::SourceList", &list),
            ("State::Lists", &directory.join("lists")),
        ] {
            apt.args(["-o", &format!("Dir::{name}={}", path.display())]);
        }
        apt.args([
            "-o",
            "Dir::Etc::SourceParts=/dev/null",
            "-o",
            "APT::Sandbox::User=root",
        ]);
        said(apt.args(arguments))
    };
    apt(&["--error-on=any", "update"])?;
    apt(&["--download-only", "source", package])?;
    let entries = fs::read_dir(&directory)
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let description = entries
        .into_iter()
        .find(|path| path.extension().is_some_and(|it| it == "dsc"));
    // In place whole.
    let fresh = directory.join("fresh");
    let mut unpack = Command::new("dpkg-source");
    unpack
        .env("PATH", needs::PATH)
        .arg("--extract")
        .arg(description.unwrap())
        .arg(&fresh);
    said(&mut unpack)?;
    fs::rename(fresh, &unpacked).unwrap();
    Ok(unpacked)
}

/// What a command says, where it succeeds.
pub(crate) fn said(command: &mut Command) -> Result<String, Skip> {
    let output = command
        .output()
        .map_err(|error| Skip::new(format!("{command:?}: {error}")))?;
    let words = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Skip::new(format!("{command:?}: {words}"))),
    }
}
