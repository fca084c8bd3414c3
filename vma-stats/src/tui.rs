//! The screens: what the program shows on a terminal.

mod app;
mod draw;
mod history;
mod terminal;
mod theme;

use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use crossterm::event;
use stats::{Reader, Request, Statistics, ask, find_processes};

use crate::cli::Options;
use crate::source::{End, Source, SourceError};
use app::{Action, App, Listed};
use terminal::Screen;
use theme::Theme;

/// How soon keys, signals and the process's end are noticed.
const PATIENCE: Duration = Duration::from_millis(50);
/// How often other processes are looked for.
const LISTING_INTERVAL: Duration = Duration::from_secs(2);

/// What ends the screens but the user.
#[derive(Debug)]
pub(crate) enum ScreenError {
    Terminal(io::Error),
    Source(SourceError),
}

impl From<io::Error> for ScreenError {
    fn from(error: io::Error) -> Self {
        Self::Terminal(error)
    }
}

impl From<SourceError> for ScreenError {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

/// Shows a process, or a recording, until the user has seen enough. Signals arrive as `interrupts`.
pub(crate) fn run(
    options: &Options,
    source: Source,
    interrupts: &Receiver<()>,
) -> Result<End, ScreenError> {
    let mut screen = Screen::open()?;
    let app = App::new(
        source.process().clone(),
        options.interval,
        Theme::of_environment(),
    );
    let mut shown = Shown {
        options,
        source,
        app,
        due: Instant::now(),
        listing_due: Instant::now(),
    };
    loop {
        shown.look()?;
        screen.draw(&mut shown.app)?;
        if interrupts.try_recv() != Err(TryRecvError::Empty) {
            return Ok(End::Interrupt);
        }
        let wait = shown.due.saturating_duration_since(Instant::now());
        if !event::poll(wait.min(PATIENCE))? {
            continue;
        }
        // All that has come, before the next drawing.
        while event::poll(Duration::ZERO)? {
            match shown.app.handle(&event::read()?) {
                Some(Action::Quit) => return Ok(End::Cycles),
                Some(action) => shown.act(action),
                None => {}
            }
        }
    }
}

/// A process on the screens.
struct Shown<'a> {
    options: &'a Options,
    source: Source,
    app: App,
    due: Instant,
    listing_due: Instant,
}

impl Shown<'_> {
    /// Takes a sample if one is due.
    fn look(&mut self) -> Result<(), SourceError> {
        let now = Instant::now();
        if now >= self.listing_due && self.options.replay.is_none() {
            self.listing_due = now + LISTING_INTERVAL;
            self.app.processes = self.list();
        }
        if now < self.due {
            return Ok(());
        }
        self.due = now + self.app.interval;
        if self.app.paused || self.app.ended.is_some() {
            return Ok(());
        }
        if let Source::Live { reader, .. } = &self.source
            && !reader.is_live()
        {
            self.app.ended = Some("process ended");
            return Ok(());
        }
        match self.source.sample()? {
            Some(sample) => self.app.push(sample),
            None => self.app.ended = Some("end of the recording"),
        }
        Ok(())
    }

    fn list(&self) -> Vec<Listed> {
        let found = find_processes(&self.options.directory).unwrap_or_default();
        let listed = found.into_iter().map(|process| {
            let reader = Reader::open(&self.options.directory, process.pid).ok();
            let statistics = reader.and_then(|reader| Statistics::read(&reader).ok());
            let statistics = statistics.unwrap_or_default();
            Listed {
                pid: process.pid,
                program: process.program,
                sockets: statistics.sockets.len() + statistics.kernel_sockets.len(),
                offloaded: statistics.sockets.iter().filter(|it| it.offloaded).count(),
            }
        });
        listed.collect()
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Quit => {}
            Action::Zero if self.options.replay.is_some() => {
                self.app.say("a recording has no counters to zero");
            }
            Action::Zero => {
                let pid = self.app.process.pid;
                match ask(&self.options.directory, pid, &Request::Zero) {
                    Ok(()) => self.app.say("all counters begin anew"),
                    Err(error) => self.app.say(error.to_string()),
                }
                self.due = Instant::now();
            }
            Action::Open(pid) => match Reader::open(&self.options.directory, pid) {
                Ok(reader) => {
                    self.app.follow(reader.process().clone());
                    self.source = Source::Live {
                        reader,
                        sockets: self.options.sockets.clone(),
                    };
                    self.due = Instant::now();
                }
                Err(error) => self.app.say(error.to_string()),
            },
        }
    }
}

#[cfg(test)]
mod tests;
