//! The files of a run's results, opened before the test so that a bad path costs no test.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use crate::client::run::Run;
use crate::error::Error;
use crate::error::complain;
use crate::measure::statistics::Statistics;
use crate::options::{ClientOptions, JsonTarget};
use crate::output::full_log;
use crate::output::hgrm;
use crate::output::html;
use crate::output::json::Circumstances;

/// The JSON document's destination.
pub(super) enum JsonSink {
    None,
    Stdout,
    File { path: String, file: File },
}

/// The files of a client's results.
pub(super) struct Files {
    full_log: Option<File>,
    hgrm: Option<File>,
    html: Option<File>,
}

impl Files {
    pub(super) fn create(options: &ClientOptions) -> Result<Self, Error> {
        let results = &options.results;
        let open = |path: &Option<String>| path.as_deref().map(create).transpose();
        Ok(Self {
            full_log: open(&results.full_log)?,
            hgrm: open(&results.hgrm)?,
            html: open(&results.html)?,
        })
    }

    pub(super) fn write(
        &mut self,
        options: &ClientOptions,
        run: &Run,
        statistics: &Statistics,
        circumstances: &Circumstances,
    ) -> Result<(), Error> {
        let results = &options.results;
        let check = |written: io::Result<()>, path: &Option<String>| {
            let path = path.as_deref().unwrap_or_default();
            written.map_err(|error| Error::setup(format!("cannot write {path}"), error))
        };
        if let Some(file) = &mut self.full_log {
            let written = full_log::write(&mut BufWriter::new(file), run, statistics, options);
            check(written, &results.full_log)?;
        }
        if let Some(file) = &mut self.hgrm {
            let times = &run.valid.round_trips;
            let text = hgrm::text(times, results.full_rtt);
            check(file.write_all(text.as_bytes()), &results.hgrm)?;
        }
        if let Some(file) = &mut self.html {
            let text = html::page(options, run, statistics, circumstances);
            check(file.write_all(text.as_bytes()), &results.html)?;
        }
        if run.valid.log.as_ref().is_some_and(|log| log.omitted > 0) {
            complain("WARNING: the full log does not hold all samples; use a shorter test");
        }
        Ok(())
    }
}

impl JsonSink {
    pub(super) fn open(target: Option<&JsonTarget>) -> Result<Self, Error> {
        Ok(match target {
            None => Self::None,
            Some(JsonTarget::Stdout) => Self::Stdout,
            Some(JsonTarget::File(path)) => Self::File {
                path: path.clone(),
                file: create(path)?,
            },
        })
    }

    /// Writes the document.
    pub(super) fn write(&mut self, text: &str) -> Result<(), Error> {
        let (written, name) = match self {
            Self::None => return Ok(()),
            Self::Stdout => (
                io::stdout().write_all(text.as_bytes()),
                "the standard output",
            ),
            Self::File { path, file } => (file.write_all(text.as_bytes()), path.as_str()),
        };
        written.map_err(|error| {
            Error::setup(format!("cannot write the JSON document to {name}"), error)
        })
    }
}

pub(super) fn create(path: &str) -> Result<File, Error> {
    File::create(path)
        .map_err(|error| Error::setup(format!("Can't open file {path} for writing"), error))
}
