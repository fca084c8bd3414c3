//! Tries the packages out as a user does: installed in a clean root, upgraded over a changed
//! configuration, used, removed.
//!
//! The root is a small Debian, made once by debootstrap (which needs the network) and copied for
//! each trial. RPM packages are installed into a copy, too, by `rpm --root`.

mod acceleration;
mod root;

use std::path::Path;
use std::process::Command;

use super::{Format, Made, Package, Release};
use crate::cargo;
use crate::failure::Failure;
use crate::output::say;
use crate::package::Libc;
use crate::process;
use crate::setup;
use root::Root;

/// For the upgrade: later than any release.
const LATER: &str = "99.0.0";

const CONFIGURATION: &str = "etc/libvma.conf";
const CHANGED: &str = "# changed by the administrator\nuse os udp_connect *:5353\n";

/// Builds the packages and tries them; says what was tried.
pub(crate) fn run(libc: Libc) -> Result<String, Failure> {
    setup::ensure_for_trial()?;
    let built = super::build(libc)?;
    let made = super::pack(&built, None)?;
    let later = super::pack(&built, Some(LATER))?;
    check_with_tools(&made)?;
    let base = root::base()?;
    for format in [Format::Deb, Format::Rpm] {
        try_format(&base, format, &made, &later)?;
    }
    Ok("DEB and RPM installed, upgraded, used, removed".to_owned())
}

fn check_with_tools(made: &[Made]) -> Result<(), Failure> {
    for made in made {
        let mut command = match made.format {
            Format::Deb => {
                let mut lintian = Command::new("lintian");
                lintian.args(["--allow-root", "--fail-on", "error,warning"]);
                lintian
            }
            Format::Rpm => {
                let mut rpmlint = Command::new("rpmlint");
                rpmlint
                    .arg("--config")
                    .arg(cargo::workspace().join("packaging/rpmlint.toml"));
                rpmlint
            }
        };
        command.arg(&made.file);
        process::run(command)?;
    }
    Ok(())
}

/// The library and the utilities; the symbols are only files.
fn files(made: &[Made], format: Format) -> Vec<&Path> {
    made.iter()
        .filter(|made| made.format == format && made.package != Package::Symbols)
        .map(|made| made.file.as_path())
        .collect()
}

fn try_format(base: &Path, format: Format, made: &[Made], later: &[Made]) -> Result<(), Failure> {
    let root = Root::copy_of(base, format)?;
    if format == Format::Rpm {
        // Where the loaders of distributions with RPM look by themselves, and Debian's does not.
        root.write("etc/ld.so.conf.d/lib64.conf", "/usr/lib64\n")?;
    }
    let before = root.files()?;
    say(format_args!("packages: install ({format:?})"));
    root.install(&files(made, format))?;
    root.expect_version(env!("CARGO_PKG_VERSION"))?;
    expect_programs(&root)?;
    verify_services(&root)?;
    acceleration::check(&root)?;

    say(format_args!("packages: upgrade ({format:?})"));
    root.write(CONFIGURATION, CHANGED)?;
    root.install(&files(later, format))?;
    root.expect_version(LATER)?;
    expect(
        root.read(CONFIGURATION)? == CHANGED,
        "the upgrade replaced a changed libvma.conf",
    )?;

    say(format_args!("packages: remove ({format:?})"));
    root.remove()?;
    root.purge(CONFIGURATION)?;
    let left: Vec<String> = root
        .files()?
        .into_iter()
        .filter(|file| !before.contains(file))
        .collect();
    expect(
        left.is_empty(),
        &format!("left behind: {}", left.join(", ")),
    )?;
    let lost = before.iter().find(|file| !root.has(file));
    expect(
        lost.is_none(),
        &format!("removed what is another's: {lost:?}"),
    )
}

/// They start, and the tools find what was installed.
fn expect_programs(root: &Root) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    for (program, arguments) in [
        ("/usr/sbin/vmad", &["--version"][..]),
        ("/usr/bin/vma_stats", &["--version"]),
        ("/usr/bin/sockperf-rs", &["--version"]),
        ("/usr/bin/udp_lat", &["--version"]),
        ("/usr/bin/vma-run", &["--version"]),
    ] {
        let text = root.output(program, arguments)?;
        expect(text.contains(version), &format!("{program}: {text}"))?;
    }
    let report = root.output("/usr/bin/vma-run", &["--check"])?;
    expect(report.contains("libvma.so\n"), &report)
}

fn verify_services(root: &Root) -> Result<(), Failure> {
    let mut command = Command::new("systemd-analyze");
    command
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(format!("--root={}", root.path().display()))
        .args(["vma.service", "vma-broker.service", "vma-broker.socket"]);
    process::run(command)
}

fn expect(is_so: bool, otherwise: &str) -> Result<(), Failure> {
    if is_so {
        Ok(())
    } else {
        Err(Failure::Reason(otherwise.to_owned()))
    }
}

/// As the package managers print it.
fn full_version(version: &str) -> String {
    format!("{}:{version}-{}", Release::EPOCH, Release::REVISION)
}
