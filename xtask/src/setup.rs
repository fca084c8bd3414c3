//! `cargo xtask setup`: installs what is missing, or says how.

use std::env;
use std::process::{Command, Stdio};

use crate::cargo;
use crate::failure::Failure;
use crate::needs::{self, Need, Purpose};
use crate::output::say;
use crate::process;

/// Installs what any command needs.
pub(crate) fn everything() -> Result<(), Failure> {
    ensure(Purpose::Testing)?;
    say("setup: everything that demo, test and bench need is here");
    Ok(())
}

/// Installs what `purpose` needs and this machine lacks. Without the right to install, fails with the
/// commands that do.
pub(crate) fn ensure(purpose: Purpose) -> Result<(), Failure> {
    let components = match purpose {
        Purpose::Testing => missing_components(),
        _ => Vec::new(),
    };
    let missing = needs::missing(purpose);
    for need in &missing {
        say(format_args!(
            "setup: {} is missing ({})",
            need.program, need.why
        ));
    }
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    if !components.is_empty() {
        install_components(&components)?;
    }
    if purpose == Purpose::Testing {
        install_compared();
    }
    let still: Vec<&str> = needs::missing(purpose)
        .iter()
        .map(|need| need.program)
        .collect();
    if still.is_empty() {
        return Ok(());
    }
    Err(Failure::Reason(format!(
        "{} is installed but not in the PATH ({}): add its directory, such as /usr/sbin",
        still.join(", "),
        env::var("PATH").unwrap_or_default()
    )))
}

/// Has cargo build and install cargo-deny, which takes minutes, unless it is here.
pub(crate) fn ensure_cargo_deny() -> Result<(), Failure> {
    ensure_subcommand("deny")
}

/// The tools that make packages, which take minutes to build.
pub(crate) fn ensure_packagers() -> Result<(), Failure> {
    ensure(Purpose::Packaging)?;
    ensure_subcommand("deb")?;
    ensure_subcommand("generate-rpm")
}

/// The tools that try packages out.
pub(crate) fn ensure_for_trial() -> Result<(), Failure> {
    ensure(Purpose::TestingPackages)
}

/// Has cargo build and install one of its subcommands, unless it is here.
fn ensure_subcommand(name: &str) -> Result<(), Failure> {
    if has_subcommand(name) {
        return Ok(());
    }
    let package = format!("cargo-{name}");
    say(format_args!("setup: cargo install {package} --locked"));
    process::run(cargo::command(&["install", &package, "--locked"]))
}

/// Installs programs that the tests compare with and without the library, if root asks. Without one of them its test is
/// skipped: no failure here.
fn install_compared() {
    let missing = needs::missing_compared(may_install_services());
    if missing.is_empty() {
        return;
    }
    let arguments = [INSTALL, missing.as_slice()].concat();
    let has_apt_get = needs::is_in_path("apt-get", &env::var_os("PATH").unwrap_or_default());
    if !needs::is_root() || !has_apt_get {
        say(format_args!(
            "setup: tests of programs that are not here will be skipped (to install: apt-get {})",
            arguments.join(" ")
        ));
        return;
    }
    let installed = apt_get(&["update"]).and_then(|()| apt_get(&arguments));
    if let Err(failure) = installed {
        say(format_args!(
            "setup: going on without these, their tests will be skipped: {failure}"
        ));
    }
}

/// Whether this is a machine for tests, where packages may be installed that start services.
fn may_install_services() -> bool {
    env::var_os("VMA_TEST_SERVICES").is_some_and(|value| !value.is_empty() && value != "0")
}

const INSTALL: &[&str] = &["install", "--yes", "--no-install-recommends"];

/// The arguments of apt-get that install `missing`.
fn install_arguments(missing: &[&Need]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    packages.sort_unstable();
    packages.dedup();
    [INSTALL, packages.as_slice()].concat()
}

fn install_packages(missing: &[&Need]) -> Result<(), Failure> {
    let install = install_arguments(missing);
    let by_hand = format!("apt-get update && apt-get {}", install.join(" "));
    if !needs::is_in_path("apt-get", &env::var_os("PATH").unwrap_or_default()) {
        let programs: Vec<&str> = missing.iter().map(|need| need.program).collect();
        return Err(Failure::Reason(format!(
            "there is no apt-get here: install {} with the package manager of this system\n\
             (on Debian: {by_hand})",
            programs.join(", ")
        )));
    }
    if !needs::is_root() {
        return Err(Failure::Reason(format!(
            "only root can install packages; run\n\n    sudo sh -c '{by_hand}'\n"
        )));
    }
    apt_get(&["update"])?;
    apt_get(&install)
}

fn apt_get(arguments: &[&str]) -> Result<(), Failure> {
    say(format_args!("setup: apt-get {}", arguments.join(" ")));
    let mut command = Command::new("apt-get");
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env_remove("LD_PRELOAD");
    process::run(command)
}

/// The components of the Rust toolchain that minimal installations lack.
fn missing_components() -> Vec<&'static str> {
    [("rustfmt", "fmt"), ("clippy", "clippy")]
        .into_iter()
        .filter(|(_, subcommand)| !has_subcommand(subcommand))
        .map(|(component, _)| component)
        .collect()
}

/// Whether cargo has this subcommand, which is not one of its own.
fn has_subcommand(subcommand: &str) -> bool {
    succeeds(cargo::command(&[subcommand, "--version"]))
}

fn succeeds(mut command: Command) -> bool {
    command
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Components belong to the user's own toolchain: no root needed.
fn install_components(components: &[&str]) -> Result<(), Failure> {
    let arguments = [&["component", "add"], components].concat();
    let by_hand = format!("rustup {}", arguments.join(" "));
    say(format_args!("setup: {by_hand}"));
    let mut command = Command::new("rustup");
    command.args(&arguments).env_remove("LD_PRELOAD");
    process::run(command).map_err(|failure| {
        failure.during(format_args!(
            "the Rust toolchain lacks {} (to install: {by_hand})",
            components.join(" and ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_success_counts() {
        assert!(succeeds(Command::new("true")));
        assert!(!succeeds(Command::new("false")));
        assert!(!succeeds(Command::new("/nonexistent/program")));
        assert!(!has_subcommand("surely-not-installed"));
    }

    #[test]
    fn apt_get_installs_each_package_once_and_asks_nothing() {
        let missing = needs::missing_in(Purpose::Testing, "".as_ref());
        let twice = [missing.as_slice(), &missing].concat();
        assert_eq!(
            install_arguments(&twice).join(" "),
            "install --yes --no-install-recommends g++ gcc groff-base iproute2 mandoc procps sockperf strace util-linux valgrind"
        );
    }
}
