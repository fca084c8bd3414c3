//! All about one socket.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Bar, BarChart, BarGroup, Block, BorderType, Padding, Paragraph};
use stats::{FieldKind, PROTOCOL_TCP, Row, SocketSnapshot, Statistics, Value, tcp_state};

use super::sparkline;
use super::text::{address, bytes, count, nanoseconds, rate};
use super::wrap::{LABEL, wrap};
use crate::explain;
use crate::tui::app::{App, Shown};
use crate::tui::history::{received, sent};
use crate::views::{poll_percent, protocol_name};

pub(super) fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let Some(shown) = app.selected_socket() else {
        frame.render_widget(
            Paragraph::new("The socket is gone; Esc leads back").centered(),
            area,
        );
        return;
    };
    let (statistics, socket) = (shown.statistics, shown.socket);
    let title = format!(" fd {} · {} ", socket.fd, protocol_name(socket.protocol));
    let outer = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(app.theme.border())
        .title(Span::styled(title, app.theme.title()))
        .padding(Padding::horizontal(1));
    let inner = outer.inner(area);
    frame.render_widget(outer, area);
    let words = words(app, statistics, socket);
    if area.width >= 150 {
        let [left, middle, right] = Layout::horizontal([
            Constraint::Fill(5),
            Constraint::Length(44),
            Constraint::Fill(3),
        ])
        .spacing(2)
        .areas(inner);
        frame.render_widget(Paragraph::new(wrap(words, left.width)), left);
        draw_counters(frame, app, &shown, middle);
        draw_graphs(frame, app, &shown, right);
    } else if area.width >= 100 {
        let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(44)])
            .spacing(2)
            .areas(inner);
        let [counters, graphs] = match area.height {
            ..24 => [right, Rect::default()],
            _ => Layout::vertical([Constraint::Fill(1), Constraint::Length(14)]).areas(right),
        };
        frame.render_widget(Paragraph::new(wrap(words, left.width)), left);
        draw_counters(frame, app, &shown, counters);
        if graphs.height > 0 {
            draw_graphs(frame, app, &shown, graphs);
        }
    } else if area.height >= 30 {
        let [top, bottom] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(12)]).areas(inner);
        let [counters, graphs] = Layout::horizontal([Constraint::Length(44), Constraint::Fill(1)])
            .spacing(2)
            .areas(bottom);
        frame.render_widget(Paragraph::new(wrap(words, top.width)), top);
        draw_counters(frame, app, &shown, counters);
        draw_graphs(frame, app, &shown, graphs);
    } else {
        frame.render_widget(Paragraph::new(wrap(words, inner.width)), inner);
    }
}

/// What it is, how it fares, why, and what to change.
fn words(app: &App, statistics: &Statistics, socket: &SocketSnapshot) -> Vec<Line<'static>> {
    let theme = app.theme;
    let label = |name: &str| Span::styled(format!("{name:<LABEL$}"), theme.quiet());
    let plain = |name: &str, text: String| Line::from(vec![label(name), Span::raw(text)]);
    let mut lines = vec![if socket.offloaded {
        Line::from(vec![
            label("state"),
            Span::styled("accelerated", theme.good()),
        ])
    } else {
        let why = explain::why(statistics, socket);
        let text = format!("served by the kernel: {why}");
        Line::from(vec![label("state"), Span::styled(text, theme.warning())])
    }];
    let advice = explain::advice(statistics, socket.reason).to_owned();
    if !socket.offloaded && !advice.is_empty() {
        lines.push(plain("change", advice));
    }
    if socket.offloaded && !socket.detail.is_empty() {
        let detail = socket.detail.clone();
        lines.push(Line::from(vec![
            label("but"),
            Span::styled(detail, theme.warning()),
        ]));
    }
    lines.push(plain(
        "addresses",
        format!("{} → {}", address(socket.local), address(socket.peer)),
    ));
    let mut options = vec![
        if socket.nonblocking {
            "non-blocking"
        } else {
            "blocking"
        }
        .to_owned(),
    ];
    if socket.mc_loop_off {
        options.push("multicast loop off".to_owned());
    }
    if let Some(interface) = socket.mc_interface {
        options.push(format!("multicast through {}", interface.ip()));
    }
    lines.push(plain("options", options.join(", ")));
    let groups: Vec<String> = statistics
        .groups
        .iter()
        .filter(|it| it.fd == socket.fd)
        .filter_map(|it| Some(it.group?.ip().to_string()))
        .collect();
    if !groups.is_empty() {
        lines.push(plain("groups", groups.join(", ")));
    }
    if socket.rx_thread + socket.tx_thread > 0 {
        let text = format!("Rx {}, Tx {}", socket.rx_thread, socket.tx_thread);
        lines.push(plain("threads", text));
    }
    lines.push(plain("inode", socket.inode.to_string()));
    lines.push(Line::default());
    lines.extend(ways(app, statistics, socket));
    let connections = statistics.tcp_connections.iter();
    let mut connections = connections.filter(|it| it.fd == socket.fd && it.inode == socket.inode);
    if let Some(it) = connections.next() {
        let state = format!(
            "{}, cwnd {}, rtt {}, {} in flight, {} to send, mss {}, {} sent again",
            tcp_state(it.state),
            bytes(it.cwnd),
            nanoseconds(it.srtt_usec.saturating_mul(1000)),
            bytes(it.unacked_bytes),
            bytes(it.tx_queue_bytes),
            it.mss,
            count(it.retransmits),
        );
        lines.push(plain("tcp", state));
    } else if socket.protocol == PROTOCOL_TCP && socket.tcp_state != 0 {
        lines.push(plain("tcp", tcp_state(socket.tcp_state).to_owned()));
    }
    let limit = socket.rx_queue_bytes_limit;
    lines.push(plain(
        "queue",
        format!(
            "{} packets, {} of {}; most {} packets, {}",
            count(socket.rx_queue_packets),
            bytes(socket.rx_queue_bytes),
            bytes(limit),
            count(socket.rx_queue_packets_max),
            bytes(socket.rx_queue_bytes_max),
        ),
    ));
    if socket.rx_dropped_packets > 0 {
        let text = format!(
            "{} packets, {}: read faster, or raise SO_RCVBUF",
            count(socket.rx_dropped_packets),
            bytes(socket.rx_dropped_bytes)
        );
        lines.push(Line::from(vec![
            label("dropped"),
            Span::styled(text, theme.bad()),
        ]));
    }
    let (hit, miss) = (socket.rx_poll_hit, socket.rx_poll_miss);
    if hit + miss > 0 {
        let percent = poll_percent(hit, miss);
        let style = if percent < 50.0 {
            theme.warning()
        } else {
            theme.good()
        };
        lines.push(Line::from(vec![
            label("polling"),
            Span::styled(format!("{percent:.1} % found something"), style),
            Span::raw(format!("  ({} hits, {} sleeps)", count(hit), count(miss))),
        ]));
    }
    let times = &socket.rx_latency;
    if let (Some(p50), Some(p99), Some(most)) = (
        times.quantile(0.5),
        times.quantile(0.99),
        times.quantile(1.0),
    ) {
        lines.push(plain(
            "latency",
            format!(
                "arrival to program: p50 {}, p99 {}, most {} ({} samples)",
                nanoseconds(p50),
                nanoseconds(p99),
                nanoseconds(most),
                count(times.count())
            ),
        ));
    }
    lines
}

/// Which way the packets went, and why the kernel carried some.
fn ways(app: &App, statistics: &Statistics, socket: &SocketSnapshot) -> Vec<Line<'static>> {
    let theme = app.theme;
    let mut lines = Vec::new();
    for (name, all, through, reasons) in [
        (
            "received",
            received(socket),
            socket.rx_os_packets,
            &socket.rx_os_reasons,
        ),
        (
            "sent",
            sent(socket),
            socket.tx_os_packets,
            &socket.tx_os_reasons,
        ),
    ] {
        let past = (all - through.min(all)) as f64 / all.max(1) as f64 * 100.0;
        let text = if all == 0 {
            "nothing".to_owned()
        } else {
            format!("{} packets, {past:.1} % past the kernel", count(all))
        };
        lines.push(Line::from(vec![
            Span::styled(format!("{name:<LABEL$}"), theme.quiet()),
            Span::raw(text),
        ]));
        for (code, packets) in reasons.iter() {
            let why = explain::reason(statistics, code);
            lines.push(Line::from(vec![
                Span::raw(" ".repeat(LABEL)),
                Span::styled(
                    format!("{} through it: {why}", count(packets)),
                    theme.warning(),
                ),
            ]));
        }
    }
    lines
}

/// Every counter that is not 0, from the table of the schema.
fn draw_counters(frame: &mut Frame<'_>, app: &App, shown: &Shown<'_>, area: Rect) {
    let socket = shown.socket;
    let rates = shown
        .change()
        .map(|(change, seconds)| (change.values(), seconds));
    let mut lines = vec![Line::from(Span::styled(
        format!("{:<22}{:>10}{:>10}", "counter", "total", "per s"),
        app.theme.heading(),
    ))];
    let values = socket.values();
    for (index, (field, value)) in SocketSnapshot::FIELDS.iter().zip(&values).enumerate() {
        let Value::Unsigned(total) = value else {
            continue;
        };
        if field.kind == FieldKind::Identity || *total == 0 {
            continue;
        }
        let per_second = match (&rates, field.kind) {
            (Some((values, seconds)), FieldKind::Counter) => {
                let number = values.get(index).and_then(Value::number);
                rate(number.map(|number| number / seconds))
            }
            _ => String::new(),
        };
        let style = if field.name.contains("dropped") || field.name.contains("error") {
            app.theme.bad()
        } else {
            ratatui::style::Style::new()
        };
        lines.push(Line::from(Span::styled(
            format!("{:<22}{:>10}{:>10}", field.name, count(*total), per_second),
            style,
        )));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Rates over time, and the times from arrival to delivery.
fn draw_graphs(frame: &mut Frame<'_>, app: &App, shown: &Shown<'_>, area: Rect) {
    let (theme, socket) = (app.theme, shown.socket);
    let [rx_area, tx_area, times_area] = Layout::vertical([
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Fill(2),
    ])
    .areas(area);
    if let Some(rates) = shown.history.socket_rates(shown.key()) {
        for (name, line, style, area) in [
            ("Rx/s", &rates.rx, theme.received(), rx_area),
            ("Tx/s", &rates.tx, theme.sent(), tx_area),
        ] {
            let now = count(line.back().copied().unwrap_or(0));
            let [head, graph] =
                Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
            frame.render_widget(Span::styled(format!("{name} {now}"), style), head);
            frame.render_widget(sparkline(line, graph.width).style(style), graph);
        }
    }
    if socket.rx_latency.count() == 0 {
        return;
    }
    // By powers of two: eight or so bars.
    let mut bars: Vec<(u64, u64)> = Vec::new();
    for (from, _, found) in socket.rx_latency.buckets() {
        let octave = if from < 32 { 0 } else { 1 << from.ilog2() };
        match bars.last_mut() {
            Some((last, total)) if *last == octave => *total += found,
            _ => bars.push((octave, found)),
        }
    }
    let group = BarGroup::default().bars(
        &bars
            .iter()
            .map(|(from, found)| {
                Bar::default()
                    .label(Line::from(nanoseconds(*from).replace(' ', "")))
                    .value(*found)
                    .text_value(count(*found))
            })
            .collect::<Vec<_>>(),
    );
    let [head, chart] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(times_area);
    frame.render_widget(Span::styled("arrival to program", theme.title()), head);
    let chart_widget = BarChart::default()
        .data(group)
        .direction(ratatui::layout::Direction::Horizontal)
        .bar_width(1)
        .bar_gap(0)
        .bar_style(theme.sent());
    frame.render_widget(chart_widget, chart);
}
