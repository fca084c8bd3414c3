//! `-z`, `-l`, `-D` and `-S`: requests to the process itself.

use std::path::Path;

use stats::{ControlError, Reader, Request, ask};

use crate::cli::Requests;
use crate::message::tell;

/// Sends what the options ask for, in the order of the original.
pub(crate) fn send(directory: &Path, pid: u32, requests: &Requests) -> Result<(), String> {
    let send = |option: &str, request: &Request| match ask(directory, pid, request) {
        Ok(_) => Ok(()),
        Err(ControlError::Refused(why)) => Err(format!("'{option}' {why}")),
        Err(error @ ControlError::NotThere { .. }) => Err(match why_not(directory, pid) {
            Some(why) => format!("'{option}' {why}"),
            None => error.to_string(),
        }),
        Err(error) => Err(error.to_string()),
    };
    if requests.zero {
        send("-z", &Request::Zero)?;
    }
    if let Some(level) = &requests.log_level {
        send("-l", &Request::LogLevel(level.clone()))?;
    }
    if let Some(details) = requests.log_details {
        send("-D", &Request::LogDetails(details))?;
    }
    if let Some((fd, level)) = &requests.dump {
        let shown = level.as_deref().unwrap_or("info");
        if *fd == 0 {
            tell(format_args!(
                "Dumping all Fd's to VMA using log level = {shown}..."
            ));
        } else {
            tell(format_args!(
                "Dumping Fd {fd} to VMA using log level = {shown}..."
            ));
        }
        let level = level.clone();
        send("-S", &Request::Dump { fd: *fd, level })?;
    }
    Ok(())
}

/// Why a process answers no requests: the library has no thread of its own before it has an
/// interface to look after, so that programs that gain nothing by it pay nothing for it.
pub(crate) fn why_not(directory: &Path, pid: u32) -> Option<String> {
    let reader = Reader::open(directory, pid).ok()?;
    let has_interface = reader.rings().is_ok_and(|rings| !rings.is_empty());
    (!has_interface).then(|| {
        format!(
            "process {pid} answers no requests yet: what answers is the library's own thread, which starts with the first \
             interface that is opened for a socket, and none is (explain says why). Until then, -d 2 shows changes without \
             zeroing, and VMA_TRACELEVEL sets the log level when the program is started"
        )
    })
}
