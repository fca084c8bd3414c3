//! The state of the screens. Draws nothing and waits for nothing.

use std::time::{Duration, SystemTime};

use ratatui::layout::Rect;
use stats::{ProcessInfo, Statistics};

use crate::sample::Sample;
use crate::tui::theme::Theme;

mod keys;
mod order;
mod tabs;

pub(super) use order::{Followed, Shown, Sort};
pub(super) use tabs::Tab;

/// What the loop has to do for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Zero,
    Open(u32),
}

/// The screens.
#[derive(Debug)]
pub(super) struct App {
    /// The process that was chosen.
    pub(super) current: Followed,
    /// The others, while they are shown.
    pub(super) others: Vec<Followed>,
    /// The table has the sockets of all of them.
    pub(super) all: bool,
    pub(super) tab: Tab,
    pub(super) selected: usize,
    pub(super) sort: Sort,
    pub(super) reversed: bool,
    pub(super) filter: String,
    pub(super) is_filtering: bool,
    pub(super) totals: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    pub(super) detail: bool,
    /// Another `z` lets the counters begin anew: they are everybody's.
    pub(super) zero_is_asked: bool,
    /// By which column the lists beside that of the sockets are sorted; `None`: as they come.
    pub(super) list_sort: Option<usize>,
    /// Which entries the last drawing of a list has shown, by row.
    pub(super) listed: Vec<usize>,
    /// The process has ended, or the recording.
    pub(super) ended: Option<&'static str>,
    message: Option<(String, SystemTime)>,
    pub(super) interval: Duration,
    pub(super) theme: Theme,
    /// Sockets of the table, by process and place: see [`App::arrange`].
    order: Vec<(usize, usize)>,
    /// Where the last drawing has put things, for the mouse.
    pub(super) tab_areas: Vec<(Tab, Rect)>,
    pub(super) rows_area: Rect,
    pub(super) first_row: usize,
}

/// How long a message stays.
const MESSAGE_TIME: Duration = Duration::from_secs(4);

impl App {
    pub(super) fn new(process: ProcessInfo, interval: Duration, theme: Theme) -> Self {
        Self {
            current: Followed::new(process),
            others: Vec::new(),
            all: false,
            tab: Tab::Sockets,
            selected: 0,
            sort: Sort::Fd,
            reversed: false,
            filter: String::new(),
            is_filtering: false,
            totals: false,
            paused: false,
            help: false,
            detail: false,
            zero_is_asked: false,
            list_sort: None,
            listed: Vec::new(),
            ended: None,
            message: None,
            interval,
            theme,
            order: Vec::new(),
            tab_areas: Vec::new(),
            rows_area: Rect::default(),
            first_row: 0,
        }
    }

    /// Another process is the chosen one from here on.
    pub(super) fn follow(&mut self, process: ProcessInfo) {
        self.others.retain(|other| other.process.pid != process.pid);
        self.current = Followed::new(process);
        self.ended = None;
        self.all = false;
        self.tab = Tab::Sockets;
        self.selected = 0;
        self.detail = false;
        self.arrange();
    }

    /// Takes a look at the chosen process.
    pub(super) fn push(&mut self, sample: Sample) {
        self.current.history.push(sample);
        self.arrange();
    }

    /// Whether other processes are to be looked at, too.
    pub(super) fn shows_others(&self) -> bool {
        self.all || self.tab == Tab::Processes
    }

    pub(super) fn say(&mut self, text: impl Into<String>) {
        self.message = Some((text.into(), SystemTime::now()));
    }

    /// Takes a message away that has been there for a while. Whether there was one.
    pub(super) fn forget_message(&mut self) -> bool {
        let age = |since: &SystemTime| since.elapsed().unwrap_or_default();
        let is_old = matches!(&self.message, Some((_, since)) if age(since) >= MESSAGE_TIME);
        if is_old {
            self.message = None;
        }
        is_old
    }

    pub(super) fn message(&self) -> Option<&str> {
        self.message.as_ref().map(|(text, _)| text.as_str())
    }

    /// The last look at the chosen process.
    pub(super) fn statistics(&self) -> Option<&Statistics> {
        let latest = self.current.history.latest();
        latest.map(|sample| &sample.statistics)
    }

    /// Rows of the present screen.
    pub(super) fn row_count(&self) -> usize {
        match self.tab {
            Tab::Sockets => self.order.len(),
            _ => self.listed.len(),
        }
    }
}
