//! Programs whose interfaces have RDMA devices: those of `tests/emulated-verbs`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::library::{build_with, scratch_directory, workspace};
use crate::pair::Pair;
use crate::skip::Skip;

/// Whether all accelerated programs of the tests are to have RDMA devices: `VMA_TEST_DEVICE=verbs`.
pub(crate) fn is_asked_for() -> bool {
    std::env::var("VMA_TEST_DEVICE").is_ok_and(|device| device == "verbs")
}

/// For tests of what only AF_XDP has: skips them where all have RDMA devices.
///
/// # Errors
///
/// The programs of the tests have RDMA devices.
pub fn needs_xdp(what: &str) -> Result<(), Skip> {
    match is_asked_for() {
        true => Err(Skip::new(format!("verbs have not: {what}"))),
        false => Ok(()),
    }
}

/// Where the emulated library is, under the name of the real one.
fn library_directory() -> io::Result<PathBuf> {
    static DIRECTORY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let make = || {
        let archive = build_with(&["--package", "emulated-verbs"], "libemulated_verbs.a")?;
        let directory = scratch_directory().join("emulated-verbs");
        let linked = fs::create_dir_all(&directory).and_then(|()| link(&archive, &directory));
        linked
            .map(|()| directory)
            .map_err(|error| error.to_string())
    };
    DIRECTORY
        .get_or_init(make)
        .clone()
        .map_err(io::Error::other)
}

/// Test programs may run side by side: each puts its own in place, whole.
fn link(archive: &Path, directory: &Path) -> io::Result<()> {
    let fresh = directory.join(format!("fresh-{}", std::process::id()));
    let versions = workspace().join("tests/emulated-verbs/exports.map");
    let linked = Command::new("cc")
        .args(["-shared", "-Wl,-soname,libibverbs.so.1", "-o"])
        .arg(&fresh)
        .arg(format!("-Wl,--version-script={}", versions.display()))
        .arg("-Wl,--whole-archive")
        .arg(archive)
        .args(["-Wl,--no-whole-archive", "-lgcc_s", "-lpthread", "-ldl"])
        .env_remove("LD_PRELOAD")
        .output()?;
    if !linked.status.success() {
        let words = String::from_utf8_lossy(&linked.stderr);
        return Err(io::Error::other(format!("emulated-verbs: {words}")));
    }
    fs::rename(&fresh, directory.join("libibverbs.so.1"))
}

/// What a program's environment says so that its interfaces have RDMA devices, and the library
/// takes them.
///
/// # Errors
///
/// The emulated library cannot be built.
pub fn emulated_verbs() -> io::Result<[(&'static str, String); 3]> {
    let directory = library_directory()?.to_string_lossy().into_owned();
    let devices = format!("{directory}/devices");
    Ok([
        ("LD_LIBRARY_PATH", directory),
        ("EMULATED_VERBS_SYSFS", devices),
        ("VMA_DEVICE", "verbs".to_owned()),
    ])
}

impl Pair {
    /// Has the kernel give both links what a wire carries: whole frames, with checksums. The
    /// emulated devices know no others.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn make_wire(&self) {
        for (namespace, link) in [(&self.a, "va"), (&self.b, "vb")] {
            let made = namespace.make_whole_frames(link);
            made.unwrap_or_else(|error| panic!("{link}: {error}"));
        }
    }
}
