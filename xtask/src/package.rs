//! `cargo xtask package`: DEB and RPM packages of the release build, in `target/packages`.
//!
//! [`contents`] says what is in them. It is put together as it will be installed ([`stage`]),
//! described for cargo-deb and cargo-generate-rpm ([`manifest`]), and made into packages by these.

mod contents;
mod manifest;
mod old_libc;
mod stage;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, Artifacts};
use crate::failure::Failure;
use crate::output::{print, say};
use crate::process::{self, Read};
use crate::setup;

pub(crate) use contents::{Format, Package};
pub(crate) use trial::run as try_out;

/// What all packages have in common.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    /// Of the workspace.
    pub(crate) version: String,
    /// When, for changelogs: as git and RFC 5322 write it.
    pub(crate) date: String,
    pub(crate) maintainer: &'static str,
}

impl Release {
    /// Distributions and NVIDIA have packages of these names with versions up to 9: an epoch makes
    /// ours the newer ones, so that no upgrade takes them for an older release.
    pub(crate) const EPOCH: u32 = 1;
    pub(crate) const REVISION: u32 = 1;

    pub(crate) fn major(&self) -> &str {
        self.version.split('.').next().unwrap_or_default()
    }

    /// The version of a Debian package.
    pub(crate) fn debian(&self) -> String {
        format!("{}:{}-{}", Self::EPOCH, self.version, Self::REVISION)
    }
}

/// Builds everything and prints the files; tries them out if wanted.
pub(crate) fn run(libc: Libc, tries: bool) -> Result<(), Failure> {
    if tries {
        say(try_out(libc)?);
    }
    for made in pack(&build(libc)?, None)? {
        print(&format!("{}\n", made.file.display()))?;
    }
    Ok(())
}

/// A package file.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) package: Package,
    pub(crate) format: Format,
    pub(crate) file: PathBuf,
}

/// Which C library the packages are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Libc {
    /// This machine's, and later ones.
    Own,
    /// glibc 2.28, and later ones.
    Old,
}

/// Builds what is packaged.
pub(crate) fn build(libc: Libc) -> Result<Artifacts, Failure> {
    setup::ensure_packagers()?;
    let packages = [
        "--release",
        "--package=libvma",
        "--package=vmad",
        "--package=vma-run",
        "--package=vma-stats",
        "--package=sockperf-rs",
    ];
    match libc {
        Libc::Own => cargo::build(&[&["build"][..], &packages].concat()),
        Libc::Old => old_libc::build(&packages),
    }
}

/// Makes all packages. With another version, they are not those to publish: they are for trying an
/// upgrade.
pub(crate) fn pack(built: &Artifacts, version: Option<&str>) -> Result<Vec<Made>, Failure> {
    let release = release(version)?;
    let mut directory = cargo::target_directory().join("packages");
    if version.is_some() {
        directory.push("upgrade");
    }
    let mut made = Vec::new();
    for format in [Format::Deb, Format::Rpm] {
        let staging = directory.join("staging").join(match format {
            Format::Deb => "deb",
            Format::Rpm => "rpm",
        });
        if staging.exists() {
            fs::remove_dir_all(&staging)?;
        }
        for package in Package::ALL {
            let file = make(built, &release, package, format, &staging, &directory)?;
            made.push(Made {
                package,
                format,
                file,
            });
        }
    }
    Ok(made)
}

fn make(
    built: &Artifacts,
    release: &Release,
    package: Package,
    format: Format,
    staging: &Path,
    output: &Path,
) -> Result<PathBuf, Failure> {
    let name = package.name(format);
    let home = staging.join(name);
    let assets = stage::stage(built, release, package, format, &home)?;
    fs::create_dir_all(home.join("src"))?;
    fs::write(home.join("src/lib.rs"), "")?;
    let manifest = home.join("Cargo.toml");
    fs::write(
        &manifest,
        manifest::write(release, package, format, &assets),
    )?;
    let file = output.join(match format {
        Format::Deb => format!(
            "{name}_{}-{}_{}.deb",
            release.version,
            Release::REVISION,
            stage::debian_architecture()
        ),
        Format::Rpm => format!(
            "{name}-{}-{}.{}.rpm",
            release.version,
            Release::REVISION,
            std::env::consts::ARCH
        ),
    });
    say(format_args!("package: {}", file.display()));
    let mut command = match format {
        Format::Deb => cargo::command(&["deb", "--no-build", "--no-strip", "--quiet", "--offline"]),
        Format::Rpm => cargo::command(&["generate-rpm"]),
    };
    command.current_dir(&home);
    match format {
        Format::Deb => {
            let version = format!("--deb-version={}", release.debian());
            command
                .args([version.as_str(), "--manifest-path"])
                .arg(&manifest);
            command.arg("--output").arg(&file);
        }
        Format::Rpm => {
            command.arg("--output").arg(&file);
        }
    }
    process::run(command)?;
    Ok(file)
}

fn release(version: Option<&str>) -> Result<Release, Failure> {
    let own = env!("CARGO_PKG_VERSION");
    Ok(Release {
        version: version.unwrap_or(own).to_owned(),
        date: date()?,
        maintainer: "libvma-rs maintainers <maintainers@users.noreply.a-seed-7b6a9f08.example>",
    })
}

/// That of the last commit, so that two builds of it are the same; without git, now.
fn date() -> Result<String, Failure> {
    let git = ["log", "-1", "--format=%cD"];
    let mut commit = Command::new("git");
    commit.args(git).current_dir(cargo::workspace());
    let mut now = Command::new("date");
    now.arg("-R");
    let mut date = String::new();
    let status = process::run_reading(commit, Read::Stdout, |line| date = line.to_owned());
    if status.is_ok_and(|status| status.success()) && !date.is_empty() {
        return Ok(date);
    }
    process::run_reading(now, Read::Stdout, |line| date = line.to_owned())?;
    Ok(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_packages_are_newer_than_those_of_distributions() {
        let release = Release {
            version: "0.2.0".to_owned(),
            date: String::new(),
            maintainer: "",
        };
        assert_eq!(release.debian(), "1:0.2.0-1");
        assert_eq!(release.major(), "0");
    }
}
