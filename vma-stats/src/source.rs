//! Where samples come from: a process that runs, or a recording of one.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use stats::{ProcessInfo, ReadError, Reader, Statistics};

use crate::fd_list::FdList;
use crate::json;
use crate::sample::Sample;

/// What went wrong with a source.
#[derive(Debug)]
pub(crate) enum SourceError {
    Read(ReadError),
    Recording { path: PathBuf, what: String },
}

impl std::fmt::Display for SourceError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(error) => error.fmt(formatter),
            Self::Recording { path, what } => {
                write!(formatter, "{}: {what}", path.display())
            }
        }
    }
}

impl From<ReadError> for SourceError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// Why there will be no further sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Cycles,
    Process,
    Interrupt,
    Recording,
}

/// Gives one sample after the other.
#[derive(Debug)]
pub(crate) enum Source {
    Live { reader: Reader, sockets: FdList },
    Recorded(Recording),
}

impl Source {
    pub(crate) fn process(&self) -> &ProcessInfo {
        match self {
            Self::Live { reader, .. } => reader.process(),
            Self::Recorded(recording) => &recording.process,
        }
    }

    /// The present state of the process, or the next one of the recording. `None`: the recording
    /// has ended.
    pub(crate) fn sample(&mut self) -> Result<Option<Sample>, SourceError> {
        match self {
            Self::Live { reader, sockets } => Ok(Some(Sample::take(reader, sockets)?)),
            Self::Recorded(recording) => recording.next(),
        }
    }

    /// Waits until the next sample is due. A recording is played without pauses.
    pub(crate) fn wait(&self, interval: Duration, interrupts: &Receiver<()>) -> Option<End> {
        let Self::Live { reader, .. } = self else {
            return None;
        };
        let end = Instant::now() + interval;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let waited = interrupts.recv_timeout(left.min(LIVENESS_INTERVAL));
            if waited != Err(RecvTimeoutError::Timeout) {
                return Some(End::Interrupt);
            }
            if !reader.is_live() {
                return Some(End::Process);
            }
            if left <= LIVENESS_INTERVAL {
                return None;
            }
        }
    }
}

/// How soon the end of the process is noticed when reports are far apart.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(200);

/// What `vma_stats record` has written.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    process: ProcessInfo,
    /// Read already, to know the process.
    first: Option<Sample>,
    /// Sections of the last document that the next one may leave out.
    earlier: Statistics,
    lines: Lines<BufReader<File>>,
    line: u64,
}

impl Recording {
    pub(crate) fn open(path: &Path) -> Result<Self, SourceError> {
        let wrong = |what: String| SourceError::Recording {
            path: path.to_owned(),
            what,
        };
        let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
        let mut lines = BufReader::new(file).lines();
        let first = lines
            .next()
            .ok_or_else(|| wrong("nothing was recorded".to_owned()))?
            .map_err(|error| wrong(error.to_string()))?;
        let (process, sample) =
            json::parse(&first, None).map_err(|what| wrong(format!("line 1: {what}")))?;
        Ok(Self {
            path: path.to_owned(),
            process,
            earlier: sample.statistics.clone(),
            first: Some(sample),
            lines,
            line: 1,
        })
    }

    pub(crate) fn next(&mut self) -> Result<Option<Sample>, SourceError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let Some(line) = self.lines.next() else {
            return Ok(None);
        };
        self.line += 1;
        let parsed = line
            .map_err(|error| error.to_string())
            .and_then(|line| json::parse(&line, Some(&self.earlier)));
        match parsed {
            Ok((_, sample)) => {
                self.earlier.clone_from(&sample.statistics);
                Ok(Some(sample))
            }
            Err(what) => Err(SourceError::Recording {
                path: self.path.clone(),
                what: format!("line {}: {what}", self.line),
            }),
        }
    }
}
