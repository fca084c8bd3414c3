//! Small C programs that tests run: ordinary users of the C library, compiled on the spot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::{Mutex, PoisonError};

use crate::library::{scratch_directory, workspace};

/// The program of the workspace's `tests/c/<name>.c`, compiled as strictly as the system's compiler
/// can, once a process.
///
/// # Panics
///
/// If there is no compiler, or it does not like the program: with its words.
pub fn c_program(name: &str) -> PathBuf {
    c_program_with(name, &[])
}

/// As [`c_program`], with further options of the compiler, which come last.
///
/// # Panics
///
/// As [`c_program`].
pub fn c_program_with(name: &str, options: &[&str]) -> PathBuf {
    let source = workspace().join(format!("tests/c/{name}.c"));
    compile_c_with(&source, &scratch_directory(), options).unwrap_or_else(|error| panic!("{error}"))
}

/// Compiles one C file into `directory`, and returns the program's path there: named after the
/// file, whatever the options.
///
/// # Errors
///
/// There is no compiler, or its words about the program.
pub fn compile_c_with(source: &Path, directory: &Path, options: &[&str]) -> io::Result<PathBuf> {
    // Once for all tests of a process: a program that executes itself must not be replaced while it
    // runs.
    static COMPILED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let stem = source
        .file_stem()
        .ok_or_else(|| io::Error::other(format!("{} names no file", source.display())))?;
    let program = directory.join(stem);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if !compiled.contains(&program) {
        compile(source, &program, options)?;
        compiled.push(program.clone());
    }
    Ok(program)
}

fn compile(source: &Path, program: &Path, options: &[&str]) -> io::Result<()> {
    if let Some(directory) = program.parent() {
        fs::create_dir_all(directory)?;
    }
    // Test programs may run side by side: each its own output, put in place whole.
    let fresh = program.with_extension(process::id().to_string());
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
    fs::rename(&fresh, program)
}
