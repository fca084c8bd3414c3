//! Views 1 and 2: two lines per socket, in columns that are declared once. Scripts read them.

use std::fmt::Write;

use stats::{Row, SocketSnapshot, SocketStats, Value};

use crate::explain;
use crate::rate::Rate;
use crate::sample::Report;
use crate::views::{Columns, multiplexing, poll_percent};

/// One of the two views.
#[derive(Debug)]
pub(crate) struct View {
    /// Above the columns of what went past the kernel, and of what went through it: of totals, and
    /// of changes.
    pub(super) titles: [[&'static str; 2]; 2],
    /// Above the columns of the queue, if there are some.
    pub(super) queue_title: &'static str,
    pub(super) columns: &'static [Column],
}

/// A column: what is above it, and which fields of the table of sockets are in it.
#[derive(Debug)]
pub(super) struct Column {
    part: Part,
    name: &'static str,
    width: usize,
    rx: Shown,
    tx: Shown,
}

/// What a column belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Offloaded,
    Queue,
    Os,
}

/// A number of a socket: places in [`SocketStats::FIELDS`].
#[derive(Clone, Copy, Debug)]
enum Shown {
    Nothing,
    Count(usize),
    Kbytes(usize),
    /// As it is now.
    Level(usize),
    /// The share of the first in both.
    Percent(usize, usize),
}

/// Where a field is in the table; there is none of another name.
const fn field(name: &str) -> usize {
    let (fields, name) = (SocketStats::FIELDS, name.as_bytes());
    let mut index = 0;
    while index < fields.len() {
        let known = fields[index].name.as_bytes();
        let mut same = 0;
        while same < known.len() && same < name.len() && known[same] == name[same] {
            same += 1;
        }
        if same == known.len() && same == name.len() {
            return index;
        }
        index += 1;
    }
    panic!("no field of this name")
}

/// The columns of what went past the kernel (`rx_`, `tx_`) or through it (`rx_os_`, `tx_os_`).
macro_rules! traffic {
    ($part:ident, $width:literal, $eagain_width:literal, $rx:literal, $tx:literal) => {
        [
            traffic!(@ $part, "pkt", $width, Count, concat!($rx, "packets"), concat!($tx, "packets")),
            traffic!(@ $part, "Kbyte", 7, Kbytes, concat!($rx, "bytes"), concat!($tx, "bytes")),
            traffic!(@ $part, "eagain", $eagain_width, Count, concat!($rx, "eagain"), concat!($tx, "eagain")),
            traffic!(@ $part, "error", 7, Count, concat!($rx, "errors"), concat!($tx, "errors")),
        ]
    };
    (@ $part:ident, $name:literal, $width:literal, $show:ident, $rx:expr, $tx:expr) => {
        Column {
            part: Part::$part,
            name: $name,
            width: $width,
            rx: Shown::$show(field($rx)),
            tx: Shown::$show(field($tx)),
        }
    };
}

const OFFLOADED: [Column; 4] = traffic!(Offloaded, 10, 8, "rx_", "tx_");
const OS: [Column; 4] = traffic!(Os, 7, 7, "rx_os_", "tx_os_");

const POLL: Column = received(
    Part::Offloaded,
    "poll%",
    Shown::Percent(field("rx_poll_hit"), field("rx_poll_miss")),
);

/// Of what a socket receives only.
const fn received(part: Part, name: &'static str, rx: Shown) -> Column {
    Column {
        part,
        name,
        width: 6,
        rx,
        tx: Shown::Nothing,
    }
}

/// Those of view 1.
pub(super) const BASIC: &[Column] = &{
    let ([a, b, c, d], [e, f, g, h]) = (OFFLOADED, OS);
    [a, b, c, d, POLL, e, f, g, h]
};

/// Those of view 2.
pub(super) const MEDIUM: &[Column] = &{
    let ([a, b, c, d], [e, f, g, h]) = (OFFLOADED, OS);
    let now = received(Part::Queue, "cur", Shown::Level(field("rx_queue_packets")));
    let most = received(
        Part::Queue,
        "max",
        Shown::Level(field("rx_queue_packets_max")),
    );
    let dropped = received(
        Part::Queue,
        "drop",
        Shown::Count(field("rx_dropped_packets")),
    );
    [a, b, c, d, POLL, now, most, dropped, e, f, g, h]
};

impl Column {
    /// Blanks in front of it: one, but two inside of the queue.
    fn gap(&self) -> usize {
        1 + usize::from(self.part == Part::Queue && self.name != "cur")
    }

    fn heading(&self, rate: Rate) -> String {
        let suffix = match self.rx {
            Shown::Count(_) | Shown::Kbytes(_) => rate.suffix(),
            _ => "",
        };
        format!("{}{suffix}", self.name)
    }

    fn push(&self, line: &mut String, text: &str) {
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            line,
            "{:gap$}{text:>width$}",
            "",
            gap = self.gap(),
            width = self.width
        );
    }
}

impl Shown {
    fn text(self, rate: Rate, values: &[Value]) -> String {
        let number = |index: usize| match values.get(index) {
            Some(Value::Unsigned(number)) => *number,
            _ => 0,
        };
        match self {
            Self::Nothing => String::new(),
            Self::Count(index) => rate.count(number(index)).to_string(),
            Self::Kbytes(index) => rate.kbytes(number(index)).to_string(),
            Self::Level(index) => number(index).to_string(),
            Self::Percent(hit, miss) => format!("{:.1}", poll_percent(number(hit), number(miss))),
        }
    }
}

impl View {
    fn width(&self, parts: &[Part]) -> usize {
        let columns = self.columns.iter().filter(|it| parts.contains(&it.part));
        columns.map(|it| it.gap() + it.width).sum()
    }

    fn heading(&self, rate: Rate) -> String {
        let [offloaded, os] = match rate {
            Rate::Total => self.titles[0],
            Rate::Over(_) => self.titles[1],
        };
        let first = self.width(&[Part::Offloaded, Part::Queue]);
        let last = self.width(&[Part::Os]);
        let mut text = format!(" {:<7}{offloaded:>first$}{os:>last$}\n {:<7}", "fd", "");
        let queue = self.width(&[Part::Queue]);
        for column in self.columns {
            match (column.part, column.name) {
                (Part::Queue, "cur") => {
                    let _ = write!(text, "{:>queue$}", self.queue_title);
                }
                (Part::Queue, _) => {}
                _ => column.push(&mut text, &column.heading(rate)),
            }
        }
        text.push('\n');
        if queue > 0 {
            let before = 8 + self.width(&[Part::Offloaded]);
            let _ = write!(text, "{:before$}", "");
            for column in self.columns.iter().filter(|it| it.part == Part::Queue) {
                column.push(&mut text, &column.heading(rate));
            }
            text.push_str(" \n");
        }
        text
    }

    fn push_socket(&self, text: &mut String, rate: Rate, socket: &SocketSnapshot) {
        let (values, fd) = (socket.values(), socket.fd.to_string());
        for (fd, name, is_rx) in [(fd.as_str(), "Rx:", true), ("", "Tx:", false)] {
            let _ = write!(text, " {fd:<3} {name:<3}");
            for column in self.columns {
                let shown = if is_rx { column.rx } else { column.tx };
                column.push(text, &shown.text(rate, &values));
            }
            text.push('\n');
        }
    }
}

/// A view's lines. With `explained`, rings, pools and reasons follow the table.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) view: &'static View,
    pub(crate) explained: bool,
}

impl Columns for Sockets {
    fn heading(&self, rate: Rate) -> String {
        self.view.heading(rate)
    }

    fn lines(&self, text: &mut String, report: &Report) {
        for socket in &report.values.sockets {
            self.view.push_socket(text, report.rate, socket);
        }
        multiplexing::push_lines(text, report);
        if self.explained {
            explain::push(text, report);
        }
    }
}
