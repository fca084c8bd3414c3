//! `cargo xtask compare`: the same work by every way that there is on this machine, in turn. What
//! fails is counted, and a line that libvma loses stays.

mod report;
mod subjects;
mod ucx;

use super::Stage;
use super::services::Service;
use super::trial::{Serving, Setting, Trial, Way};
use crate::busy::Meter;
use crate::failure::Failure;
use crate::interrupt;
use crate::measure;
use crate::needs::Whom;
use crate::output::{print, say};
use crate::setup;
use report::Line;
use subjects::Subject;

/// Of one load.
const SECONDS: u32 = 1;

pub(crate) fn run(rounds: u32) -> Result<(), Failure> {
    measure::require_root("compare")?;
    setup::ensure(Whom::Loading)?;
    setup::ensure(Whom::Comparing)?;
    let stage = Stage::new(super::library()?)?;
    print(&report::heading(rounds)?)?;
    let mut busy = Meter::default();
    for subject in subjects::all()? {
        print(&stage.cache_line()?)?;
        busy.look()?;
        say(format_args!("{} ...", subject.title()));
        let lines = compare(&stage, &subject, rounds)?;
        print(&report::table(&subject, &lines))?;
    }
    busy.warn();
    Ok(())
}

/// All servers run side by side, and are asked in turns: what the machine does meanwhile meets them
/// all. But those that poll would take the CPU from all others: they run for their turn only.
fn compare(stage: &Stage, subject: &Subject, rounds: u32) -> Result<Vec<Line>, Failure> {
    let mut contenders: Vec<Contender> = subject.contenders().map(Contender::new).collect();
    for contender in contenders.iter_mut().filter(|it| !it.spins()) {
        contender.start(stage, subject.service)?;
    }
    let mut floor = subject.has_floor().then(|| Line::new(ucx::NAME));
    for _ in 0..rounds {
        for contender in &mut contenders {
            contender.load(stage, subject.service)?;
        }
        if let Some(floor) = &mut floor {
            interrupt::check()?;
            floor.add(ucx::round_trips());
        }
    }
    let lines = contenders.into_iter().map(|contender| contender.line);
    Ok(lines.chain(floor).collect())
}

/// One way of doing the work.
struct Contender {
    setting: Setting,
    line: Line,
    server: Option<Serving>,
}

impl Contender {
    fn new((name, setting): (&'static str, Setting)) -> Self {
        Self {
            setting,
            line: Line::new(name),
            server: None,
        }
    }

    fn spins(&self) -> bool {
        self.setting.way == Way::Spinning
    }

    fn start(&mut self, stage: &Stage, service: &Service) -> Result<(), Failure> {
        interrupt::check()?;
        match Serving::start(stage, service, self.setting, SECONDS) {
            Ok(server) => self.server = Some(server),
            Err(failure) => say(format_args!("  {}: {failure}", self.line.name)),
        }
        Ok(())
    }

    /// One round. A server that has failed is started anew.
    fn load(&mut self, stage: &Stage, service: &Service) -> Result<(), Failure> {
        if self.server.is_none() {
            self.start(stage, service)?;
        }
        interrupt::check()?;
        let trial: Result<Trial, Failure> = match &mut self.server {
            Some(server) => server.load(),
            None => Err(Failure::new("it did not start")),
        };
        if let Err(failure) = &trial {
            say(format_args!("  {}: {failure}", self.line.name));
            self.server = None;
        }
        self.line.add(trial.ok());
        if self.spins() {
            self.server = None;
        }
        Ok(())
    }
}
