//! Interfaces: their rings, queues, buffers, and what there is to say of them.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use stats::{PoolSnapshot, RingSnapshot, Statistics};

use super::super::text::{bytes, cells, count, rate};
use super::{Cells, Cursor, List, draw_list};
use crate::tui::app::App;

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let Some(statistics) = app.statistics() else {
        return;
    };
    let [rings_area, queues_area, pools_area, notes_area] = Layout::vertical([
        Constraint::Length(cells(statistics.rings.len()) + 2),
        Constraint::Length(cells(statistics.queues.len()) + 2),
        Constraint::Length(cells(statistics.pools.len()) * 2 + 1),
        Constraint::Min(0),
    ])
    .areas(area);
    for (index, pool) in statistics.pools.iter().enumerate() {
        draw_pool(frame, app, pool, pools_area, cells(index) * 2);
    }
    draw_notes(frame, app, statistics, notes_area);
    let (rings, queues) = (rings(app, statistics), queues(statistics));
    draw_list(frame, app, rings_area, rings, Cursor::Here);
    draw_list(frame, app, queues_area, queues, Cursor::Elsewhere);
}

fn rings(app: &App, statistics: &Statistics) -> List {
    let rows = statistics.rings.iter().enumerate().map(|(index, ring)| {
        let per = |of: fn(&RingSnapshot) -> u64| {
            let history = &app.current.history;
            rate(history.rate(|change| change.rings.get(index).map(of)))
        };
        let cells = vec![
            ring.ifname.clone(),
            ring.mode.clone(),
            per(|it| it.rx_packets),
            per(|it| it.tx_packets),
            bytes(ring.rx_bytes),
            bytes(ring.tx_bytes),
            per(|it| it.tx_kicks),
            count(ring.tx_full),
            dropped_packets(ring),
        ];
        Cells {
            cells,
            is_bad: ring.rx_dropped_no_frame + ring.tx_full > 0,
        }
    });
    let columns = &[
        ("interface", 10, 0),
        ("mode", 12, 0),
        ("Rx/s", 6, 0),
        ("Tx/s", 6, 0),
        ("Rx", 6, 0),
        ("Tx", 6, 0),
        ("kicks/s", 8, 0),
        ("tx full", 8, 0),
        ("dropped", 0, 0),
    ];
    let empty = "no interface is open: nothing is accelerated yet";
    List::new(columns, rows.collect(), empty)
}

/// How many, and why.
fn dropped_packets(ring: &RingSnapshot) -> String {
    let causes = [
        (ring.rx_dropped_no_frame, "no buffer"),
        (ring.rx_dropped_no_socket, "no socket"),
        (ring.rx_dropped_malformed, "malformed"),
        (ring.rx_dropped_checksum, "checksum"),
    ];
    let causes = causes.iter().filter(|(packets, _)| *packets > 0);
    let causes: Vec<_> = causes
        .map(|(packets, cause)| format!("{} {cause}", count(*packets)))
        .collect();
    match causes.is_empty() {
        true => "0".to_owned(),
        false => causes.join(", "),
    }
}

fn queues(statistics: &Statistics) -> List {
    let rows = statistics.queues.iter().map(|queue| Cells {
        cells: vec![
            queue.ifname.clone(),
            count(queue.rx_drained_max),
            count(queue.rx_dropped),
        ],
        is_bad: queue.rx_dropped > 0,
    });
    let columns = &[
        ("queue of", 10, 0),
        ("most at once", 14, 0),
        ("dropped", 0, 0),
    ];
    List::new(columns, rows.collect(), "no queue")
}

fn draw_notes(frame: &mut Frame<'_>, app: &App, statistics: &Statistics, area: Rect) {
    let notes = statistics.notes.iter().map(|note| {
        let about = if note.subject.is_empty() {
            "process"
        } else {
            &note.subject
        };
        Line::from(vec![
            Span::styled(format!(" {about} ({}): ", note.topic), app.theme.warning()),
            Span::raw(note.text.clone()),
        ])
    });
    let notes = Paragraph::new(notes.collect::<Vec<_>>());
    frame.render_widget(notes.wrap(Wrap { trim: false }), area);
}

fn draw_pool(frame: &mut Frame<'_>, app: &App, pool: &PoolSnapshot, area: Rect, below: u16) {
    let used = pool.frames.saturating_sub(pool.free);
    let share = used as f64 / pool.frames.max(1) as f64;
    let style = match share {
        share if share > 0.9 => app.theme.bad(),
        share if share > 0.7 => app.theme.warning(),
        _ => app.theme.good(),
    };
    let row = Rect::new(area.x, area.y + below, area.width, 1).intersection(area);
    let width = usize::from(area.width) / 3;
    let filled = (share.clamp(0.0, 1.0) * width as f64).round();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most the width"
    )]
    let filled = filled as usize;
    let text = format!("  {} of {} in use", count(used), count(pool.frames));
    let exhausted = match pool.exhausted {
        0 => Span::styled(
            format!(", {} each", bytes(pool.frame_bytes)),
            app.theme.quiet(),
        ),
        times => Span::styled(format!(", empty {} times", count(times)), app.theme.bad()),
    };
    let line = Line::from(vec![
        Span::raw(" buffers    "),
        Span::styled("█".repeat(filled), style),
        Span::styled("░".repeat(width.saturating_sub(filled)), app.theme.quiet()),
        Span::raw(text),
        exhausted,
    ]);
    frame.render_widget(line, row);
}
