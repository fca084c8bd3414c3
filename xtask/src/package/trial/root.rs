//! A root directory to install packages in.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::{Format, Package};
use super::full_version;
use crate::cargo;
use crate::debian;
use crate::failure::Failure;
use crate::process::{self, Read};

/// A small Debian with sockperf, and what the service calls, made once.
pub(super) fn base() -> Result<PathBuf, Failure> {
    debian::base("packages/debian", "sockperf,procps")
}

/// A copy that is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Root {
    directory: tempfile::TempDir,
    format: Format,
}

/// What package managers and the loader keep for themselves.
const BOOKKEEPING: &[&str] = &[
    "etc/ld.so.cache",
    "usr/lib/sysimage",
    "var/cache",
    "var/lib/dpkg",
    "var/lib/rpm",
    "var/log",
    "tmp",
];

impl Root {
    pub(super) fn copy_of(base: &Path, format: Format) -> Result<Self, Failure> {
        let directory = tempfile::tempdir_in(cargo::target_directory().join("packages"))?;
        debian::copy(base, &directory.path().join("root"))?;
        Ok(Self { directory, format })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    pub(super) fn read(&self, file: &str) -> Result<String, Failure> {
        Ok(fs::read_to_string(self.path().join(file))?)
    }

    pub(super) fn write(&self, file: &str, text: &str) -> Result<(), Failure> {
        Ok(fs::write(self.path().join(file), text)?)
    }

    pub(super) fn has(&self, file: &str) -> bool {
        self.path().join(file).symlink_metadata().is_ok()
    }

    /// Every file and link, without those that change with each installation.
    pub(super) fn files(&self) -> Result<BTreeSet<String>, Failure> {
        let root = self.path();
        let mut files = BTreeSet::new();
        let mut open = vec![root.clone()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                let path = entry.path();
                let name = path.strip_prefix(&root).unwrap_or(&path);
                if BOOKKEEPING.iter().any(|kept| name.starts_with(kept)) {
                    continue;
                }
                if entry.file_type()?.is_dir() {
                    open.push(path);
                } else {
                    files.insert(name.to_string_lossy().into_owned());
                }
            }
        }
        Ok(files)
    }

    /// Installs these packages, or upgrades to them.
    pub(super) fn install(&self, packages: &[&Path]) -> Result<(), Failure> {
        let mut command = match self.format {
            Format::Deb => {
                let inside = self.path().join("tmp");
                let mut names = Vec::new();
                for package in packages {
                    let name = package.file_name().unwrap_or_default();
                    fs::copy(package, inside.join(name))?;
                    names.push(Path::new("/tmp").join(name));
                }
                let mut command = self.inside("dpkg");
                command.arg("--install").args(names);
                command
            }
            Format::Rpm => {
                // The root has no data base of RPM packages that could satisfy anything.
                let mut command = self.rpm();
                command.args(["--upgrade", "--nodeps"]).args(packages);
                command
            }
        };
        command.env("DEBIAN_FRONTEND", "noninteractive");
        process::run(command)
    }

    pub(super) fn expect_version(&self, version: &str) -> Result<(), Failure> {
        let mut command = match self.format {
            Format::Deb => {
                let mut command = self.inside("dpkg-query");
                command.args(["--show", "--showformat=${Version}", "libvma"]);
                command
            }
            Format::Rpm => {
                let mut command = self.rpm();
                command.args([
                    "--query",
                    "--queryformat=%{EPOCH}:%{VERSION}-%{RELEASE}",
                    "libvma",
                ]);
                command
            }
        };
        command.stderr(std::process::Stdio::inherit());
        let text = read(command)?;
        super::expect(
            text.trim() == full_version(version),
            &format!("version {text} is installed, not {version}"),
        )
    }

    pub(super) fn remove(&self) -> Result<(), Failure> {
        let mut command = match self.format {
            Format::Deb => self.inside("dpkg"),
            Format::Rpm => self.rpm(),
        };
        command.arg(match self.format {
            Format::Deb => "--remove",
            Format::Rpm => "--erase",
        });
        // Those that `install` gets, who depends on another first.
        let packages = [Package::Development, Package::Utilities, Package::Library];
        command.args(packages.map(|package| package.name(self.format)));
        process::run(command)
    }

    /// Removes what removing keeps: the changed configuration.
    pub(super) fn purge(&self, configuration: &str) -> Result<(), Failure> {
        match self.format {
            Format::Deb => {
                super::expect(self.has(configuration), "removing took the configuration")?;
                let mut command = self.inside("dpkg");
                command.args(["--purge", "libvma-utils", "libvma"]);
                process::run(command)
            }
            Format::Rpm => {
                let saved = format!("{configuration}.rpmsave");
                super::expect(self.has(&saved), "removing took the configuration")?;
                Ok(fs::remove_file(self.path().join(saved))?)
            }
        }
    }

    /// What a program in the root prints, whatever its exit status.
    pub(super) fn output(&self, program: &str, arguments: &[&str]) -> Result<String, Failure> {
        let mut command = self.inside(program);
        command.args(arguments);
        read(command)
    }

    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("chroot");
        command.arg(self.path()).arg(program);
        // Debian's root has the administrator's programs there.
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env_remove("LD_PRELOAD");
        command
    }

    fn rpm(&self) -> Command {
        let mut command = Command::new("rpm");
        // Debian's rpm keeps its data base in the home directory otherwise.
        command
            .arg("--root")
            .arg(self.path())
            .args(["--dbpath", "/var/lib/rpm"]);
        let path = env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        command
    }
}

fn read(command: Command) -> Result<String, Failure> {
    let mut text = String::new();
    process::run_reading(command, Read::Stdout, |line| {
        text += line;
        text.push('\n');
    })?;
    Ok(text)
}
