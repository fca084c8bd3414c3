//! Where the file is.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::FILE_PREFIX;
use crate::error::CreateError;
use crate::mapping::sys;

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

pub(super) fn during(operation: &'static str) -> impl FnOnce(io::Error) -> CreateError {
    move |source| CreateError::System { operation, source }
}
