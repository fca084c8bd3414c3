//! The live view of `--live`: rate, percentiles, loss and their history on the terminal.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IsTerminal, Stdout};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Sparkline};
use ratatui::{Frame, Terminal};

use crate::error::Error;
use crate::measure::intervals::{Interval, IntervalLatency};

/// The view on a terminal, which is as before when this is dropped.
pub struct Live {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    state: State,
}

/// What is shown.
#[derive(Clone, Debug)]
pub struct State {
    title: String,
    intervals: VecDeque<Interval>,
    dropped: u64,
    sent: u64,
}

/// More than the columns of any terminal.
const INTERVALS_MAX: usize = 1000;

impl Live {
    /// Takes the terminal over.
    pub fn open(title: String) -> Result<Self, Error> {
        if !io::stdout().is_terminal() {
            return Err(Error::Usage(
                "--live needs a terminal as the standard output".to_owned(),
            ));
        }
        let open = || {
            execute!(io::stdout(), EnterAlternateScreen)?;
            let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
            terminal.hide_cursor()?;
            Ok(terminal)
        };
        let terminal =
            open().map_err(|error: io::Error| Error::setup("cannot use the terminal", error))?;
        let mut live = Self {
            terminal,
            state: State::new(title),
        };
        live.draw();
        Ok(live)
    }

    /// Shows one more interval.
    pub fn show(&mut self, interval: &Interval) {
        self.state.push(*interval);
        self.draw();
    }

    fn draw(&mut self) {
        // A terminal that goes away does not end the test.
        self.terminal.draw(|frame| draw(frame, &self.state)).ok();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.terminal.show_cursor().ok();
        execute!(io::stdout(), LeaveAlternateScreen).ok();
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Live")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Nothing to show yet.
    pub fn new(title: String) -> Self {
        Self {
            title,
            intervals: VecDeque::new(),
            dropped: 0,
            sent: 0,
        }
    }

    /// Adds an interval.
    pub fn push(&mut self, interval: Interval) {
        if self.intervals.len() == INTERVALS_MAX {
            self.intervals.pop_front();
        }
        self.sent += interval.sent;
        self.dropped += interval.dropped;
        self.intervals.push_back(interval);
    }

    /// The latest values that fit into `columns`, in hundredths, which is what sparklines draw.
    fn series(&self, columns: u16, value: impl Fn(&Interval) -> f64) -> Vec<u64> {
        let skipped = self.intervals.len().saturating_sub(usize::from(columns));
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "float-to-integer casts saturate"
        )]
        let hundredths = |interval| (value(interval) * 100.0) as u64;
        self.intervals
            .iter()
            .skip(skipped)
            .map(hundredths)
            .collect()
    }
}

/// Draws the view.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let [head, rate, median, tail, foot] = Layout::vertical([
        Constraint::Length(4),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(
        Paragraph::new(summary(state)).block(Block::bordered().title(state.title.as_str())),
        head,
    );
    let latency = |value: fn(&IntervalLatency) -> f64| {
        move |interval: &Interval| interval.latency.as_ref().map_or(0.0, value)
    };
    let charts = [
        (rate, "messages per second", Color::Green),
        (median, "p50, microseconds", Color::Cyan),
        (tail, "p99, microseconds", Color::Magenta),
    ];
    let series = [
        state.series(rate.width, Interval::rate),
        state.series(median.width, latency(|it| it.p50_usec)),
        state.series(tail.width, latency(|it| it.p99_usec)),
    ];
    for ((area, title, color), values) in charts.into_iter().zip(series) {
        let highest = values.iter().max().copied().unwrap_or(0) as f64 / 100.0;
        let title = format!("{title} (top: {highest:.1})");
        let chart = Sparkline::default()
            .block(Block::bordered().title(title))
            .style(Style::new().fg(color))
            .data(values);
        frame.render_widget(chart, area);
    }
    let foot_line = Line::from("Ctrl-C ends the test and prints its results").dim();
    frame.render_widget(foot_line, foot);
}

fn summary(state: &State) -> Vec<Line<'static>> {
    let Some(latest) = state.intervals.back() else {
        return vec![Line::from("waiting for the first interval")];
    };
    let loss = format!("sent {}   dropped {}", state.sent, state.dropped);
    let loss = match state.dropped {
        0 => Line::from(loss),
        _ => Line::from(loss).red(),
    };
    let now = match latest.latency {
        None => format!("{:.0} msg/s", latest.rate()),
        Some(it) => format!(
            "{:.0} msg/s   p50 {:.2}   p90 {:.2}   p99 {:.2}   p99.9 {:.2}   max {:.2} us",
            latest.rate(),
            it.p50_usec,
            it.p90_usec,
            it.p99_usec,
            it.p999_usec,
            it.max_usec
        ),
    };
    vec![Line::from(now).bold(), loss]
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;

    use super::*;

    fn screen(state: &State, columns: u16, rows: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        terminal.backend().to_string()
    }

    fn state() -> State {
        let mut state = State::new("ping-pong 127.0.0.1:5".to_owned());
        for index in 0..100u32 {
            let time = f64::from(index);
            state.push(Interval {
                start_sec: time,
                end_sec: time + 1.0,
                sent: 1000,
                sent_bytes: 14_000,
                received: 999,
                dropped: 1,
                out_of_order: 0,
                latency: Some(IntervalLatency {
                    count: 999,
                    mean_usec: 7.0,
                    p50_usec: 6.5,
                    p90_usec: 8.0,
                    p99_usec: 12.0,
                    p999_usec: 20.0,
                    max_usec: 99.0,
                }),
            });
        }
        state
    }

    #[test]
    fn view_shows_rate_percentiles_and_loss() {
        let text = screen(&state(), 90, 24);
        for part in [
            "ping-pong 127.0.0.1:5",
            "1000 msg/s   p50 6.50   p90 8.00   p99 12.00   p99.9 20.00   max 99.00 us",
            "sent 100000   dropped 100",
            "messages per second (top: 1000.0)",
            "p99, microseconds (top: 12.0)",
            "Ctrl-C ends",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn every_size_can_be_drawn() {
        for (columns, rows) in [(1, 1), (20, 5), (200, 3), (500, 100)] {
            screen(&state(), columns, rows);
        }
        let empty = State::new(String::new());
        assert!(screen(&empty, 40, 20).contains("waiting for the first"));
    }
}
