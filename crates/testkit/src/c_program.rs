//! Small C programs that tests run: ordinary users of the C library, compiled on the spot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::{Mutex, PoisonError};

/// Compiles one C file with the system's compiler, as strictly as it can, and returns the program's
/// path in `directory` (for an integration test: `env!("CARGO_TARGET_TMPDIR")`), named after the
/// file.
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
    // Once for all tests of a process: a program that executes itself must not be replaced while it
    // runs.
    static COMPILED: Mutex<Vec<(PathBuf, PathBuf)>> = Mutex::new(Vec::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, program)) = compiled.iter().find(|(known, _)| known == source) {
        return Ok(program.clone());
    }
    let program = compile(source, directory, options)?;
    compiled.push((source.to_owned(), program.clone()));
    Ok(program)
}

fn compile(source: &Path, directory: &Path, options: &[&str]) -> io::Result<PathBuf> {
    let stem = source
        .file_stem()
        .ok_or_else(|| io::Error::other(format!("{} names no file", source.display())))?;
    fs::create_dir_all(directory)?;
    let program = directory.join(stem);
    // Test programs may run side by side: each its own output, put in place whole.
    let fresh = directory.join(format!("{}.{}", stem.to_string_lossy(), process::id()));
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
