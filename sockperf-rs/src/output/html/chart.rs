//! Line charts as SVG.

use std::fmt::Write;

/// A chart with one or more lines; the vertical axis is logarithmic when the values span more than
/// a factor of 20.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The lines.
    pub series: Vec<Series>,
    /// Below the horizontal axis.
    pub x_label: String,
    /// Above the vertical axis.
    pub y_label: String,
    /// Places and texts of the horizontal axis; round numbers if there are none.
    pub x_ticks: Vec<(f64, String)>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Series {
    /// For the legend.
    pub name: String,
    /// CSS colour.
    pub color: &'static str,
    /// Places, from left to right.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 45.0;
const LOG_FACTOR: f64 = 20.0;

/// An axis: values to places.
struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64> + Clone, is_vertical: bool) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low.is_finite() && high > low {
            (low, high)
        } else if low.is_finite() {
            (low, low + 1.0)
        } else {
            (0.0, 1.0)
        };
        let is_log = is_vertical && low > 0.0 && high / low > LOG_FACTOR;
        let low = if is_vertical && !is_log {
            low.min(0.0)
        } else {
            low
        };
        Self { low, high, is_log }
    }

    /// Between 0 and 1.
    fn place(&self, value: f64) -> f64 {
        if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let mut ticks = Vec::new();
            let mut decade = 10f64.powf(self.low.log10().floor());
            while decade <= self.high {
                ticks.extend([1.0, 2.0, 5.0].map(|factor| factor * decade));
                decade *= 10.0;
            }
            ticks.retain(|tick| (self.low..=self.high).contains(tick));
            return ticks;
        }
        let step = round_step((self.high - self.low) / 6.0);
        let first = (self.low / step).ceil();
        (0..20)
            .map(|index| (first + f64::from(index)) * step)
            .take_while(|&tick| tick <= self.high + step * 1e-9)
            .collect()
    }
}

/// 1, 2 or 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let decade = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * decade >= step)
        .unwrap_or(10.0);
    factor * decade
}

impl Chart {
    /// The `<svg>` element.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x_axis = Axis::new(points().map(|point| point.0), false);
        let y_axis = Axis::new(points().map(|point| point.1), true);
        let x = |value| LEFT + x_axis.place(value) * (WIDTH - LEFT - RIGHT);
        let y = |value| HEIGHT - BOTTOM - y_axis.place(value) * (HEIGHT - TOP - BOTTOM);
        let mut text = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
             <text x=\"{LEFT}\" y=\"14\">{}</text>\n\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\n",
            self.y_label,
            WIDTH - RIGHT,
            HEIGHT - 8.0,
            self.x_label
        );
        for tick in y_axis.ticks() {
            let place = y(tick);
            writeln!(
                text,
                "<path d=\"M{LEFT} {place:.1}H{:.0}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                place + 4.0,
                number(tick)
            )
            .ok();
        }
        let round = || x_axis.ticks().into_iter().map(|tick| (tick, number(tick)));
        let ticks: Vec<(f64, String)> = if self.x_ticks.is_empty() {
            round().collect()
        } else {
            self.x_ticks.clone()
        };
        for (tick, name) in ticks {
            if !(x_axis.low..=x_axis.high).contains(&tick) {
                continue;
            }
            let place = x(tick);
            writeln!(
                text,
                "<path d=\"M{place:.1} {TOP}V{:.0}\" stroke=\"#eee\"/>\
                 <text x=\"{place:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{name}</text>",
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 18.0
            )
            .ok();
        }
        let mut legend = LEFT;
        for Series {
            name,
            color,
            points,
        } in &self.series
        {
            let places: Vec<String> = points
                .iter()
                .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1)))
                .collect();
            writeln!(
                text,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\n\
                 <rect x=\"{legend:.0}\" y=\"22\" width=\"12\" height=\"4\" fill=\"{color}\"/>\
                 <text x=\"{:.0}\" y=\"29\">{name}</text>",
                places.join(" "),
                legend + 18.0
            )
            .ok();
            legend += 40.0 + 7.0 * name.len() as f64;
        }
        text + "</svg>\n"
    }
}

/// Without needless decimals.
fn number(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    format!("{rounded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(values: &[f64], is_vertical: bool) -> Axis {
        Axis::new(values.iter().copied(), is_vertical)
    }

    #[test]
    fn axes_fit_their_values() {
        assert_eq!(
            axis(&[2.0, 8.0], false).ticks(),
            [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
        );
        let log = axis(&[5.0, 2000.0], true);
        assert!(log.is_log);
        assert_eq!(
            log.ticks(),
            [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0]
        );
        assert_eq!((log.place(5.0), log.place(2000.0)), (0.0, 1.0));
        let linear = axis(&[5.0, 20.0], true);
        assert_eq!((linear.low, linear.high), (0.0, 20.0));
        for odd in [&[][..], &[3.0], &[3.0, 3.0], &[0.0, 0.0]] {
            assert!(axis(odd, true).place(3.0).is_finite(), "{odd:?}");
            assert!(axis(odd, false).ticks().len() < 20);
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(0.1 + 0.2), "0.3");
        assert_eq!(number(5.0), "5");
    }
}
