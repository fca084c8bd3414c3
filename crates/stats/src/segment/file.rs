//! Where the file is.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::FILE_PREFIX;
use crate::error::CreateError;
use crate::mapping::sys;
use crate::process::TAG_DIGITS;

/// `<dir>/vmastat.<pid>`, absolute: the program may change its working directory before it ends.
pub(super) fn file_path(dir: &Path, pid: u32) -> Result<CString, CreateError> {
    let dir = dir.as_os_str().as_bytes();
    if dir.is_empty() {
        return Err(CreateError::NoDirectory);
    }
    let mut path = Vec::new();
    if !dir.starts_with(b"/") {
        let mut buffer = [0; libc::PATH_MAX as usize];
        let here = sys::working_directory(&mut buffer).map_err(during("getcwd"))?;
        path.extend_from_slice(here);
        path.push(b'/');
    }
    path.extend_from_slice(dir);
    path.push(b'/');
    path.extend_from_slice(FILE_PREFIX.as_bytes());
    path.extend_from_slice(pid.to_string().as_bytes());
    if path.len() >= libc::PATH_MAX as usize {
        return Err(CreateError::BadDirectory);
    }
    CString::new(path).map_err(|_| CreateError::BadDirectory)
}

/// The file at a path that nobody uses. What an earlier process has left there is removed.
pub(super) fn make_file(path: &CStr) -> Result<sys::Fd, CreateError> {
    if sys::is_locked(path) {
        return Err(CreateError::InUse);
    }
    match sys::unlink(path) {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
            return Err(during("removal of the old file of this process id")(error));
        }
        _ => {}
    }
    sys::create_new(path).map_err(during("creation"))
}

/// A path beside it that nobody can take beforehand. `None`: there is no random number.
pub(super) fn unguessable(path: &CStr) -> Option<CString> {
    let tag = format!(".{:0width$x}", sys::random()?, width = TAG_DIGITS);
    CString::new([path.to_bytes(), tag.as_bytes()].concat()).ok()
}

pub(super) fn during(operation: &'static str) -> impl FnOnce(io::Error) -> CreateError {
    move |source| CreateError::System { operation, source }
}
