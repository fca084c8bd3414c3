//! Running with a library that the environment does not preload (`--load-vma`): its calls stand for
//! those of the C library from a program's beginning only, so the program begins again.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use vma_api::Api;

use crate::error::Error;

const PRELOAD: &str = "LD_PRELOAD";
/// Says that the program has begun again, with this library.
const LOADED: &str = "SOCKPERF_RS_LOADED";

/// Returns if the library is there; else the program begins again with it.
///
/// # Errors
/// It has begun again, and the library is not there: there is no such file, or it is another.
pub fn load(path: &str) -> Result<(), Error> {
    if Api::get().is_some() {
        return Ok(());
    }
    let refused = |why: String| {
        Error::Usage(format!(
            "Invalid --load-vma value: {path}: failed to load the library{why}"
        ))
    };
    if env::var_os(LOADED).is_some() {
        return Err(refused(String::new()));
    }
    let program = env::current_exe().map_err(|error| refused(format!(": {error}")))?;
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let error = Command::new(program)
        .arg0(name)
        .args(arguments)
        .env(PRELOAD, before(path, env::var_os(PRELOAD)))
        .env(LOADED, "1")
        .exec();
    Err(refused(format!(": {error}")))
}

/// The library in front of what is preloaded already.
fn before(path: &str, others: Option<OsString>) -> OsString {
    let mut all = OsString::from(path);
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_preloaded_stays() {
        assert_eq!(before("libvma.so", None), "libvma.so");
        assert_eq!(before("libvma.so", Some("".into())), "libvma.so");
        assert_eq!(
            before("/a/b.so", Some("x.so:y.so".into())),
            "/a/b.so:x.so:y.so"
        );
    }
}
