//! `cargo xtask setup --try`: the set-up on a fresh machine, which is a clean Debian with Rust and
//! a clean clone of what is committed. Every program, module and plug-in of the list must be there
//! then, and programs that need the rarer of them run with and without the library, none of them
//! skipped.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo;
use crate::debian;
use crate::failure::Failure;
use crate::output::say;
use crate::process;
use crate::setup;

/// What a machine with Rust has: a linker, and certificates for the registries.
const PACKAGES: &str = "gcc,libc6-dev,ca-certificates";

/// Rows of the tables of programs.
const ROWS: [&str; 8] = [
    "compatibility::programs::tests::aioquic",
    "compatibility::programs::tests::find",
    "compatibility::programs::tests::gstreamer",
    "compatibility::programs::tests::java",
    "compatibility::programs::tests::unbound",
    "tcp_programs::tcp_java",
    "tcp_programs::tcp_redis",
    "tcp_programs::tcp_ssh",
];

/// Inside the root's mounts and its own process identifiers, so that nothing is left. The shell
/// stays, for it is the first of these processes: orphans that nobody waited for would stay, too.
const ENTER: &str = r#"
    set -e
    root=$1 sysroot=$2 registry=$3 archives=$4; shift 4
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mkdir -p "$root$sysroot"; mount --bind "$sysroot" "$root$sysroot"
    mkdir -p "$root/root/.cargo/registry"; mount --bind "$registry" "$root/root/.cargo/registry"
    mount --bind "$archives" "$root/var/cache/apt/archives"
    chroot "$root" /bin/sh -c 'cd /libvma && exec "$@"' sh "$@" || exit
"#;

/// Says what was tried.
pub(crate) fn try_out() -> Result<String, Failure> {
    setup::ensure_for_trial()?;
    let machine = Machine::new()?;
    machine.run(&["cargo", "xtask", "setup"])?;
    // Nothing is left to install.
    machine.run(&["cargo", "xtask", "setup"])?;
    let suite = ["--package=end-to-end", "--test=services", "--", "--exact"];
    let count = machine.run(&[&["cargo", "test"], &suite[..], &ROWS].concat())?;
    if count != ROWS.len() {
        return Err(Failure::Reason(format!(
            "{count} of {} rows ran",
            ROWS.len()
        )));
    }
    Ok(format!("set up, {count} programs compared"))
}

/// A copy of the clean Debian, removed when it is dropped.
struct Machine {
    directory: tempfile::TempDir,
    /// Of the Rust toolchain.
    sysroot: PathBuf,
    /// Crates that were fetched already.
    registry: PathBuf,
    /// Packages that were fetched, for the next time.
    archives: PathBuf,
}

impl Machine {
    fn new() -> Result<Self, Failure> {
        let base = debian::base("fresh", PACKAGES)?;
        let kept = cargo::target_directory().join("fresh");
        let archives = kept.join("archives");
        fs::create_dir_all(archives.join("partial"))?;
        let directory = tempfile::Builder::new()
            .prefix("machine-")
            .tempdir_in(&kept)?;
        let machine = Self {
            directory,
            sysroot: sysroot()?,
            registry: cargo_home()?.join("registry"),
            archives,
        };
        let root = machine.root();
        say("fresh machine: a copy of the clean Debian, and a clone");
        debian::copy(&base, &root)?;
        debian::write_program(&machine.directory.path().join("enter"), ENTER)?;
        // Services of packages are not started in it.
        debian::write_program(&root.join("usr/sbin/policy-rc.d"), "#!/bin/sh\nexit 101\n")?;
        // What this machine trusts, and how it reaches the registries.
        for file in [
            "etc/ssl/certs/ca-certificates.crt",
            "etc/pip.conf",
            "etc/resolv.conf",
        ] {
            if let Ok(text) = fs::read(Path::new("/").join(file)) {
                fs::write(root.join(file), text)?;
            }
        }
        let mut clone = Command::new("git");
        clone
            .args(["clone", "--quiet", "--no-hardlinks"])
            .arg(cargo::workspace())
            .arg(root.join("libvma"));
        process::run(clone)?;
        Ok(machine)
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// As root of it, on a machine that is for tests and can run all of them. Returns how many
    /// tests passed.
    fn run(&self, words: &[&str]) -> Result<usize, Failure> {
        let words_of_it = words.join(" ");
        say(format_args!("fresh machine: {words_of_it}"));
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork", "--kill-child", "sh"])
            .arg(self.directory.path().join("enter"))
            .arg(self.root())
            .arg(&self.sysroot)
            .arg(&self.registry)
            .arg(&self.archives)
            .args(words)
            .env_clear();
        let passed_on = env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            name.starts_with("PIP_") || name.to_lowercase().ends_with("_proxy")
        });
        command
            .envs(passed_on)
            .env(
                "PATH",
                format!(
                    "{}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    self.sysroot.display()
                ),
            )
            .env("HOME", "/root")
            .env("VMA_TEST_SERVICES", "1")
            .env("VMA_TEST_NO_SKIP", "1");
        let mut passed = 0;
        let status = process::run_reading(command, process::Read::StdoutAndStderr, |line| {
            say(line);
            passed += cargo::passed_in(line);
        })?;
        if !status.success() {
            return Err(Failure::Reason(format!("{words_of_it} failed ({status})")));
        }
        Ok(passed)
    }
}

fn sysroot() -> Result<PathBuf, Failure> {
    let mut text = String::new();
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc
        .args(["--print", "sysroot"])
        .current_dir(cargo::workspace());
    process::run_reading(rustc, process::Read::Stdout, |line| text += line)?;
    Ok(PathBuf::from(text))
}

fn cargo_home() -> Result<PathBuf, Failure> {
    let own = || env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(own);
    home.ok_or_else(|| Failure::new("neither CARGO_HOME nor HOME is set"))
}
