//! Which rules a process has made, in a file beside the statistics: a card keeps the rules of a
//! process that is killed, and says of none whose it is. The next process with the interface takes
//! them away.
//!
//! The file is locked as long as its process lives, by whichever pid namespace it is seen. Only
//! files of the same user are believed, of the same interface since the machine was started, and a
//! rule is taken away only if the card has it as it was written down. What a process is killed
//! between making a rule and writing it down stays.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use descriptors::OwnDescriptor;

use super::{Card, RULE_BYTES, Rule, Rxnfc};

const PREFIX: &str = "vma_flow_rules.";
const FORMAT: &str = "vma flow rules 1";
const HEADER_BYTES: usize = 256;
/// A place, and whether it is in use; then the rule.
const RECORD_BYTES: usize = 8 + RULE_BYTES;
const IN_USE: u32 = 1;
/// Of a file that is read: more rules than large cards have.
const FILE_MAX: u64 = 4 << 20;
/// Names that are tried for a new file.
const NAMES_MAX: u32 = 16;

/// An interface, as nothing else is called until the machine is started again.
#[derive(Clone, Debug)]
pub(super) struct Place {
    boot: String,
    /// Device and inode of the network namespace, and the interface's index there.
    link: (u64, u64, u32),
}

impl Place {
    /// An interface of the calling thread's network namespace.
    pub(super) fn of(ifindex: u32) -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let namespace = fs::metadata("/proc/thread-self/ns/net")?;
        Ok(Self {
            boot: boot.trim_end().to_owned(),
            link: (namespace.dev(), namespace.ino(), ifindex),
        })
    }

    fn since_boot(&self) -> String {
        format!("{FORMAT}\n{}\n", self.boot)
    }

    fn header(&self) -> [u8; HEADER_BYTES] {
        let (device, inode, index) = self.link;
        let text = format!("{}{device} {inode} {index}\n", self.since_boot());
        let mut header = [0; HEADER_BYTES];
        for (to, from) in header.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        header
    }
}

/// The file of this process for one interface.
#[derive(Debug)]
pub(super) struct Ledger {
    file: OwnDescriptor,
    path: PathBuf,
    /// Where the rule of a place is written.
    records: HashMap<u32, usize>,
    /// Records that are not in use any more, and how many there are.
    free: Vec<usize>,
    count: usize,
}

impl Ledger {
    pub(super) fn begin(directory: &Path, place: &Place) -> io::Result<Self> {
        let (file, path) = create(directory, place)?;
        let ledger = Self {
            file: OwnDescriptor::new(file.into()),
            path,
            records: HashMap::new(),
            free: Vec::new(),
            count: 0,
        };
        let is_begun = lock(ledger.file.as_raw_fd())
            .and_then(|()| write_at(ledger.file.as_raw_fd(), &place.header(), 0));
        match is_begun {
            Ok(()) => Ok(ledger),
            Err(error) => {
                ledger.end();
                Err(error)
            }
        }
    }

    /// The card has a rule.
    pub(super) fn note(&mut self, place: u32, rule: &Rule) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        });
        let mut record = [0; RECORD_BYTES];
        record[..4].copy_from_slice(&IN_USE.to_ne_bytes());
        record[4..8].copy_from_slice(&place.to_ne_bytes());
        record[8..].copy_from_slice(rule);
        if write_at(self.file.as_raw_fd(), &record, offset(number)).is_ok() {
            self.records.insert(place, number);
        } else {
            self.free.push(number);
        }
    }

    /// The card is about to lose it. First, so that nobody takes away another's that comes there.
    pub(super) fn strike(&mut self, place: u32) {
        if let Some(number) = self.records.remove(&place) {
            let _ = write_at(self.file.as_raw_fd(), &[0; RECORD_BYTES], offset(number));
            self.free.push(number);
        }
    }

    /// No rule is left.
    pub(super) fn end(self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn offset(number: usize) -> usize {
    HEADER_BYTES + number * RECORD_BYTES
}

fn create(directory: &Path, place: &Place) -> io::Result<(File, PathBuf)> {
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    let process = std::process::id();
    for number in 0..NAMES_MAX {
        let path = directory.join(format!("{PREFIX}{process}.{}.{number}", place.link.2));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        match options.open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

/// Takes away what processes that have ended left on the card. Returns how many rules. The caller
/// has the interface: no other process that lives has rules there.
pub(super) fn remove_leftovers(card: &impl Card, directory: &Path, place: &Place) -> u32 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let ledgers = entries.filter(|entry| is_ledger(&entry.file_name()));
    ledgers.map(|it| settle(card, &it, place)).sum()
}

fn is_ledger(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(PREFIX))
}

fn settle(card: &impl Card, entry: &DirEntry, place: &Place) -> u32 {
    let path = entry.path();
    let Ok(content) = read_leftover(&path) else {
        return 0;
    };
    let header = &content[..HEADER_BYTES.min(content.len())];
    let is_here = header == place.header();
    let is_of_this_boot = header.starts_with(place.since_boot().as_bytes());
    if !header.starts_with(FORMAT.as_bytes()) || (is_of_this_boot && !is_here) {
        return 0;
    }
    let records = content[header.len()..].chunks_exact(RECORD_BYTES);
    let removed = records
        .filter(|_| is_here)
        .filter(|record| remove_leftover(card, record))
        .count();
    let _ = fs::remove_file(&path);
    removed as u32
}

/// What stands in the file of a process of this user that has ended.
fn read_leftover(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.read(true).custom_flags(flags).open(path)?;
    let facts = file.metadata()?;
    // SAFETY: it takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let is_ours = facts.is_file()
        && facts.uid() == user
        && facts.mode() & 0o077 == 0
        && facts.nlink() == 1
        && facts.len() <= FILE_MAX;
    if !is_ours {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    lock(file.as_raw_fd())?;
    let mut content = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut content)?;
    Ok(content)
}

fn remove_leftover(card: &impl Card, record: &[u8]) -> bool {
    let number = |at: usize| {
        let octets = record.get(at..at + 4).and_then(|it| it.try_into().ok());
        octets.map(u32::from_ne_bytes)
    };
    let (Some(IN_USE), Some(place)) = (number(0), number(4)) else {
        return false;
    };
    let mut message = Rxnfc::read(place);
    let is_there = card.ask(&mut message).is_ok() && record.get(8..) == Some(&message.rule()[..]);
    is_there && card.ask(&mut Rxnfc::remove(place)).is_ok()
}

/// `Err`: another process has it locked.
fn lock(fd: i32) -> io::Result<()> {
    // SAFETY: integers.
    match unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn write_at(fd: i32, octets: &[u8], offset: usize) -> io::Result<()> {
    let offset = offset as libc::off64_t;
    // SAFETY: the kernel reads as many octets as there are.
    let written = unsafe { libc::pwrite64(fd, octets.as_ptr().cast(), octets.len(), offset) };
    match usize::try_from(written) {
        Ok(written) if written == octets.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests;
