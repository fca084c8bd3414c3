//! The octets that connections carry: any octet out of place is noticed.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::LazyLock;

use tcp::{Connection, Instant, Payload, ReadError, WriteError};
use testkit::link::Random;

/// Prime, so that what is off by a round number is noticed.
const PERIOD: usize = 65_521;

/// The most that is written or read at a time.
const PIECE: usize = 1 << 16;

static OCTETS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = Random::new(1);
    let period: Vec<u8> = (0..PERIOD)
        .map(|_| random.next_u64().to_le_bytes()[0])
        .collect();
    period
        .iter()
        .copied()
        .cycle()
        .take(PERIOD + PIECE)
        .collect()
});

/// `len` octets of the stream from `position` on, but at most a piece.
fn octets(position: u64, len: u64) -> &'static [u8] {
    let start = usize::try_from(position % PERIOD as u64).expect("less than the period");
    let len = usize::try_from(len).map_or(PIECE, |len| len.min(PIECE));
    &OCTETS[start..start + len]
}

fn check(position: u64, octets_read: &[u8]) {
    let expected = octets(position, octets_read.len() as u64);
    if octets_read != expected {
        let wrong = octets_read.iter().zip(expected).position(|(a, b)| a != b);
        panic!("octet {position} + {wrong:?} is wrong");
    }
}

/// Writes the stream's octets from `from` to `to`.
pub(crate) fn write(mut stream: impl Write, from: u64, to: u64) -> io::Result<()> {
    let mut position = from;
    while position < to {
        let piece = octets(position, to - position);
        stream.write_all(piece)?;
        position += piece.len() as u64;
    }
    Ok(())
}

/// Reads the stream's octets from `from` to `to`.
pub(crate) fn read(mut stream: impl Read, from: u64, to: u64) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    let mut position = from;
    while position < to {
        let most = usize::try_from(to - position).map_or(PIECE, |len| len.min(PIECE));
        let count = stream.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(io::Error::other(format!("the stream ends at {position}")));
        }
        check(position, &buffer[..count]);
        position += count as u64;
    }
    Ok(())
}

/// Reads the end of the stream.
pub(crate) fn read_end(mut stream: impl Read) -> io::Result<()> {
    match stream.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(io::Error::other("there is more to read")),
    }
}

/// The application of a connection of the engine.
#[derive(Debug, Default)]
pub(crate) struct Pump {
    pub(crate) written: u64,
    pub(crate) read: u64,
    buffer: Vec<u8>,
}

impl Pump {
    /// Writes what has room, up to `to` octets in all. True when all are written.
    pub(crate) fn write<P: Payload>(
        &mut self,
        now: Instant,
        connection: &mut Connection<P>,
        to: u64,
    ) -> bool {
        self.write_by(to, |piece| match connection.write(now, piece) {
            Ok(count) => Ok(Some(count)),
            Err(WriteError::WouldBlock) => Ok(None),
            Err(error) => Err(format!("{error:?}")),
        })
    }

    /// As [`Self::write`], into a socket that does not block.
    pub(crate) fn write_to(&mut self, mut stream: impl Write, to: u64) -> bool {
        self.write_by(to, |piece| or_would_block(stream.write(piece)))
    }

    /// `write` writes a part of what it is given, or nothing if it would block.
    fn write_by(
        &mut self,
        to: u64,
        mut write: impl FnMut(&[u8]) -> Result<Option<usize>, String>,
    ) -> bool {
        while self.written < to {
            match write(octets(self.written, to - self.written)) {
                Ok(Some(count)) => self.written += count as u64,
                Ok(None) => return false,
                Err(error) => panic!("writing octet {}: {error}", self.written),
            }
        }
        true
    }

    /// Reads what is there. True when `to` octets in all were read.
    pub(crate) fn read<P: Payload>(
        &mut self,
        now: Instant,
        connection: &mut Connection<P>,
        to: u64,
    ) -> bool {
        self.read_by(to, |buffer| match connection.read(now, buffer) {
            Ok(count) => Ok(Some(count)),
            Err(ReadError::WouldBlock) => Ok(None),
            Err(error) => Err(format!("{error:?}")),
        })
    }

    /// As [`Self::read`], from a socket that does not block.
    pub(crate) fn read_from(&mut self, mut stream: impl Read, to: u64) -> bool {
        self.read_by(to, |buffer| or_would_block(stream.read(buffer)))
    }

    /// `read` fills a part of the buffer that it is given, or nothing if it would block.
    fn read_by(
        &mut self,
        to: u64,
        mut read: impl FnMut(&mut [u8]) -> Result<Option<usize>, String>,
    ) -> bool {
        self.buffer.resize(PIECE, 0);
        while self.read < to {
            let most = usize::try_from(to - self.read).map_or(PIECE, |len| len.min(PIECE));
            match read(&mut self.buffer[..most]) {
                Ok(Some(0)) => panic!("the stream ends at {}", self.read),
                Ok(Some(count)) => {
                    check(self.read, &self.buffer[..count]);
                    self.read += count as u64;
                }
                Ok(None) => return false,
                Err(error) => panic!("reading octet {}: {error}", self.read),
            }
        }
        true
    }

    /// True at the end of the stream.
    pub(crate) fn read_end<P: Payload>(
        &mut self,
        now: Instant,
        connection: &mut Connection<P>,
    ) -> bool {
        match connection.read(now, &mut [0]) {
            Ok(0) => true,
            Ok(_) => panic!("there is more to read than {}", self.read),
            Err(ReadError::WouldBlock) => false,
            Err(error) => panic!("reading the end: {error:?}"),
        }
    }
}

/// `None` if a call on a socket would block.
fn or_would_block(result: io::Result<usize>) -> Result<Option<usize>, String> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
