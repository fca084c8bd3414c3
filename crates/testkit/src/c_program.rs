//! Small C programs that tests run: ordinary users of the C library, compiled on the spot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

/// Compiles one C file with the system's compiler, as strictly as it can, and returns the program's path in
/// `directory` (for an integration test: `env!("CARGO_TARGET_TMPDIR")`), named after the file.
///
/// # Errors
///
/// There is no compiler, or its words about the program.
pub fn compile_c(source: &Path, directory: &Path) -> io::Result<PathBuf> {
    compile_c_with(source, directory, &[])
}

/// As [`compile_c`], with further options of the compiler, which come last.
///
/// # Errors
///
/// As [`compile_c`].
pub fn compile_c_with(source: &Path, directory: &Path, options: &[&str]) -> io::Result<PathBuf> {
    let stem = source
        .file_stem()
        .ok_or_else(|| io::Error::other(format!("{} names no file", source.display())))?;
    fs::create_dir_all(directory)?;
    let program = directory.join(stem);
    // Tests compile the same file side by side: each its own output, put in place whole.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let fresh = directory.join(format!(
        "{}.{}-{number}",
        stem.to_string_lossy(),
        process::id()
    ));
    let compiled = Command::new("cc")
        .args(["-O1", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror"])
        .arg("-o")
        .arg(&fresh)
        .arg(source)
        .arg("-pthread")
        .args(options)
        .env_remove("LD_PRELOAD")
        .output()
        .map_err(|error| io::Error::other(format!("cannot run the C compiler: {error}")))?;
    if !compiled.status.success() {
        let words = String::from_utf8_lossy(&compiled.stderr);
        return Err(io::Error::other(format!("{}: {words}", source.display())));
    }
    fs::rename(&fresh, &program)?;
    Ok(program)
}
