//! The screens, drawn from the state.

mod detail;
mod lists;
mod sockets;
mod text;
mod wrap;

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Padding, Paragraph, Sparkline};
use stats::Statistics;

use crate::tui::app::{App, Tab};
use crate::tui::history::History;
use text::count;

/// The smallest terminal that shows anything useful.
const WIDTH_MIN: u16 = 60;
const HEIGHT_MIN: u16 = 12;

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let text = format!("vma_stats needs {WIDTH_MIN}x{HEIGHT_MIN}; q quits");
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    // Graphs only where they leave room for the rows.
    let graphs = match area.height {
        ..20 => 0,
        20..30 => 4,
        30..45 => 6,
        _ => 9,
    };
    let [title, tabs, summary, body, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(graphs),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_title(frame, app, title);
    draw_tabs(frame, app, tabs);
    if graphs > 0 {
        draw_graphs(frame, app, summary);
    }
    match app.tab {
        Tab::Sockets if app.detail => detail::draw(frame, app, body),
        Tab::Sockets => {
            let [table, preview] = with_preview(app, body);
            sockets::draw(frame, app, table);
            if preview.height > 0 {
                detail::draw(frame, app, preview);
            }
        }
        _ => lists::draw(frame, app, body),
    }
    draw_keys(frame, app, keys);
    if app.help {
        draw_help(frame, app, area);
    }
}

/// Room for the chosen socket below the table: what the table leaves, or half where it would take
/// all.
fn with_preview(app: &App, area: Rect) -> [Rect; 2] {
    let rows = u16::try_from(app.row_count()).unwrap_or(u16::MAX);
    let left = area.height.saturating_sub(rows.saturating_add(3));
    let half = if area.height >= 2 * PREVIEW_MIN {
        area.height / 2
    } else {
        0
    };
    let height = match left.max(half) {
        _ if rows == 0 => 0,
        ..PREVIEW_MIN => 0,
        height => height,
    };
    Layout::vertical([Constraint::Fill(1), Constraint::Length(height)]).areas(area)
}

/// Lines below which nothing useful can be said of a socket.
const PREVIEW_MIN: u16 = 9;

fn draw_title(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let theme = app.theme;
    let mut left = vec![Span::styled(" vma_stats ", theme.title())];
    let processes = app.shown_processes();
    if let [one] = &processes[..] {
        left.push(Span::raw(format!("{} ", one.process.program)));
        left.push(Span::styled(
            format!("pid {}  ", one.process.pid),
            theme.quiet(),
        ));
    } else {
        left.push(Span::raw(format!("{} processes  ", processes.len())));
    }
    let looks: Vec<_> = processes
        .iter()
        .filter_map(|it| it.history.latest())
        .collect();
    if !looks.is_empty() {
        let sockets = |of: fn(&Statistics) -> usize| -> usize {
            looks.iter().map(|sample| of(&sample.statistics)).sum()
        };
        let all = sockets(|it| it.sockets.len() + it.kernel_sockets.len());
        let offloaded = sockets(offloaded_sockets);
        let style = if offloaded == all {
            theme.good()
        } else {
            theme.warning()
        };
        left.push(Span::styled(
            format!("{offloaded}/{all} accelerated"),
            style,
        ));
    }
    let state = match app.ended {
        Some(why) => Span::styled(format!(" {why} "), theme.bad()),
        None if app.paused => Span::styled(" PAUSED ", theme.warning()),
        None => Span::styled(
            format!("every {:.1} s ", app.interval.as_secs_f64()),
            theme.quiet(),
        ),
    };
    frame.render_widget(Line::from(left), area);
    frame.render_widget(Line::from(state).right_aligned(), area);
}

fn offloaded_sockets(statistics: &Statistics) -> usize {
    let sockets = statistics.sockets.iter();
    sockets.filter(|it| it.offloaded).count()
}

fn draw_tabs(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let mut spans = Vec::new();
    let mut areas = Vec::new();
    let mut x = area.x;
    for (index, tab) in Tab::ALL.into_iter().enumerate() {
        let label = match area.width {
            ..90 => format!(" {}{} ", index + 1, tab.short_name()),
            _ => format!(" {} {} ", index + 1, tab.name()),
        };
        let width = text::cells(label.len());
        areas.push((tab, Rect::new(x, area.y, width, 1).intersection(area)));
        x = x.saturating_add(width);
        let style = if tab == app.tab {
            app.theme.selected()
        } else {
            app.theme.quiet()
        };
        spans.push(Span::styled(label, style));
    }
    app.tab_areas = areas;
    frame.render_widget(Line::from(spans), area);
}

/// Received, sent and dropped packets of all sockets over time.
fn draw_graphs(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let [rx, tx, dropped] = Layout::horizontal([
        Constraint::Fill(2),
        Constraint::Fill(2),
        Constraint::Fill(1),
    ])
    .areas(area);
    let theme = app.theme;
    let processes = app.shown_processes();
    let sum = |of: fn(&History) -> &VecDeque<u64>| {
        sum_of_lines(processes.iter().map(|followed| of(&followed.history)))
    };
    let (rx_line, tx_line) = (sum(|it| &it.rx), sum(|it| &it.tx));
    let dropped_line = sum(|it| &it.dropped);
    let is_dropping = dropped_line.back().is_some_and(|last| *last > 0);
    let drops = if is_dropping {
        theme.bad()
    } else {
        theme.quiet()
    };
    for (name, line, style, area) in [
        ("Rx", &rx_line, theme.received(), rx),
        ("Tx", &tx_line, theme.sent(), tx),
        ("Drops", &dropped_line, drops, dropped),
    ] {
        let now = line.back().copied().unwrap_or(0);
        let peak = line.iter().max().copied().unwrap_or(0);
        let rate = format!(" {name} {}/s ", count(now));
        let title = format!("{rate} peak {} ", count(peak));
        let title = match title.len() + 2 <= usize::from(area.width) {
            true => title,
            false => rate,
        };
        let seconds = line.len().min(usize::from(area.width.saturating_sub(2))) as f64
            * app.interval.as_secs_f64();
        let block = Block::bordered()
            .border_type(BorderType::Rounded)
            .border_style(theme.border())
            .title(Span::styled(title, style))
            .title_bottom(Span::styled(span(seconds), theme.quiet()));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        frame.render_widget(sparkline(line, inner.width).style(style), inner);
    }
}

/// What time a graph covers, for its lower edge.
fn span(seconds: f64) -> String {
    match seconds {
        ..1.0 => String::new(),
        ..120.0 => format!(" {seconds:.0} s "),
        _ => format!(" {:.0} min ", seconds / 60.0),
    }
}

/// The sum of several lines, the latest values of all together.
fn sum_of_lines<'a>(lines: impl Iterator<Item = &'a VecDeque<u64>>) -> VecDeque<u64> {
    let mut sum = VecDeque::new();
    for line in lines {
        while sum.len() < line.len() {
            sum.push_front(0_u64);
        }
        for (total, value) in sum.iter_mut().rev().zip(line.iter().rev()) {
            *total = total.saturating_add(*value);
        }
    }
    sum
}

/// The last values that fit, the latest at the right.
fn sparkline(line: &VecDeque<u64>, width: u16) -> Sparkline<'static> {
    let width = usize::from(width);
    let skipped = line.len().saturating_sub(width);
    let padding = width.saturating_sub(line.len());
    let values = std::iter::repeat_n(0, padding).chain(line.iter().skip(skipped).copied());
    Sparkline::default().data(values.collect::<Vec<u64>>())
}

fn draw_keys(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let theme = app.theme;
    if app.is_filtering {
        let text = vec![
            Span::styled(" Filter: ", theme.key()),
            Span::raw(app.filter.clone()),
            Span::styled("█", theme.key()),
            Span::styled("   Enter keeps it, Esc clears it", theme.quiet()),
        ];
        frame.render_widget(Line::from(text), area);
        return;
    }
    if let Some(message) = app.message() {
        frame.render_widget(Span::styled(format!(" {message}"), theme.warning()), area);
        return;
    }
    let keys: &[(&str, &str)] = match (app.tab, app.detail) {
        (Tab::Sockets, true) => &[("Esc", "back"), ("↑↓", "other socket"), ("Space", "pause")],
        (Tab::Sockets, false) => &[
            ("Enter", "detail"),
            ("/", "filter"),
            ("s", "sort"),
            ("r", "reverse"),
            ("t", "totals"),
            ("a", "all processes"),
            ("Space", "pause"),
            ("z", "zero"),
        ],
        (Tab::Processes, _) => &[
            ("Enter", "show"),
            ("↑↓", "choose"),
            ("/", "filter"),
            ("s", "sort"),
            ("r", "reverse"),
        ],
        _ => &[
            ("↑↓", "scroll"),
            ("/", "filter"),
            ("s", "sort"),
            ("r", "reverse"),
            ("Space", "pause"),
            ("z", "zero"),
        ],
    };
    let mut spans = vec![Span::raw(" ")];
    let last = [("?", "help"), ("q", "quit")];
    // What does not fit is in the help.
    let room = usize::from(area.width).saturating_sub(18);
    let mut used = 0;
    let fitting = keys.iter().take_while(|(key, what)| {
        used += key.chars().count() + what.len() + 3;
        used <= room
    });
    for (key, what) in fitting.chain(&last) {
        spans.push(Span::styled(*key, theme.key()));
        spans.push(Span::raw(format!(" {what}  ")));
    }
    frame.render_widget(Line::from(spans), area);
}

fn draw_help(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let lines = [
        ("1-8, Tab, ← →", "another screen"),
        ("↑ ↓ PgUp PgDn", "choose a row"),
        ("Enter", "all about a socket, and what to change"),
        ("/", "filter: fd, address, reason, 'kernel', any word"),
        ("s, r", "sort by another column, reverse"),
        ("t", "totals instead of rates"),
        ("a", "the sockets of all processes"),
        ("Space", "pause"),
        ("+ -", "faster, slower"),
        ("z", "let all counters begin anew (asks first)"),
        ("mouse", "click tabs and rows, wheel scrolls"),
        ("q", "quit"),
    ];
    let height = text::cells(lines.len()) + 4;
    let longest = lines.iter().map(|(_, what)| what.len()).max();
    // The key, two borders and what is left free on both sides.
    let width = 16 + text::cells(longest.unwrap_or(0)) + 6;
    let popup = text::centred(area, width, height);
    let text: Vec<Line<'_>> = lines
        .into_iter()
        .map(|(key, what)| {
            Line::from(vec![
                Span::styled(format!("{key:<16}"), app.theme.key()),
                Span::raw(what),
            ])
        })
        .collect();
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .title(" Help ")
        .padding(Padding::new(2, 2, 1, 1));
    frame.render_widget(Clear, popup);
    frame.render_widget(Paragraph::new(text).block(block), popup);
}

/// A table's rows that fit, with the chosen one among them; takes note of where they are.
fn window(app: &mut App, rows_area: Rect, rows: usize) -> std::ops::Range<usize> {
    let height = usize::from(rows_area.height).max(1);
    let mut first = app.first_row.min(rows.saturating_sub(height));
    if app.selected < first {
        first = app.selected;
    } else if app.selected >= first + height {
        first = app.selected + 1 - height;
    }
    app.first_row = first;
    app.rows_area = rows_area;
    first..rows.min(first + height)
}
