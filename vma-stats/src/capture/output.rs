//! Where packets are written: a pipe, a file, or a ring of files.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::pcapng::{self, Packet};

/// A file of the user's own, since it has the contents of connections.
const MODE: u32 = 0o600;

pub(super) struct Output {
    to: Box<dyn Write>,
    /// Where files go, unless it is a pipe.
    path: Option<PathBuf>,
    ring: Ring,
    comment: String,
    snap: u32,
    /// In the order of their numbers in the file.
    interfaces: Vec<(u32, String)>,
    written: u64,
    number: u32,
}

/// How files follow each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ring {
    /// When the next file begins; 0: never.
    pub(crate) bytes: u64,
    /// After how many the first is written again; 0: never.
    pub(crate) files: u32,
}

impl Output {
    pub(super) fn new(
        path: Option<&Path>,
        ring: Ring,
        comment: String,
        snap: u32,
    ) -> io::Result<Self> {
        let mut output = Self {
            to: Box::new(BufWriter::with_capacity(BUFFER_BYTES, io::stdout())),
            path: path.map(Path::to_owned),
            ring,
            comment,
            snap,
            interfaces: Vec::new(),
            written: 0,
            number: 0,
        };
        output.begin()?;
        Ok(output)
    }

    fn begin(&mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
            let file = create(&self.ring.name(path, self.number))?;
            self.to = Box::new(BufWriter::with_capacity(BUFFER_BYTES, file));
        }
        self.written = pcapng::begin(&mut self.to, &self.comment)?;
        for (_, name) in &self.interfaces {
            self.written += pcapng::interface(&mut self.to, name, self.snap)?;
        }
        Ok(())
    }

    /// The number of an interface in the file.
    pub(super) fn interface(
        &mut self,
        index: u32,
        name: impl FnOnce() -> String,
    ) -> io::Result<u32> {
        let mut known = self.interfaces.iter();
        let number = match known.position(|(known, _)| *known == index) {
            Some(number) => number,
            None => {
                let name = name();
                self.written += pcapng::interface(&mut self.to, &name, self.snap)?;
                self.interfaces.push((index, name));
                self.interfaces.len() - 1
            }
        };
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    pub(super) fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        if self.path.is_some() && self.ring.bytes > 0 && self.written >= self.ring.bytes {
            self.to.flush()?;
            self.number += 1;
            self.begin()?;
        }
        self.written += pcapng::packet(&mut self.to, packet)?;
        Ok(())
    }

    /// Everything that was written is to be seen.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Says at the end how many packets were lost.
    pub(super) fn finish(mut self, nsec: u64, dropped: u64) -> io::Result<()> {
        if !self.interfaces.is_empty() {
            pcapng::statistics(&mut self.to, 0, nsec, dropped)?;
        }
        self.to.flush()
    }
}

const BUFFER_BYTES: usize = 64 << 10;

impl Ring {
    /// As tcpdump names them: with the number behind, and zeros before it if they come again.
    fn name(&self, path: &Path, number: u32) -> PathBuf {
        if self.bytes == 0 {
            return path.to_owned();
        }
        let mut name = OsString::from(path);
        match self.files {
            0 if number == 0 => {}
            0 => name.push(number.to_string()),
            files => {
                let width = (files - 1).to_string().len();
                name.push(format!("{:0width$}", number % files));
            }
        }
        name.into()
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.write(true).create(true).truncate(true).mode(MODE);
    let file = how.open(path);
    file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_tcpdump_names_them() {
        let path = Path::new("/x/a.pcapng");
        let name = |bytes, files, number| {
            let name = Ring { bytes, files }.name(path, number);
            name.file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(name(0, 0, 0), "a.pcapng");
        assert_eq!([name(9, 0, 0), name(9, 0, 12)], ["a.pcapng", "a.pcapng12"]);
        assert_eq!(
            [name(9, 11, 0), name(9, 11, 12)],
            ["a.pcapng00", "a.pcapng01"]
        );
    }
}
