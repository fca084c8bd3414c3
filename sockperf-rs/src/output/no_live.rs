//! In place of the live view, in a build without the feature `live`.

use crate::error::Error;
use crate::measure::intervals::Interval;

/// A view that cannot be opened.
#[derive(Debug)]
pub enum Live {}

impl Live {
    /// Says that it is not there.
    pub fn open(_title: String) -> Result<Self, Error> {
        Err(Error::Usage(
            "--live is not in this sockperf-rs: it was built without the feature \"live\""
                .to_owned(),
        ))
    }

    /// Never called.
    pub fn show(&mut self, _interval: &Interval) {
        match *self {}
    }
}
