//! Building for systems whose C library is older than this machine's: Zig links against the
//! versions of the symbols that it had.

use std::env;
use std::path::{Path, PathBuf};

use crate::cargo::{self, Artifacts};
use crate::failure::Failure;
use crate::setup;

/// Of RHEL 8. Ubuntu 20.04 and Debian 11 have 2.31.
pub(crate) const GLIBC: &str = "2.28";

/// From PyPI: Debian has neither.
const MODULES: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// As `cargo build` with these arguments.
pub(super) fn build(arguments: &[&str]) -> Result<Artifacts, Failure> {
    let modules = install()?;
    let target = format!("{}-unknown-linux-gnu.{GLIBC}", env::consts::ARCH);
    let mut command = cargo::command(&["zigbuild", "--target", &target]);
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = [modules.join("bin")]
        .into_iter()
        .chain(env::split_paths(&path));
    let path = env::join_paths(directories).map_err(|_| Failure::new("the PATH is odd"))?;
    command
        .args(arguments)
        .env("PATH", path)
        .env("PYTHONPATH", modules);
    cargo::built_by(command)
}

/// Into a directory of this workspace. Returns which.
fn install() -> Result<PathBuf, Failure> {
    let modules = cargo::target_directory().join("zig");
    if !MODULES.iter().all(|module| is_there(&modules, module)) {
        setup::pip_install(&modules, &MODULES)?;
    }
    Ok(modules)
}

/// pip leaves a directory of this name behind.
fn is_there(modules: &Path, module: &str) -> bool {
    let name = module.replace("==", "-").replace("cargo-zig", "cargo_zig");
    modules.join(format!("{name}.dist-info")).is_dir()
}
