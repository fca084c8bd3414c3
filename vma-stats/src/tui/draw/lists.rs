//! Rings and pools, epoll sets, TCP connections, groups, events, settings and processes.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Gauge, Paragraph, Row, Table};
use stats::Statistics;

use super::text::{address, bytes, cells, count, rate, time_of_day};
use super::window;
use crate::tui::app::{App, Tab};
use crate::views::{multiplexing, netstat::tcp_state, poll_percent};

/// Cells, and whether something is wrong.
type Cells = (Vec<String>, bool);

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    if app.tab == Tab::Processes {
        draw_processes(frame, app, area);
        return;
    }
    let Some(statistics) = app.statistics().cloned() else {
        return;
    };
    match app.tab {
        Tab::Rings => draw_rings(frame, app, &statistics, area),
        Tab::Epoll => draw_epoll(frame, app, &statistics, area),
        Tab::Tcp => draw_tcp(frame, app, &statistics, area),
        Tab::Multicast => draw_groups(frame, app, &statistics, area),
        Tab::Events => draw_events(frame, app, &statistics, area),
        _ => draw_settings(frame, app, &statistics, area),
    }
}

/// Whether a row of the table is the chosen one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cursor {
    Here,
    Elsewhere,
}

/// Headings, rows, and a word where there are none. The last column takes what is left.
fn draw_table(
    frame: &mut Frame<'_>,
    app: &mut App,
    area: Rect,
    columns: &[(&str, u16)],
    rows: Vec<Cells>,
    empty: &str,
    cursor: Cursor,
) {
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let shown = match cursor {
        Cursor::Here => window(app, body, rows.len()),
        Cursor::Elsewhere => 0..rows.len().min(usize::from(body.height)),
    };
    let last = columns.len().saturating_sub(1);
    let width = |(index, (_, width)): (usize, &(&str, u16))| match index == last {
        true => Constraint::Fill(1),
        false => Constraint::Length(*width),
    };
    let widths: Vec<_> = columns.iter().enumerate().map(width).collect();
    let names = Row::new(columns.iter().map(|(name, _)| (*name).to_owned()));
    let heading = Table::new([names.style(app.theme.heading())], &widths);
    frame.render_widget(heading, head);
    if rows.is_empty() {
        let text = Paragraph::new(empty).style(app.theme.quiet()).centered();
        frame.render_widget(text, body);
        return;
    }
    let visible = rows
        .into_iter()
        .enumerate()
        .take(shown.end)
        .skip(shown.start);
    let visible = visible.map(|(index, (cells, is_wrong))| {
        let row = Row::new(cells);
        if index == app.selected && cursor == Cursor::Here {
            row.style(app.theme.selected())
        } else if is_wrong {
            row.style(app.theme.bad())
        } else {
            row
        }
    });
    frame.render_widget(Table::new(visible, &widths), body);
}

fn draw_rings(frame: &mut Frame<'_>, app: &mut App, statistics: &Statistics, area: Rect) {
    let pools = cells(statistics.pools.len());
    let queues = cells(statistics.queues.len());
    let [rings_area, queues_area, pools_area, notes_area] = Layout::vertical([
        Constraint::Length(cells(statistics.rings.len()) + 2),
        Constraint::Length(queues + 2),
        Constraint::Length(pools * 2 + 1),
        Constraint::Min(0),
    ])
    .areas(area);
    let rows = statistics.rings.iter().enumerate().map(|(index, ring)| {
        let per = |of: fn(&stats::RingSnapshot) -> u64| {
            rate(app.history.rate(|change| change.rings.get(index).map(of)))
        };
        let dropped = ring.rx_dropped_no_socket
            + ring.rx_dropped_malformed
            + ring.rx_dropped_checksum
            + ring.rx_dropped_no_frame;
        let cells = vec![
            ring.ifname.clone(),
            ring.mode.clone(),
            per(|it| it.rx_packets),
            per(|it| it.tx_packets),
            bytes(ring.rx_bytes),
            bytes(ring.tx_bytes),
            per(|it| it.tx_kicks),
            count(ring.tx_full),
            format!(
                "{} ({} no socket, {} malformed, {} checksum, {} no buffer)",
                count(dropped),
                count(ring.rx_dropped_no_socket),
                count(ring.rx_dropped_malformed),
                count(ring.rx_dropped_checksum),
                count(ring.rx_dropped_no_frame)
            ),
        ];
        (cells, ring.rx_dropped_no_frame + ring.tx_full > 0)
    });
    let rows: Vec<Cells> = rows.collect();
    draw_table(
        frame,
        app,
        rings_area,
        &[
            ("interface", 10),
            ("mode", 12),
            ("Rx/s", 6),
            ("Tx/s", 6),
            ("Rx", 6),
            ("Tx", 6),
            ("kicks/s", 8),
            ("tx full", 8),
            ("dropped", 0),
        ],
        rows,
        "no interface is open: nothing is accelerated yet",
        Cursor::Here,
    );
    let rows = statistics.queues.iter().map(|queue| {
        let cells = vec![
            queue.ifname.clone(),
            count(queue.rx_drained_max),
            count(queue.rx_dropped),
        ];
        (cells, queue.rx_dropped > 0)
    });
    let columns = [("queue of", 10), ("most at once", 14), ("dropped", 0)];
    draw_table(
        frame,
        app,
        queues_area,
        &columns,
        rows.collect(),
        "no queue",
        Cursor::Elsewhere,
    );
    for (index, pool) in statistics.pools.iter().enumerate() {
        draw_pool(frame, app, pool, pools_area, cells(index) * 2);
    }
    let notes = statistics.notes.iter().map(|note| {
        let about = if note.subject.is_empty() {
            "process"
        } else {
            &note.subject
        };
        Line::from(vec![
            Span::styled(format!("{about} ({}): ", note.topic), app.theme.warning()),
            Span::raw(note.text.clone()),
        ])
    });
    let notes = Paragraph::new(notes.collect::<Vec<_>>());
    frame.render_widget(
        notes.wrap(ratatui::widgets::Wrap { trim: false }),
        notes_area,
    );
}

fn draw_pool(frame: &mut Frame<'_>, app: &App, pool: &stats::PoolSnapshot, area: Rect, below: u16) {
    let used = pool.frames.saturating_sub(pool.free);
    let share = used as f64 / pool.frames.max(1) as f64;
    let style = match share {
        share if share > 0.9 => app.theme.bad(),
        share if share > 0.7 => app.theme.warning(),
        _ => app.theme.good(),
    };
    let row = Rect::new(area.x, area.y + below, area.width, 1).intersection(area);
    let [label, gauge, note] = Layout::horizontal([
        Constraint::Length(11),
        Constraint::Fill(2),
        Constraint::Fill(1),
    ])
    .spacing(1)
    .areas(row);
    frame.render_widget(Span::raw("buffers"), label);
    let text = format!("{} of {} in use", count(used), count(pool.frames));
    let gauge_widget = Gauge::default()
        .ratio(share.clamp(0.0, 1.0))
        .label(text)
        .gauge_style(style);
    frame.render_widget(gauge_widget, gauge);
    let exhausted = match pool.exhausted {
        0 => Span::styled(
            format!("{} each", bytes(pool.frame_bytes)),
            app.theme.quiet(),
        ),
        times => Span::styled(format!("empty {} times", count(times)), app.theme.bad()),
    };
    frame.render_widget(exhausted, note);
}

fn draw_epoll(frame: &mut Frame<'_>, app: &mut App, statistics: &Statistics, area: Rect) {
    let rows = statistics
        .multiplexers
        .iter()
        .enumerate()
        .map(|(index, calls)| {
            let per = |of: fn(&stats::MultiplexerSnapshot) -> u64| {
                rate(
                    app.history
                        .rate(|change| change.multiplexers.get(index).map(of)),
                )
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
            (cells, calls.errors > 0)
        });
    let rows: Vec<Cells> = rows.collect();
    let columns = [
        ("calls", 12),
        ("ready/s", 9),
        ("kernel/s", 9),
        ("poll%", 7),
        ("sleeps/s", 9),
        ("timeouts/s", 11),
        ("errors", 8),
        ("thread", 0),
    ];
    draw_table(
        frame,
        app,
        area,
        &columns,
        rows,
        "no poll, select or epoll yet",
        Cursor::Here,
    );
}

fn draw_tcp(frame: &mut Frame<'_>, app: &mut App, statistics: &Statistics, area: Rect) {
    let rows = statistics.tcp_connections.iter().map(|it| {
        let again = app.history.retransmissions((it.slot, it.generation));
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
        (cells, now > 0)
    });
    let rows: Vec<Cells> = rows.collect();
    let columns = [
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
    let kernel = statistics
        .kernel_sockets
        .iter()
        .filter(|it| it.protocol == stats::PROTOCOL_TCP)
        .count();
    let empty = format!("no TCP connection is accelerated; {kernel} TCP sockets are the kernel's");
    draw_table(frame, app, area, &columns, rows, &empty, Cursor::Here);
}

fn draw_groups(frame: &mut Frame<'_>, app: &mut App, statistics: &Statistics, area: Rect) {
    let mut groups: Vec<_> = statistics
        .groups
        .iter()
        .filter_map(|it| Some((it.group?.ip(), it.fd)))
        .collect();
    groups.sort_unstable();
    let rows = groups.iter().map(|(group, fd)| {
        let socket = statistics.sockets.iter().find(|socket| socket.fd == *fd);
        let local = socket.and_then(|socket| socket.local);
        (
            vec![group.to_string(), fd.to_string(), address(local)],
            false,
        )
    });
    let columns = [("group", 18), ("fd", 8), ("bound to", 0)];
    draw_table(
        frame,
        app,
        area,
        &columns,
        rows.collect(),
        "no memberships",
        Cursor::Here,
    );
}

fn draw_events(frame: &mut Frame<'_>, app: &mut App, statistics: &Statistics, area: Rect) {
    // The latest first: that is what one looks for.
    let rows = statistics.events.iter().rev().map(|event| {
        let cells = vec![
            time_of_day(event.time_nsec),
            event.kind.clone(),
            event.subject.clone(),
            event.text.clone(),
        ];
        (cells, event.kind == "error")
    });
    let columns = [("UTC", 13), ("kind", 9), ("what", 12), ("event", 0)];
    draw_table(
        frame,
        app,
        area,
        &columns,
        rows.collect(),
        "nothing has happened yet",
        Cursor::Here,
    );
}

fn draw_settings(frame: &mut Frame<'_>, app: &mut App, statistics: &Statistics, area: Rect) {
    // What somebody has set comes first.
    let mut settings: Vec<_> = statistics.settings.iter().collect();
    settings.sort_by_key(|setting| (setting.origin == "default", setting.place));
    let rows = settings.iter().map(|it| {
        let cells = vec![it.name.clone(), it.origin.clone(), it.value.clone()];
        (cells, false)
    });
    let columns = [("parameter", 38), ("from", 13), ("value", 0)];
    draw_table(
        frame,
        app,
        area,
        &columns,
        rows.collect(),
        "the process says nothing of its settings",
        Cursor::Here,
    );
}

fn draw_processes(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let rows = app.processes.iter().map(|process| {
        let shown = if process.pid == app.process.pid {
            "shown"
        } else {
            ""
        };
        let cells = vec![
            process.pid.to_string(),
            process.program.clone(),
            process.sockets.to_string(),
            process.offloaded.to_string(),
            shown.to_owned(),
        ];
        (cells, false)
    });
    let rows: Vec<Cells> = rows.collect();
    let columns = [
        ("pid", 9),
        ("program", 24),
        ("sockets", 9),
        ("accelerated", 13),
        ("", 0),
    ];
    draw_table(
        frame,
        app,
        area,
        &columns,
        rows,
        "no process publishes statistics",
        Cursor::Here,
    );
}
