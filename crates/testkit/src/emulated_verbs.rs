//! Programs whose interfaces have RDMA devices: those of `tests/emulated-verbs`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::library::{build_with, scratch_directory, workspace};
use crate::over::Over;
use crate::pair::Pair;
use crate::skip::Skip;

/// How the queues of an emulated device are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerbsQueues {
    /// By the provider's calls.
    Calls,
    /// As they lie in memory: those of a ConnectX card.
    Mlx5,
}

/// What devices all accelerated programs of the tests are to have: `VMA_TEST_DEVICE=verbs`, or
/// `mlx5`.
pub(crate) fn asked_for() -> Option<VerbsQueues> {
    match std::env::var("VMA_TEST_DEVICE").as_deref() {
        Ok("verbs") => Some(VerbsQueues::Calls),
        Ok("mlx5") => Some(VerbsQueues::Mlx5),
        _ => None,
    }
}

/// For tests of what only AF_XDP has: skips them where all have RDMA devices.
///
/// # Errors
///
/// The programs of the tests have RDMA devices.
pub fn needs_xdp(what: &str) -> Result<(), Skip> {
    match asked_for() {
        Some(_) => Err(Skip::new(format!("verbs have not: {what}"))),
        None => Ok(()),
    }
}

/// For tests of what devices cut: those that are used by the provider's calls do not.
///
/// # Errors
///
/// The programs of the tests have such devices.
pub fn needs_segmentation() -> Result<(), Skip> {
    match asked_for() {
        Some(VerbsQueues::Calls) => Err(Skip::new("verbs have not: segmentation by the device")),
        _ => Ok(()),
    }
}

/// Where the emulated library is, under the name of the real one: where `VMA_TEST_EMULATED_VERBS`
/// says, for machines that compile nothing, or where it is put when it has been compiled.
///
/// # Errors
///
/// It cannot be built.
pub fn emulated_verbs_directory() -> io::Result<PathBuf> {
    static DIRECTORY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let make = || {
        if let Some(directory) = std::env::var_os("VMA_TEST_EMULATED_VERBS") {
            return Ok(PathBuf::from(directory));
        }
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
    let library = directory.join("libibverbs.so.1");
    if fs::read(&library).ok() == fs::read(&fresh).ok() {
        // A program that has one of the two is to have the same as the other.
        return fs::remove_file(&fresh);
    }
    fs::rename(&fresh, &library)?;
    // The loader knows by the file that the two are one.
    let other = directory.join("libmlx5.so.1");
    let _ = fs::remove_file(&other);
    std::os::unix::fs::symlink("libibverbs.so.1", &other)
}

/// What a program's environment says so that its interfaces have RDMA devices, and the library
/// takes them.
///
/// # Errors
///
/// The emulated library cannot be built.
pub fn emulated_verbs(queues: VerbsQueues) -> io::Result<[(&'static str, String); 4]> {
    let directory = emulated_verbs_directory()?.to_string_lossy().into_owned();
    let devices = format!("{directory}/devices");
    Ok([
        ("LD_LIBRARY_PATH", directory),
        ("EMULATED_VERBS_SYSFS", devices),
        ("EMULATED_VERBS_QUEUES", format!("{queues:?}")),
        ("VMA_DEVICE", "verbs".to_owned()),
    ])
}

impl Pair {
    /// Has the kernel give both links, and what is below them, what a wire carries: whole frames,
    /// with checksums. The emulated devices know no others.
    ///
    /// # Panics
    ///
    /// If the kernel refuses it of the lowest.
    pub fn make_wire(&self) {
        for (namespace, link) in [(&self.a, "va"), (&self.b, "vb")] {
            let lowers = Over::asked_for().lowers().iter().copied();
            let mut made = lowers
                .chain([link])
                .map(|name| namespace.make_whole_frames(name));
            let lowest = made.next().unwrap_or(Ok(()));
            lowest.unwrap_or_else(|error| panic!("{link}: {error}"));
            // A link over others may follow them, or have no word in it.
            made.for_each(drop);
        }
    }
}
