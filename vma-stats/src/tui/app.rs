//! The state of the screens, and what keys and the mouse do to it. Draws nothing and waits for nothing.

use std::time::{Duration, SystemTime};

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind};
use ratatui::layout::Rect;
use stats::{ProcessInfo, SocketSnapshot, Statistics};

use crate::sample::Sample;
use crate::tui::history::{History, received, sent};
use crate::tui::theme::Theme;

/// A screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Sockets,
    Rings,
    Epoll,
    Tcp,
    Multicast,
    Events,
    Settings,
    Processes,
}

impl Tab {
    pub(super) const ALL: [Self; 8] = [
        Self::Sockets,
        Self::Rings,
        Self::Epoll,
        Self::Tcp,
        Self::Multicast,
        Self::Events,
        Self::Settings,
        Self::Processes,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sockets => "Sockets",
            Self::Rings => "Rings",
            Self::Epoll => "Epoll",
            Self::Tcp => "TCP",
            Self::Multicast => "Multicast",
            Self::Events => "Events",
            Self::Settings => "Settings",
            Self::Processes => "Processes",
        }
    }
}

impl Tab {
    /// For narrow terminals.
    pub(super) fn short_name(self) -> &'static str {
        match self {
            Self::Multicast => "Mcast",
            Self::Settings => "Config",
            Self::Processes => "Procs",
            other => other.name(),
        }
    }
}

/// What the sockets are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Fd,
    Received,
    Sent,
    Dropped,
    Hits,
    Kernel,
}

impl Sort {
    const ALL: [Self; 6] = [
        Self::Fd,
        Self::Received,
        Self::Sent,
        Self::Dropped,
        Self::Hits,
        Self::Kernel,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fd => "fd",
            Self::Received => "Rx",
            Self::Sent => "Tx",
            Self::Dropped => "drops",
            Self::Hits => "poll%",
            Self::Kernel => "kernel share",
        }
    }
}

/// Something to choose in the list of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) pid: u32,
    pub(super) program: String,
    pub(super) sockets: usize,
    pub(super) offloaded: usize,
}

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
    pub(super) process: ProcessInfo,
    pub(super) history: History,
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
    /// The process has ended, or the recording.
    pub(super) ended: Option<&'static str>,
    pub(super) message: Option<(String, SystemTime)>,
    pub(super) processes: Vec<Listed>,
    pub(super) interval: Duration,
    pub(super) theme: Theme,
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
            process,
            history: History::default(),
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
            ended: None,
            message: None,
            processes: Vec::new(),
            interval,
            theme,
            tab_areas: Vec::new(),
            rows_area: Rect::default(),
            first_row: 0,
        }
    }

    /// Another process is shown from here on.
    pub(super) fn follow(&mut self, process: ProcessInfo) {
        self.process = process;
        self.history = History::default();
        self.ended = None;
        self.tab = Tab::Sockets;
        self.selected = 0;
        self.detail = false;
    }

    pub(super) fn push(&mut self, sample: Sample) {
        self.history.push(sample);
        let rows = self.row_count();
        self.selected = self.selected.min(rows.saturating_sub(1));
    }

    pub(super) fn say(&mut self, text: impl Into<String>) {
        self.message = Some((text.into(), SystemTime::now()));
    }

    /// The message of a moment ago, if there is one.
    pub(super) fn message(&self) -> Option<&str> {
        let (text, since) = self.message.as_ref()?;
        let age = since.elapsed().unwrap_or_default();
        (age < MESSAGE_TIME).then_some(text)
    }

    pub(super) fn statistics(&self) -> Option<&Statistics> {
        self.history.latest().map(|sample| &sample.statistics)
    }

    /// The sockets that match the filter, in the order that was chosen.
    pub(super) fn sockets(&self) -> Vec<&SocketSnapshot> {
        let Some(statistics) = self.statistics() else {
            return Vec::new();
        };
        let wanted = self.filter.to_lowercase();
        let matches = |socket: &&SocketSnapshot| {
            wanted.is_empty() || self.words_of(statistics, socket).contains(&wanted)
        };
        let mut sockets: Vec<_> = statistics.sockets.iter().filter(matches).collect();
        let change = |socket: &SocketSnapshot| {
            let key = (socket.slot, socket.generation);
            self.history
                .socket_change(key)
                .map_or_else(|| socket.clone(), |(change, _)| change.clone())
        };
        let largest_first = |value: u64| u64::MAX - value;
        sockets.sort_by_cached_key(|socket| {
            let change = change(socket);
            let key = match self.sort {
                Sort::Fd => u64::try_from(socket.fd).unwrap_or(0),
                Sort::Received => largest_first(received(&change)),
                Sort::Sent => largest_first(sent(&change)),
                Sort::Dropped => largest_first(socket.rx_dropped_packets),
                Sort::Hits => {
                    let polls = socket.rx_poll_hit + socket.rx_poll_miss;
                    largest_first(socket.rx_poll_miss * 1000 / polls.max(1))
                }
                Sort::Kernel => largest_first(kernel_permille(socket)),
            };
            (key, socket.fd)
        });
        if self.reversed {
            sockets.reverse();
        }
        sockets
    }

    /// What the filter looks at.
    fn words_of(&self, statistics: &Statistics, socket: &SocketSnapshot) -> String {
        let address =
            |end: Option<std::net::SocketAddr>| end.map_or_else(String::new, |end| end.to_string());
        let state = if socket.offloaded {
            "offloaded"
        } else {
            "kernel"
        };
        let reason = crate::explain::reason(statistics, socket.reason);
        let text = format!(
            "fd {} {} {} {state} {reason} {}",
            socket.fd,
            address(socket.local),
            address(socket.peer),
            socket.detail
        );
        text.to_lowercase()
    }

    pub(super) fn selected_socket(&self) -> Option<&SocketSnapshot> {
        self.sockets().get(self.selected).copied()
    }

    /// Rows of the present screen.
    pub(super) fn row_count(&self) -> usize {
        let Some(statistics) = self.statistics() else {
            return self.processes.len();
        };
        match self.tab {
            Tab::Sockets => self.sockets().len(),
            Tab::Rings => statistics.rings.len(),
            Tab::Epoll => statistics.multiplexers.len(),
            Tab::Tcp => statistics.tcp_connections.len(),
            Tab::Multicast => statistics.groups.len(),
            Tab::Events => statistics.events.len(),
            Tab::Settings => statistics.settings.len(),
            Tab::Processes => self.processes.len(),
        }
    }

    pub(super) fn handle(&mut self, event: &Event) -> Option<Action> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
                    return Some(Action::Quit);
                }
                if self.is_filtering {
                    self.edit_filter(key.code);
                    return None;
                }
                self.key(key.code)
            }
            Event::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollDown => self.step(1),
                MouseEventKind::ScrollUp => self.step(-1),
                MouseEventKind::Down(MouseButton::Left) => self.click(mouse.column, mouse.row),
                _ => None,
            },
            _ => None,
        }
    }

    fn edit_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Esc => {
                self.filter.clear();
                self.is_filtering = false;
            }
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.selected = 0;
    }

    fn key(&mut self, key: KeyCode) -> Option<Action> {
        if self.help {
            self.help = false;
            return (key == KeyCode::Char('q')).then_some(Action::Quit);
        }
        match key {
            KeyCode::Char('q') => return Some(Action::Quit),
            KeyCode::Esc if self.detail => self.detail = false,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('z') => return Some(Action::Zero),
            KeyCode::Char('t') => self.totals = !self.totals,
            KeyCode::Char('s') => {
                let at = Sort::ALL.iter().position(|sort| *sort == self.sort);
                self.sort = Sort::ALL[(at.unwrap_or(0) + 1) % Sort::ALL.len()];
            }
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('/') => {
                self.show(Tab::Sockets);
                self.is_filtering = true;
            }
            KeyCode::Char('+') => self.interval = (self.interval / 2).max(INTERVAL_MIN),
            KeyCode::Char('-') => self.interval = (self.interval * 2).min(INTERVAL_MAX),
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(Tab::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='8') => {
                let index = digit.to_digit(10).unwrap_or(1) as usize - 1;
                self.show(Tab::ALL[index]);
            }
            KeyCode::Down | KeyCode::Char('j') => return self.step(1),
            KeyCode::Up | KeyCode::Char('k') => return self.step(-1),
            KeyCode::PageDown => return self.step(10),
            KeyCode::PageUp => return self.step(-10),
            KeyCode::Home | KeyCode::Char('g') => self.selected = 0,
            KeyCode::End | KeyCode::Char('G') => self.selected = self.row_count().saturating_sub(1),
            KeyCode::Enter => return self.enter(),
            _ => {}
        }
        None
    }

    fn turn(&mut self, by: usize) {
        let at = Tab::ALL.iter().position(|tab| *tab == self.tab);
        self.show(Tab::ALL[(at.unwrap_or(0) + by) % Tab::ALL.len()]);
    }

    fn show(&mut self, tab: Tab) {
        if self.tab != tab {
            self.tab = tab;
            self.selected = 0;
            self.detail = false;
        }
    }

    fn step(&mut self, by: isize) -> Option<Action> {
        let last = self.row_count().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
        None
    }

    fn enter(&mut self) -> Option<Action> {
        match self.tab {
            Tab::Sockets => self.detail = !self.detail,
            Tab::Processes => {
                return self
                    .processes
                    .get(self.selected)
                    .map(|process| Action::Open(process.pid));
            }
            _ => {}
        }
        None
    }

    fn click(&mut self, column: u16, row: u16) -> Option<Action> {
        if self.help {
            self.help = false;
            return None;
        }
        let at = ratatui::layout::Position { x: column, y: row };
        let tab = self.tab_areas.iter().find(|(_, area)| area.contains(at));
        if let Some((tab, _)) = tab {
            self.show(*tab);
        } else if self.rows_area.contains(at) {
            let index = self.first_row + usize::from(row - self.rows_area.y);
            if index < self.row_count() {
                let again = self.selected == index;
                self.selected = index;
                if again {
                    return self.enter();
                }
            }
        }
        None
    }
}

const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// The share of a socket's packets that went through the kernel, in thousandths.
fn kernel_permille(socket: &SocketSnapshot) -> u64 {
    let os = socket.rx_os_packets.saturating_add(socket.tx_os_packets);
    let all = received(socket).saturating_add(sent(socket));
    os.saturating_mul(1000) / all.max(1)
}
