//! The screens: what the program shows on a terminal.

mod app;
mod cpu_share;
mod draw;
mod history;
mod input;
mod terminal;
mod theme;

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use stats::{ControlError, ProcessInfo, Reader, Request, ask, find_processes};

use crate::cli::{Options, Process};
use crate::sample::Sample;
use crate::select::select;
use crate::source::{End, Source, SourceError};
use app::{Action, App, Followed, Tab};
use input::Input;
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
    let input = Input::open()?;
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
        others: BTreeMap::new(),
        listing_due: Instant::now(),
    };
    shown.begin();
    // Nothing is drawn again that has not changed: drawing is what costs.
    let mut is_current = false;
    loop {
        is_current &= !shown.look()?;
        is_current &= !shown.app.forget_message();
        if input::is_gone() || interrupts.try_recv() != Err(TryRecvError::Empty) {
            return Ok(End::Interrupt);
        }
        if !is_current {
            match screen.draw(&mut shown.app) {
                Err(_) if input::is_gone() => return Ok(End::Interrupt),
                drawn => drawn?,
            }
            is_current = true;
        }
        let wait = shown.due.saturating_duration_since(Instant::now());
        let mut event = input.wait(wait.min(PATIENCE))?;
        // All that has come, before the next drawing.
        while let Some(come) = event {
            is_current = false;
            match shown.app.handle(&come) {
                Some(Action::Quit) => return Ok(End::Cycles),
                Some(action) => shown.act(action),
                None => {}
            }
            event = input.wait(Duration::ZERO)?;
        }
    }
}

/// A process on the screens, and others if they are wanted.
struct Shown<'a> {
    options: &'a Options,
    source: Source,
    app: App,
    due: Instant,
    others: BTreeMap<u32, Reader>,
    listing_due: Instant,
}

impl Shown<'_> {
    /// Where nobody has said which process, and there are several, they are what is shown first.
    fn begin(&mut self) {
        if self.options.process != Process::FirstLive || self.options.replay.is_some() {
            return;
        }
        self.list();
        if !self.others.is_empty() {
            self.app.tab = Tab::Processes;
        }
    }

    /// Takes samples if they are due. Whether there is something new.
    fn look(&mut self) -> Result<bool, SourceError> {
        let now = Instant::now();
        let is_wanted = self.app.shows_others() && self.options.replay.is_none();
        if is_wanted && now >= self.listing_due {
            self.listing_due = now + LISTING_INTERVAL;
            self.list();
            // Those that are new; the others have their own time.
            self.look_at_others(Duration::MAX);
        }
        if now < self.due {
            return Ok(false);
        }
        self.due = now + self.app.interval;
        if self.app.paused {
            return Ok(false);
        }
        if is_wanted {
            self.look_at_others(self.app.interval / 2);
        }
        if self.app.ended.is_some() {
            return Ok(is_wanted | self.follow_restart());
        }
        if let Source::Live { reader, .. } = &self.source
            && !reader.is_live()
        {
            self.app.ended = Some("process ended");
            return Ok(true);
        }
        match self.source.sample()? {
            Some(sample) => self.app.push(sample),
            None => self.app.ended = Some("end of the recording"),
        }
        Ok(true)
    }

    /// Where a name was asked for, the program that has it now is shown. Whether it is another.
    fn follow_restart(&mut self) -> bool {
        if self.options.replay.is_some() || !matches!(self.options.process, Process::Name(_)) {
            return false;
        }
        let Ok(reader) = select(self.options) else {
            return false;
        };
        let is_new = *reader.process() != self.app.current.process;
        if is_new {
            self.act(Action::Open(reader.process().pid));
        }
        is_new
    }

    /// Finds the processes that publish beside the chosen one.
    fn list(&mut self) {
        let directory = &self.options.directory;
        let found = find_processes(directory).unwrap_or_default();
        let chosen = self.app.current.process.pid;
        let pids = found.iter().map(|process| process.pid);
        let pids: Vec<u32> = pids.filter(|pid| *pid != chosen).collect();
        self.others.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            if let Ok(reader) = Reader::open(directory, pid) {
                self.others.entry(pid).or_insert(reader);
            }
        }
    }

    /// Takes a sample of each of the others but of those whose last one is younger than this: two
    /// looks in a moment would show that nothing happens. Those that have ended are gone from the
    /// screens.
    fn look_at_others(&mut self, age_min: Duration) {
        self.others.retain(|_, reader| reader.is_live());
        let others = &self.others;
        let is_known = |process: &ProcessInfo| {
            let reader = others.get(&process.pid);
            reader.is_some_and(|reader| reader.process() == process)
        };
        self.app.others.retain(|other| is_known(&other.process));
        for reader in self.others.values() {
            let pid = reader.process().pid;
            let known = self.app.others.iter_mut();
            let known = known.into_iter().find(|other| other.process.pid == pid);
            let latest = known.as_ref().and_then(|other| other.history.latest());
            if latest.is_some_and(|sample| sample.age() < age_min) {
                continue;
            }
            // Of a file that is being damaged there is nothing to see.
            let Ok(sample) = Sample::take(reader, &self.options.sockets) else {
                continue;
            };
            match known {
                Some(other) => other.history.push(sample),
                None => {
                    let mut other = Followed::new(reader.process().clone());
                    other.history.push(sample);
                    self.app.others.push(other);
                }
            }
        }
        let all = std::iter::once(&mut self.app.current).chain(&mut self.app.others);
        for followed in all {
            followed.look_at_cpu();
        }
        self.app.arrange();
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Quit => {}
            Action::Zero if self.options.replay.is_some() => {
                self.app.say("a recording has no counters to zero");
            }
            Action::Zero => {
                let pid = self.app.current.process.pid;
                match ask(&self.options.directory, pid, &Request::Zero) {
                    Ok(_) => self.app.say("all counters begin anew"),
                    Err(ControlError::NotThere { .. }) => {
                        self.app
                            .say("takes no requests before it has opened an interface");
                    }
                    Err(error) => self.app.say(error.to_string()),
                }
                self.due = Instant::now();
            }
            Action::Open(pid) => match Reader::open(&self.options.directory, pid) {
                Ok(reader) => {
                    self.others.remove(&pid);
                    self.app.follow(reader.process().clone());
                    self.listing_due = Instant::now();
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
