//! The table of sockets.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use stats::SocketSnapshot;

use super::text::{address, bytes, count, rate};
use super::window;
use crate::explain;
use crate::rate::Rate;
use crate::tui::app::{App, Shown, Sort};
use crate::tui::history::{received, sent};
use crate::tui::theme::Theme;
use crate::views::{poll_percent, protocol_name};

/// A column: heading, width, and from which width of the terminal on it is shown.
struct Column {
    name: &'static str,
    width: u16,
    from: u16,
    sort: Option<Sort>,
}

const COLUMNS: [Column; 12] = [
    column("pid", 8, 0, None),
    column("fd", 5, 0, Some(Sort::Fd)),
    column("", 3, 0, None),
    column("Rx/s", 6, 0, Some(Sort::Received)),
    column("Tx/s", 6, 0, Some(Sort::Sent)),
    column("RxB/s", 6, 100, None),
    column("TxB/s", 6, 100, None),
    column("kern%", 5, 0, Some(Sort::Kernel)),
    column("poll%", 5, 0, Some(Sort::Hits)),
    column("queue", 6, 90, None),
    column("drops", 6, 0, Some(Sort::Dropped)),
    column("trend", 16, 130, None),
];

const fn column(name: &'static str, width: u16, from: u16, sort: Option<Sort>) -> Column {
    Column {
        name,
        width,
        from,
        sort,
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let [head, rows_area, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let rows_count = app.row_count();
    let shown = window(app, rows_area, rows_count);
    let fits = |it: &&Column| it.from <= area.width && (app.all || it.name != "pid");
    let columns: Vec<&Column> = COLUMNS.iter().filter(fits).collect();
    let mut widths: Vec<_> = columns
        .iter()
        .map(|it| Constraint::Length(it.width))
        .collect();
    widths.push(Constraint::Fill(1));
    let arrow = if app.reversed { "▲" } else { "▼" };
    let mut headings: Vec<Cell<'_>> = columns
        .iter()
        .map(|it| {
            let name = match (it.name, app.totals) {
                ("Rx/s", true) => "Rx",
                ("Tx/s", true) => "Tx",
                ("RxB/s", true) => "RxB",
                ("TxB/s", true) => "TxB",
                (name, _) => name,
            };
            let mark = if it.sort == Some(app.sort) { arrow } else { "" };
            Cell::from(Line::from(format!("{name}{mark}")).alignment(alignment(it)))
        })
        .collect();
    headings.push(Cell::from("addresses, or why the kernel has it"));
    let heading = Table::new([Row::new(headings).style(app.theme.heading())], &widths);
    frame.render_widget(heading, head);
    let rows: Vec<Row<'_>> = shown
        .filter_map(|index| {
            let socket = app.socket_in_row(index)?;
            Some(if index == app.selected {
                row(app, app.theme.flat(), &columns, &socket).style(app.theme.selected())
            } else {
                row(app, app.theme, &columns, &socket)
            })
        })
        .collect();
    if rows.is_empty() {
        let text = match app.statistics() {
            None => "waiting for the first look",
            Some(_) if !app.filter.is_empty() => "no socket matches the filter (Esc clears it)",
            Some(_) => "no sockets yet",
        };
        frame.render_widget(
            Paragraph::new(text).style(app.theme.quiet()).centered(),
            rows_area,
        );
    }
    frame.render_widget(Table::new(rows, &widths), rows_area);
    draw_foot(frame, app, foot, rows_count);
}

fn alignment(column: &Column) -> ratatui::layout::Alignment {
    match column.name {
        "" | "trend" => ratatui::layout::Alignment::Left,
        _ => ratatui::layout::Alignment::Right,
    }
}

fn row(app: &App, theme: Theme, columns: &[&Column], shown: &Shown<'_>) -> Row<'static> {
    let mut cells: Vec<Cell<'static>> = columns
        .iter()
        .map(|it| Cell::from(Line::from(value(app, theme, it, shown)).alignment(alignment(it))))
        .collect();
    let socket = shown.socket;
    let about = if socket.offloaded {
        let ends = match socket.peer {
            Some(_) => format!("{} → {}", address(socket.local), address(socket.peer)),
            None => address(socket.local),
        };
        let note = if socket.detail.is_empty() {
            String::new()
        } else {
            format!("  {}", socket.detail)
        };
        Line::from(vec![Span::raw(ends), Span::styled(note, theme.warning())])
    } else {
        let why = explain::why(shown.statistics, socket);
        let local = socket
            .local
            .map_or_else(String::new, |local| format!("{local}  "));
        Line::from(vec![Span::raw(local), Span::styled(why, theme.warning())])
    };
    cells.push(Cell::from(about));
    Row::new(cells)
}

fn value(app: &App, theme: Theme, column: &Column, shown: &Shown<'_>) -> Span<'static> {
    let (socket, change) = (shown.socket, shown.change());
    let counted = |of: &dyn Fn(&SocketSnapshot) -> u64| {
        if app.totals {
            return count(of(socket));
        }
        rate(change.map(|(change, seconds)| of(change) as f64 / seconds))
    };
    let moved = |of: &dyn Fn(&SocketSnapshot) -> u64| {
        if app.totals {
            return bytes(of(socket));
        }
        change.map_or_else(
            || "-".to_owned(),
            |(change, seconds)| {
                bytes(Rate::Over(Duration::from_secs_f64(seconds)).count(of(change)))
            },
        )
    };
    match column.name {
        "pid" => Span::styled(shown.process.pid.to_string(), theme.quiet()),
        "fd" => Span::raw(socket.fd.to_string()),
        "" if socket.offloaded => Span::styled("on", theme.good()),
        "" => Span::styled("os", theme.warning()),
        "Rx/s" => Span::styled(counted(&received), theme.received()),
        "Tx/s" => Span::styled(counted(&sent), theme.sent()),
        "RxB/s" => Span::raw(moved(&|it| it.rx_bytes.saturating_add(it.rx_os_bytes))),
        "TxB/s" => Span::raw(moved(&|it| it.tx_bytes.saturating_add(it.tx_os_bytes))),
        "kern%" => {
            let seen = if app.totals {
                socket
            } else {
                change.map_or(socket, |(it, _)| it)
            };
            let os = seen.rx_os_packets.saturating_add(seen.tx_os_packets);
            let all = received(seen).saturating_add(sent(seen));
            if all == 0 {
                return Span::styled("-", theme.quiet());
            }
            let share = os as f64 / all as f64 * 100.0;
            let style = match share {
                share if share < 1.0 => theme.good(),
                share if share < 50.0 => theme.warning(),
                _ if socket.offloaded => theme.bad(),
                _ => theme.warning(),
            };
            Span::styled(format!("{share:.0}"), style)
        }
        "poll%" => {
            let (hit, miss) = (socket.rx_poll_hit, socket.rx_poll_miss);
            if hit + miss == 0 {
                return Span::styled("-", theme.quiet());
            }
            let percent = poll_percent(hit, miss);
            let style = if percent < 50.0 {
                theme.warning()
            } else {
                theme.good()
            };
            Span::styled(format!("{percent:.0}"), style)
        }
        "queue" if socket.rx_queue_packets == 0 => Span::styled("0", theme.quiet()),
        "queue" => Span::raw(count(socket.rx_queue_packets)),
        "drops" if socket.rx_dropped_packets == 0 => Span::styled("0", theme.quiet()),
        "drops" => Span::styled(count(socket.rx_dropped_packets), theme.bad()),
        _ => {
            let rates = shown.history.socket_rates(shown.key());
            let width = usize::from(column.width);
            let bars = rates.map_or_else(String::new, |it| trend(&it.rx, &it.tx, width));
            Span::styled(bars, theme.received())
        }
    }
}

/// The last rates, both ways together, as bars in one line of text.
pub(super) fn trend(rx: &VecDeque<u64>, tx: &VecDeque<u64>, width: usize) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let skipped = rx.len().saturating_sub(width);
    let both = rx.iter().zip(tx).skip(skipped);
    let last: Vec<u64> = both.map(|(rx, tx)| rx.saturating_add(*tx)).collect();
    let most = last.iter().max().copied().unwrap_or(0).max(1);
    let bar = |value: &u64| {
        let eighths = (u128::from(*value) * 8).div_ceil(u128::from(most));
        BARS[usize::try_from(eighths).unwrap_or(8).min(8)]
    };
    format!("{:>width$}", last.iter().map(bar).collect::<String>())
}

fn draw_foot(frame: &mut Frame<'_>, app: &App, area: Rect, rows: usize) {
    let theme = app.theme;
    let processes = app.shown_processes();
    let looks = || processes.iter().filter_map(|it| it.history.latest());
    let all: usize = looks().map(|it| it.statistics.sockets.len()).sum();
    let mut spans = vec![Span::styled(
        format!(" {rows} of {all} sockets"),
        theme.quiet(),
    )];
    let others: usize = looks().map(|it| it.statistics.kernel_sockets.len()).sum();
    if others > 0 {
        spans.push(Span::styled(
            format!(" + {others} TCP on the kernel"),
            theme.quiet(),
        ));
    }
    let overflowed: u64 = looks().map(|it| it.overflowed_sockets).sum();
    if overflowed > 0 {
        spans.push(Span::styled(
            format!(", {overflowed} not shown: raise VMA_STATS_FD_NUM"),
            theme.warning(),
        ));
    }
    if !app.filter.is_empty() {
        spans.push(Span::styled(
            format!("  filter: {}", app.filter),
            theme.warning(),
        ));
    }
    let closed = app.statistics().map_or_else(String::new, protocol_note);
    let sorted = format!("by {} {closed} ", app.sort.name());
    frame.render_widget(Line::from(spans), area);
    frame.render_widget(
        Line::from(Span::styled(sorted, theme.quiet())).right_aligned(),
        area,
    );
}

/// Closed sockets are worth a word: they have gone from the table.
fn protocol_note(statistics: &stats::Statistics) -> String {
    let last = statistics.closed_sockets.last();
    last.map_or_else(String::new, |it| {
        format!("· last closed: {} fd {}", protocol_name(it.protocol), it.fd)
    })
}
