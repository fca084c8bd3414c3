//! The screens that are a list: epoll sets, TCP connections, groups, events, settings and
//! processes; and that of the rings, which has two of them.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::widgets::{Paragraph, Row, Table};
use stats::{MultiplexerSnapshot, Statistics, tcp_state};

use super::sockets::trend;
use super::text::{address, bytes, count, rate, time_of_day};
use super::window;
use crate::tui::app::{App, Followed, Tab};
use crate::views::{multiplexing, poll_percent};

mod rings;

/// What a list shows.
#[derive(Debug)]
struct List {
    /// Headings, widths, and from which width of the terminal on they are shown; the last column
    /// takes what is left.
    columns: &'static [(&'static str, u16, u16)],
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

impl Cells {
    fn contains(&self, wanted: &str) -> bool {
        wanted.is_empty()
            || self
                .cells
                .iter()
                .any(|cell| cell.to_lowercase().contains(wanted))
    }

    /// The largest numbers first, then words in their order.
    fn sort_key(&self, column: usize) -> (bool, std::cmp::Reverse<u64>, String) {
        let cell = self.cells.get(column).map_or("", String::as_str);
        let number = value_of(cell);
        let words = match number {
            Some(_) => String::new(),
            None => cell.to_lowercase(),
        };
        (
            number.is_none(),
            std::cmp::Reverse(number.unwrap_or(0)),
            words,
        )
    }
}

/// What a number stands for as it is shown, `1.2k` or `0.42ms`, as the bits of a float, which sort
/// as these do while they are not negative.
fn value_of(cell: &str) -> Option<u64> {
    let cell = cell.split('/').next().unwrap_or(cell);
    let end = cell.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = cell.split_at(end.unwrap_or(cell.len()));
    let factor = match unit {
        "" | "B" | "ms" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * factor).to_bits())
}

impl List {
    fn new(columns: &'static [(&'static str, u16, u16)], rows: Vec<Cells>, empty: &str) -> Self {
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
    let List {
        columns,
        rows,
        empty,
    } = list;
    let is_shown = |(_, _, from): &(&str, u16, u16)| *from <= area.width;
    let column_count = columns.len();
    let mut rows: Vec<(usize, Cells)> = rows.into_iter().enumerate().collect();
    let mut sorted_by = None;
    if cursor == Cursor::Here {
        let wanted = app.filter.to_lowercase();
        rows.retain(|(_, row)| row.contains(&wanted));
        // One after the last column is the order in which they came.
        sorted_by = app.list_sort.map(|column| column % (column_count + 1));
        sorted_by = sorted_by.filter(|column| *column < column_count);
        if let Some(column) = sorted_by {
            rows.sort_by_cached_key(|(_, row)| row.sort_key(column));
        }
        if app.reversed {
            rows.reverse();
        }
        app.listed = rows.iter().map(|(index, _)| *index).collect();
        app.selected = app.selected.min(rows.len().saturating_sub(1));
    }
    let shown = match cursor {
        Cursor::Here => window(app, body, rows.len()),
        Cursor::Elsewhere => 0..rows.len().min(usize::from(body.height)),
    };
    let width = |(index, (_, width, _)): (usize, &(&str, u16, u16))| match index + 1 == column_count
    {
        true => Constraint::Fill(1),
        false => Constraint::Length(*width),
    };
    let visible = || columns.iter().enumerate().filter(|(_, it)| is_shown(it));
    let widths: Vec<_> = visible().map(width).collect();
    let arrow = if app.reversed { "▲" } else { "▼" };
    let names = visible().map(|(index, (name, ..))| match sorted_by == Some(index) {
        true => format!("{name}{arrow}"),
        false => (*name).to_owned(),
    });
    let names = Row::new(names);
    let heading = Table::new([names.style(app.theme.heading())], &widths);
    frame.render_widget(heading, head);
    if rows.is_empty() {
        let text = match app.filter.is_empty() {
            true => empty,
            false => "nothing matches the filter (Esc clears it)".to_owned(),
        };
        let text = Paragraph::new(text).style(app.theme.quiet());
        frame.render_widget(text.centered(), body);
        return;
    }
    let drawn = rows.into_iter().enumerate();
    let drawn = drawn.take(shown.end).skip(shown.start);
    let drawn = drawn.map(|(index, (_, Cells { cells, is_bad }))| {
        let cells = cells.into_iter().zip(columns);
        let row = Row::new(cells.filter(|(_, it)| is_shown(it)).map(|(cell, _)| cell));
        if index == app.selected && cursor == Cursor::Here {
            row.style(app.theme.selected())
        } else if is_bad {
            row.style(app.theme.bad())
        } else {
            row
        }
    });
    frame.render_widget(Table::new(drawn, &widths), body);
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
        ("calls", 12, 0),
        ("ready/s", 9, 0),
        ("kernel/s", 9, 0),
        ("poll%", 7, 0),
        ("sleeps/s", 9, 0),
        ("timeouts/s", 11, 0),
        ("errors", 8, 0),
        ("thread", 0, 0),
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
        ("fd", 5, 0),
        ("state", 11, 0),
        ("cwnd", 6, 0),
        ("rtt", 8, 0),
        ("flight", 7, 100),
        ("send-q", 7, 0),
        ("recv-q", 7, 0),
        ("again", 6, 100),
        ("again/s", 8, 100),
        ("local → peer", 0, 0),
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
    let columns = &[("group", 18, 0), ("fd", 8, 0), ("bound to", 0, 0)];
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
    let columns = &[
        ("UTC", 13, 0),
        ("kind", 9, 0),
        ("what", 12, 0),
        ("event", 0, 0),
    ];
    List::new(columns, rows.collect(), "nothing has happened yet")
}

fn settings(statistics: &Statistics) -> List {
    // What somebody has set comes first.
    let mut settings: Vec<_> = statistics.settings.iter().collect();
    settings.sort_by_key(|setting| (setting.origin == "default", setting.place));
    let rows = settings.iter();
    let rows = rows.map(|it| good(vec![it.name.clone(), it.origin.clone(), it.value.clone()]));
    let columns = &[("parameter", 38, 0), ("from", 13, 0), ("value", 0, 0)];
    List::new(
        columns,
        rows.collect(),
        "the process says nothing of its settings",
    )
}

fn processes(app: &App) -> List {
    let rows = app.processes().into_iter().map(|followed| {
        let Followed {
            process, history, ..
        } = followed;
        let latest = history.latest().map(|sample| &sample.statistics);
        let sockets = latest.map_or(0, |it| it.sockets.len() + it.kernel_sockets.len());
        let offloaded = latest.map_or(0, super::offloaded_sockets);
        let last = |line: &std::collections::VecDeque<u64>| {
            line.back()
                .map_or_else(|| "-".to_owned(), |last| count(*last))
        };
        let cpu = followed.cpu.and_then(|cpu| cpu.percent);
        let cpu = cpu.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.0}"));
        let dropped = history.dropped.back().is_some_and(|dropped| *dropped > 0);
        let cells = vec![
            process.pid.to_string(),
            process.program.clone(),
            format!("{offloaded}/{sockets}"),
            last(&history.rx),
            last(&history.tx),
            last(&history.dropped),
            cpu,
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
        ("pid", 7, 0),
        ("program", 15, 0),
        ("accelerated", 11, 0),
        ("Rx/s", 6, 0),
        ("Tx/s", 6, 0),
        ("drops/s", 7, 0),
        ("cpu%", 4, 0),
        ("trend", TREND_COLUMN, 90),
        ("", 0, 0),
    ];
    List::new(columns, rows.collect(), "no process publishes statistics")
}

/// Rates that the list of processes shows.
const TREND: usize = 10;
const TREND_COLUMN: u16 = 10;
