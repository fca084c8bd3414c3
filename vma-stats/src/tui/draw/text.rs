//! Numbers for people.

use std::net::SocketAddr;

use ratatui::layout::Rect;

/// At most five characters: `999`, `1.2k`, `35M`.
pub(super) fn count(value: u64) -> String {
    scaled(value as f64, 1000.0, ["", "k", "M", "G", "T"])
}

/// The same in units of 1024 bytes.
pub(super) fn bytes(value: u64) -> String {
    scaled(value as f64, 1024.0, ["B", "K", "M", "G", "T"])
}

/// A rate that may be a fraction.
pub(super) fn rate(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value > 0.0 && value < 9.95 => format!("{value:.1}"),
        Some(value) => scaled(value, 1000.0, ["", "k", "M", "G", "T"]),
    }
}

fn scaled(mut value: f64, base: f64, units: [&str; 5]) -> String {
    let mut unit = 0;
    while value >= base - 0.5 && unit < units.len() - 1 {
        value /= base;
        unit += 1;
    }
    let name = units[unit];
    if unit > 0 && value < 9.95 {
        format!("{value:.1}{name}")
    } else {
        format!("{value:.0}{name}")
    }
}

/// `950 ns`, `1.2 us`, `3.0 ms`
pub(super) fn nanoseconds(value: u64) -> String {
    match value {
        0..1_000 => format!("{value} ns"),
        1_000..1_000_000 => format!("{:.1} us", value as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value as f64 / 1e6),
        _ => format!("{:.1} s", value as f64 / 1e9),
    }
}

pub(super) fn address(end: Option<SocketAddr>) -> String {
    end.map_or_else(|| "-".to_owned(), |end| end.to_string())
}

/// Hours, minutes and seconds of a day, UTC.
pub(super) fn time_of_day(nanoseconds: u64) -> String {
    let milliseconds = nanoseconds / 1_000_000;
    let seconds = milliseconds / 1000 % 86_400;
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        milliseconds % 1000
    )
}

/// A number of rows or columns, as large as any terminal has.
pub(super) fn cells(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(1000).min(1000)
}

pub(super) fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect::new(
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
        width,
        height,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let counts = [0, 999, 1000, 1234, 34_567, 999_999, 12_345_678, u64::MAX];
        let shown = counts.map(count);
        assert_eq!(
            shown,
            [
                "0",
                "999",
                "1.0k",
                "1.2k",
                "35k",
                "1.0M",
                "12M",
                "18446744T"
            ]
        );
        assert_eq!([0, 2047, 65536].map(bytes), ["0B", "2.0K", "64K"]);
        assert_eq!(
            [None, Some(0.0), Some(0.25), Some(1234.0)].map(rate),
            ["-", "0", "0.2", "1.2k"]
        );
        assert_eq!(
            [17, 1500, 2_500_000].map(nanoseconds),
            ["17 ns", "1.5 us", "2.5 ms"]
        );
        assert_eq!(time_of_day(3_723_004_000_000), "01:02:03.004");
    }
}
