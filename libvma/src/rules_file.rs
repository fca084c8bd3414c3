//! Reads `libvma.conf`. What is wrong with it is logged; the process runs with what is right.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use vma_config::Config;
use vma_config::rules::{ProcessRules, RuleFile, Statement};

/// A larger file is no list of rules.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The log has better uses than thousands of errors of one file.
const ERRORS_SHOWN_MAX: usize = 20;

/// The rules that this process follows.
pub(crate) fn load(config: &Config) -> ProcessRules {
    let Some(path) = &config.config_file else {
        return ProcessRules::default();
    };
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => {
            let expected = config.config_file_is_named || error.kind() != io::ErrorKind::NotFound;
            if expected {
                log::warn!("no rules: cannot read {}: {error}", path.display());
            }
            return ProcessRules::default();
        }
    };
    let file = RuleFile::parse(&text);
    let path = path.to_string_lossy();
    report(&file, &path);
    let program = program_name();
    let rules = ProcessRules::new(&file, &path, &program, &config.application_id);
    log::debug!(
        "{path}: {} rules for {program}, application id {}",
        rules.iter().count(),
        config.application_id
    );
    for rule in rules.iter() {
        log::debug!("rule {rule}");
    }
    rules
}

/// Whether TCP sockets may be accelerated: whether rules that the program follows leave all of them
/// to the kernel. Nothing is logged.
pub(crate) fn may_accelerate_streams(config: &Config) -> bool {
    let Some(path) = &config.config_file else {
        return true;
    };
    let Ok(text) = read(path) else {
        return true;
    };
    // Mostly there is none, which a look at the words shows.
    if !text.contains("tcp_") {
        return true;
    }
    let file = RuleFile::parse(&text);
    let (path, id) = (path.to_string_lossy(), &config.application_id);
    let rules = ProcessRules::new(&file, &path, &program_name(), id);
    engine::may_accelerate_streams(&rules)
}

fn read(path: &Path) -> io::Result<String> {
    // Without O_NONBLOCK, a FIFO of this name would stop the program for good.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let refuse = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    if !file.metadata()?.is_file() {
        return refuse("it is not a regular file");
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return refuse("it is larger than 1 MiB");
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn report(file: &RuleFile, path: &str) {
    for error in file.errors.iter().take(ERRORS_SHOWN_MAX) {
        log::warn!("{path}:{error}; the line is ignored");
    }
    if let Some(more @ 1..) = file.errors.len().checked_sub(ERRORS_SHOWN_MAX) {
        log::warn!("{path}: {more} more lines are ignored");
    }
    for located in &file.statements {
        if let Statement::Log { .. } = located.statement {
            log::debug!(
                "{path}:{}: \"{}\" accepted, no effect yet: use VMA_LOG_FILE and VMA_TRACELEVEL",
                located.line,
                located.statement
            );
        }
    }
}

/// What the program was called as, without its directory, as glibc's
/// `program_invocation_short_name`.
fn program_name() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = name.to_string_lossy();
    name.rsplit('/').next().unwrap_or_default().to_owned()
}
