//! `-z`, `-l`, `-D` and `-S`: requests to the process itself.

use std::path::Path;

use stats::{ControlError, Request, ask};

use crate::cli::Requests;
use crate::message::tell;

/// Sends what the options ask for, in the order of the original.
pub(crate) fn send(directory: &Path, pid: u32, requests: &Requests) -> Result<(), String> {
    let send = |option: &str, request: &Request| match ask(directory, pid, request) {
        Ok(()) => Ok(()),
        Err(ControlError::Refused(why)) => Err(format!("'{option}' {why}")),
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
