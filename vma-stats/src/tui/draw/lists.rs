//! The screens that are a list: epoll sets, TCP connections, groups, events, settings and
//! processes; and that of the rings, which has two of them.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::widgets::{Paragraph, Row, Table};
use stats::{MultiplexerSnapshot, Statistics};

use super::sockets::trend;
use super::text::{address, bytes, count, rate, time_of_day};
use super::window;
use crate::tui::app::{App, Followed, Tab};
use crate::views::{multiplexing, netstat::tcp_state, poll_percent};

mod rings;

/// What a list shows.
#[derive(Debug)]
struct List {
    /// Headings and widths; the last column takes what is left.
    columns: &'static [(&'static str, u16)],
    rows: Vec<Cells>,
    /// What is said where there are no rows.
    empty: String,
}

/// A row.
#[derive(Debug)]
struct Cells {
    cells: Vec<String>,
    /// Something is wrong with it.
    is_bad: bool,
}

impl List {
    fn new(columns: &'static [(&'static str, u16)], rows: Vec<Cells>, empty: &str) -> Self {
        let empty = empty.to_owned();
        Self {
            columns,
            rows,
            empty,
        }
    }
}

fn good(cells: Vec<String>) -> Cells {
    let is_bad = false;
    Cells { cells, is_bad }
}

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let list = match (app.tab, app.statistics()) {
        (Tab::Processes, _) => processes(app),
        (_, None) => return,
        (Tab::Rings, Some(_)) => {
            rings::draw(frame, app, area);
            return;
        }
        (Tab::Epoll, Some(statistics)) => calls(app, statistics),
        (Tab::Tcp, Some(statistics)) => connections(app, statistics),
        (Tab::Multicast, Some(statistics)) => groups(statistics),
        (Tab::Events, Some(statistics)) => events(statistics),
        (_, Some(statistics)) => settings(statistics),
    };
    draw_list(frame, app, area, list, Cursor::Here);
}

/// Whether a row of the list is the chosen one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cursor {
    Here,
    Elsewhere,
}

fn draw_list(frame: &mut Frame<'_>, app: &mut App, area: Rect, list: List, cursor: Cursor) {
    // As far from the edge as everything else.
    let area = area.inner(Margin::new(1, 0));
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let shown = match cursor {
        Cursor::Here => window(app, body, list.rows.len()),
        Cursor::Elsewhere => 0..list.rows.len().min(usize::from(body.height)),
    };
    let last = list.columns.len().saturating_sub(1);
    let width = |(index, (_, width)): (usize, &(&str, u16))| match index == last {
        true => Constraint::Fill(1),
        false => Constraint::Length(*width),
    };
    let widths: Vec<_> = list.columns.iter().enumerate().map(width).collect();
    let names = Row::new(list.columns.iter().map(|(name, _)| *name));
    let heading = Table::new([names.style(app.theme.heading())], &widths);
    frame.render_widget(heading, head);
    if list.rows.is_empty() {
        let text = Paragraph::new(list.empty).style(app.theme.quiet());
        frame.render_widget(text.centered(), body);
        return;
    }
    let visible = list.rows.into_iter().enumerate();
    let visible = visible.take(shown.end).skip(shown.start);
    let visible = visible.map(|(index, Cells { cells, is_bad })| {
        let row = Row::new(cells);
        if index == app.selected && cursor == Cursor::Here {
            row.style(app.theme.selected())
        } else if is_bad {
            row.style(app.theme.bad())
        } else {
            row
        }
    });
    frame.render_widget(Table::new(visible, &widths), body);
}

fn calls(app: &App, statistics: &Statistics) -> List {
    let rows = statistics.multiplexers.iter().enumerate();
    let rows = rows.map(|(index, calls)| {
        let per = |of: fn(&MultiplexerSnapshot) -> u64| {
            let history = &app.current.history;
            rate(history.rate(|change| change.multiplexers.get(index).map(of)))
        };
        let percent = match calls.poll_hit + calls.poll_miss {
            0 => "-".to_owned(),
            _ => format!("{:.1}", poll_percent(calls.poll_hit, calls.poll_miss)),
        };
        let cells = vec![
            multiplexing::name(calls),
            per(|it| it.rx_ready),
            per(|it| it.rx_os_ready),
            percent,
            per(|it| it.poll_miss),
            per(|it| it.timeouts),
            count(calls.errors),
            calls.thread.to_string(),
        ];
        Cells {
            cells,
            is_bad: calls.errors > 0,
        }
    });
    let columns = &[
        ("calls", 12),
        ("ready/s", 9),
        ("kernel/s", 9),
        ("poll%", 7),
        ("sleeps/s", 9),
        ("timeouts/s", 11),
        ("errors", 8),
        ("thread", 0),
    ];
    List::new(columns, rows.collect(), "no poll, select or epoll yet")
}

fn connections(app: &App, statistics: &Statistics) -> List {
    let rows = statistics.tcp_connections.iter().map(|it| {
        let again = app
            .current
            .history
            .retransmissions((it.slot, it.generation));
        let now = again.and_then(|line| line.back()).copied().unwrap_or(0);
        let cells = vec![
            it.fd.to_string(),
            tcp_state(it.state).to_owned(),
            bytes(it.cwnd),
            format!("{:.2}ms", it.srtt_usec as f64 / 1000.0),
            bytes(it.unacked_bytes),
            bytes(it.tx_queue_bytes),
            bytes(it.rx_queue_bytes),
            count(it.retransmits),
            count(now),
            format!("{} → {}", address(it.local), address(it.peer)),
        ];
        Cells {
            cells,
            is_bad: now > 0,
        }
    });
    let columns = &[
        ("fd", 5),
        ("state", 12),
        ("cwnd", 6),
        ("rtt", 9),
        ("flight", 7),
        ("send-q", 7),
        ("recv-q", 7),
        ("again", 6),
        ("again/s", 8),
        ("local → peer", 0),
    ];
    let others = statistics.kernel_sockets.iter();
    let kernel = others.filter(|it| it.protocol == stats::PROTOCOL_TCP);
    let kernel = kernel.count();
    let empty = format!("no TCP connection is accelerated; {kernel} TCP sockets are the kernel's");
    List::new(columns, rows.collect(), &empty)
}

fn groups(statistics: &Statistics) -> List {
    let groups = statistics.groups.iter();
    let mut groups: Vec<_> = groups
        .filter_map(|it| Some((it.group?.ip(), it.fd)))
        .collect();
    groups.sort_unstable();
    let rows = groups.iter().map(|(group, fd)| {
        let socket = statistics.sockets.iter().find(|socket| socket.fd == *fd);
        let local = socket.and_then(|socket| socket.local);
        good(vec![group.to_string(), fd.to_string(), address(local)])
    });
    let columns = &[("group", 18), ("fd", 8), ("bound to", 0)];
    List::new(columns, rows.collect(), "no memberships")
}

fn events(statistics: &Statistics) -> List {
    // The latest first: that is what one looks for.
    let rows = statistics.events.iter().rev().map(|event| Cells {
        cells: vec![
            time_of_day(event.time_nsec),
            event.kind.clone(),
            event.subject.clone(),
            event.text.clone(),
        ],
        is_bad: event.kind == "error",
    });
    let columns = &[("UTC", 13), ("kind", 9), ("what", 12), ("event", 0)];
    List::new(columns, rows.collect(), "nothing has happened yet")
}

fn settings(statistics: &Statistics) -> List {
    // What somebody has set comes first.
    let mut settings: Vec<_> = statistics.settings.iter().collect();
    settings.sort_by_key(|setting| (setting.origin == "default", setting.place));
    let rows = settings.iter();
    let rows = rows.map(|it| good(vec![it.name.clone(), it.origin.clone(), it.value.clone()]));
    let columns = &[("parameter", 38), ("from", 13), ("value", 0)];
    List::new(
        columns,
        rows.collect(),
        "the process says nothing of its settings",
    )
}

fn processes(app: &App) -> List {
    let rows = app.processes().into_iter().map(|followed| {
        let Followed { process, history } = followed;
        let latest = history.latest().map(|sample| &sample.statistics);
        let sockets = latest.map_or(0, |it| it.sockets.len() + it.kernel_sockets.len());
        let offloaded = latest.map_or(0, super::offloaded_sockets);
        let last = |line: &std::collections::VecDeque<u64>| {
            line.back()
                .map_or_else(|| "-".to_owned(), |last| count(*last))
        };
        let dropped = history.dropped.back().is_some_and(|dropped| *dropped > 0);
        let cells = vec![
            process.pid.to_string(),
            process.program.clone(),
            format!("{offloaded}/{sockets}"),
            last(&history.rx),
            last(&history.tx),
            last(&history.dropped),
            trend(&history.rx, &history.tx, TREND),
            if process.pid == app.current.process.pid {
                "shown".to_owned()
            } else {
                String::new()
            },
        ];
        Cells {
            cells,
            is_bad: dropped,
        }
    });
    let columns = &[
        ("pid", 8),
        ("program", 20),
        ("accelerated", 11),
        ("Rx/s", 6),
        ("Tx/s", 6),
        ("drops/s", 7),
        ("trend", TREND_COLUMN),
        ("", 0),
    ];
    List::new(columns, rows.collect(), "no process publishes statistics")
}

/// Rates that the list of processes shows.
const TREND: usize = 10;
const TREND_COLUMN: u16 = 10;
