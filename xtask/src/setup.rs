//! `cargo xtask setup`: installs what is missing and sees whether it is there then, or says how.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo;
use crate::failure::Failure;
use crate::needs::{self, Need, Whom};
use crate::output::say;
use crate::process;

/// Installs what any command or test may ask for, and verifies all of it: each program is there,
/// each module and plug-in can be loaded.
pub(crate) fn everything() -> Result<(), Failure> {
    let services = may_install_services();
    let missing = missing_of_all(services);
    tell(&missing);
    install(&missing)?;
    let components = missing_components();
    if !components.is_empty() {
        install_components(&components)?;
    }
    for whom in MUSTS {
        expect_in_path(whom)?;
    }
    let still = missing_of_all(services);
    if !still.is_empty() {
        return Err(Failure::Reason(format!(
            "still missing: {}",
            lines_of(&still)
        )));
    }
    let all = testkit::needs::all().iter();
    let verified = all.filter(|need| services || need.whom != Whom::Service);
    say(format_args!(
        "setup: all {} programs and modules that the commands and tests ask for are here",
        verified.count()
    ));
    if !services {
        say(
            "setup: without those that start services, whose tests are skipped where they are missing \
             (VMA_TEST_SERVICES=1 on a machine that is for tests)",
        );
    }
    Ok(())
}

/// Commands that have programs which they do not begin without; the tests' are those of demo and
/// bench, too.
const MUSTS: [Whom; 5] = [
    Whom::Testing,
    Whom::Loading,
    Whom::Comparing,
    Whom::Packaging,
    Whom::Trying,
];

fn missing_of_all(services: bool) -> Vec<&'static Need> {
    let musts = MUSTS.into_iter().flat_map(needs::missing);
    musts.chain(needs::missing_compared(services)).collect()
}

/// Installs what `whom` needs and this machine lacks. Without the right to install, fails with the
/// commands that do.
pub(crate) fn ensure(whom: Whom) -> Result<(), Failure> {
    let missing = needs::missing(whom);
    tell(&missing);
    install(&missing)?;
    if whom == Whom::Testing {
        let components = missing_components();
        if !components.is_empty() {
            install_components(&components)?;
        }
        install_compared();
    }
    expect_in_path(whom)
}

/// What cannot do without has to be here now, and has to be found.
fn expect_in_path(whom: Whom) -> Result<(), Failure> {
    let still = needs::missing(whom);
    if still.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = still.iter().map(|need| need.name).collect();
    Err(Failure::Reason(format!(
        "{} is still missing: apt-get could not install it (see above), or it is not in the PATH \
         ({}): add its directory, such as /usr/sbin",
        names.join(", "),
        env::var("PATH").unwrap_or_default()
    )))
}

/// Has cargo build and install cargo-deny, which takes minutes, unless it is here.
pub(crate) fn ensure_cargo_deny() -> Result<(), Failure> {
    ensure_subcommand("deny")
}

/// The tools that make packages, which take minutes to build.
pub(crate) fn ensure_packagers() -> Result<(), Failure> {
    ensure(Whom::Packaging)?;
    ensure_subcommand("deb")?;
    ensure_subcommand("generate-rpm")
}

/// The tools that try packages out, and the set-up of a fresh machine.
pub(crate) fn ensure_for_trial() -> Result<(), Failure> {
    ensure(Whom::Trying)
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

/// Installs what tests are skipped without, if root asks. Without one of them its test is skipped:
/// no failure here.
fn install_compared() {
    let missing = needs::missing_compared(may_install_services());
    if missing.is_empty() {
        return;
    }
    tell(&missing);
    if let Err(failure) = install(&missing) {
        say(format_args!("setup: {failure}"));
    }
    let still: Vec<_> = missing.into_iter().filter(|need| !need.is_here()).collect();
    if !still.is_empty() {
        say(format_args!(
            "setup: going on without these, their tests will be skipped: {}",
            lines_of(&still)
        ));
    }
}

/// Whether this is a machine for tests, where packages may be installed that start services.
fn may_install_services() -> bool {
    env::var_os("VMA_TEST_SERVICES").is_some_and(|value| !value.is_empty() && value != "0")
}

fn tell(missing: &[&Need]) {
    for need in missing {
        let why = match need.why {
            "" => String::new(),
            why => format!(" ({why})"),
        };
        say(format_args!("setup: {} is missing{why}", need.name));
    }
}

/// Each with who brings it.
fn lines_of(missing: &[&Need]) -> String {
    let line = |need: &&Need| format!("\n  {} ({})", need.name, need.packages.join(", "));
    missing.iter().map(line).collect()
}

/// What must be the same each time: a mirror that does not answer at once is asked again, and
/// another installation, such as a new machine's first update, is waited for.
const INSTALL: &[&str] = &[
    "install",
    "--yes",
    "--no-install-recommends",
    "--option=Acquire::Retries=3",
    "--option=DPkg::Lock::Timeout=300",
];

/// The arguments of apt-get that install `missing`; nothing if Debian has none of them.
fn install_arguments(missing: &[&Need]) -> Vec<&'static str> {
    let packages = missing.iter().flat_map(|need| &need.packages).copied();
    let mut packages: Vec<&str> = packages.filter(|name| !name.starts_with("pip:")).collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        return packages;
    }
    [INSTALL, packages.as_slice()].concat()
}

/// Installs as much of `missing` as can be; fails if this user or system cannot install packages.
fn install(missing: &[&Need]) -> Result<(), Failure> {
    let arguments = install_arguments(missing);
    if !arguments.is_empty() {
        install_packages(missing, &arguments)?;
    }
    install_python_modules(missing);
    Ok(())
}

fn install_packages(missing: &[&Need], arguments: &[&str]) -> Result<(), Failure> {
    let by_hand = format!("apt-get update && apt-get {}", arguments.join(" "));
    if !needs::has("apt-get") {
        let names: Vec<&str> = missing.iter().map(|need| need.name).collect();
        return Err(Failure::Reason(format!(
            "there is no apt-get here: install {} with the package manager of this system\n\
             (on Debian: {by_hand})",
            names.join(", ")
        )));
    }
    if !needs::is_root() {
        return Err(Failure::Reason(format!(
            "only root can install packages; run\n\n    sudo sh -c '{by_hand}'\n"
        )));
    }
    apt_get(&["update"])?;
    let Err(failure) = apt_get(arguments) else {
        return Ok(());
    };
    // One package that this release of Debian lacks is no reason to go without the others.
    say(format_args!("setup: {failure}; one by one"));
    for need in missing {
        let arguments = install_arguments(&[need]);
        if !arguments.is_empty()
            && let Err(failure) = apt_get(&arguments)
        {
            say(format_args!("setup: {}: {failure}", need.name));
        }
    }
    Ok(())
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

/// Modules that Debian does not have, into a directory of this workspace: nothing of the system's
/// changes, and any user may.
fn install_python_modules(missing: &[&Need]) {
    if missing.iter().all(|need| need.pip_requirement().is_none()) {
        return;
    }
    // All of them, so that what they share fits all.
    let all = testkit::needs::all().iter();
    let requirements: Vec<_> = all.filter_map(Need::pip_requirement).collect();
    let directory = testkit::needs::python_modules();
    say(format_args!(
        "setup: pip install {} into {}",
        requirements.join(" "),
        directory.display()
    ));
    if let Err(failure) = pip_install(&directory, &requirements) {
        say(format_args!("setup: {failure}"));
    }
}

/// Nothing outside of the directory changes.
pub(crate) fn pip_install(directory: &Path, requirements: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new("env");
    command
        .args(["python3", "-m", "pip", "install", "--quiet", "--upgrade"])
        .args(["--only-binary=:all:", "--disable-pip-version-check"])
        .arg("--root-user-action=ignore")
        .arg("--target")
        .arg(directory)
        .args(requirements)
        .env("PATH", testkit::needs::PATH)
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
        let missing = needs::missing_in(Whom::Packaging, "".as_ref());
        let twice = [missing.as_slice(), &missing].concat();
        assert_eq!(
            install_arguments(&twice).join(" "),
            "install --yes --no-install-recommends --option=Acquire::Retries=3 \
             --option=DPkg::Lock::Timeout=300 binutils dpkg-dev"
        );
    }

    #[test]
    fn every_package_of_a_line_is_installed_but_those_of_pypi() {
        let line = |name| testkit::needs::find(name).unwrap();
        let arguments = install_arguments(&[line("gstreamer:udpsrc"), line("python:aioquic")]);
        assert_eq!(
            arguments[INSTALL.len()..],
            ["gstreamer1.0-plugins-good", "gstreamer1.0-tools"]
        );
        assert!(install_arguments(&[line("python:aioquic")]).is_empty());
    }
}
