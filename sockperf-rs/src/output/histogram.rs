//! The two forms of the histogram of `--histogram`: bars for the terminal, a table for the full
//! log.

use crate::measure::bins::Row;
use crate::options::BinOptions;
use crate::terminal::Style;

/// Bars that fit into `columns` columns.
pub fn bars(rows: &[Row], columns: usize, style: Style) -> String {
    let from_width = rows
        .iter()
        .map(|row| row.from_usec.to_string().len())
        .max()
        .unwrap_or(1);
    let to_width = rows
        .iter()
        .map(|row| row.to_usec.to_string().len())
        .max()
        .unwrap_or(1);
    let bar_len_max = columns.saturating_sub(MARGIN).max(BAR_LEN_MIN);
    let inner = rows.iter().filter(|row| !row.is_outlier);
    let largest = inner.map(|row| row.count).max().unwrap_or(0);
    let samples_per_mark = largest.div_ceil(bar_len_max as u64).max(1);
    let mut text = match samples_per_mark {
        1 => "sockperf: [Histogram] Display to scale\n".to_owned(),
        samples => format!(
            "sockperf: [Histogram] Display scaled to fit on screen (Key: '#' = up to {samples} \
             samples)\n"
        ),
    };
    let heading_indent = bar_len_max / 2 - 3;
    text += &format!("sockperf:  bins{:heading_indent$}frequency\n", "");
    for row in rows {
        let label = format!("{:>from_width$}-{:<to_width$}", row.from_usec, row.to_usec);
        let bar = if row.is_outlier {
            style.highlight("# (outliers)")
        } else {
            // At most bar_len_max.
            "#".repeat(usize::try_from(row.count.div_ceil(samples_per_mark)).unwrap_or(0))
        };
        text += &format!("sockperf: {label}  {bar}\n");
    }
    text
}

/// A table of all counts, between rulers.
pub fn table(rows: &[Row], options: BinOptions) -> String {
    let BinOptions {
        bin_usec,
        lower_usec,
        upper_usec,
    } = options;
    let mut text = format!(
        "histogram was built using the following parameters: --h_bin_size_us={bin_usec} \
         --h_lower_range_us={lower_usec} --h_upper_range_us={upper_usec}\n{RULER}\
         bin (usec)            frequency\n"
    );
    for row in rows {
        let label = if row.is_outlier {
            format!("{}-{}", row.from_usec, row.to_usec)
        } else {
            row.from_usec.to_string()
        };
        text += &format!("{label:<26}{}\n", row.count);
    }
    text + RULER
}

/// Separates the parts of a full log.
pub const RULER: &str = "------------------------------\n";

/// Columns left free beside the bars.
const MARGIN: usize = 30;
const BAR_LEN_MIN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |from_usec, to_usec, count, is_outlier| Row {
            from_usec,
            to_usec,
            count,
            is_outlier,
        };
        vec![
            row(5, 6, 1, true),
            row(6, 8, 3879, false),
            row(8, 10, 21_210, false),
            row(10, 12, 3333, false),
            row(30, 430, 15, true),
        ]
    }

    #[test]
    fn bars_are_scaled_to_the_terminal() {
        let expected = format!(
            "sockperf: [Histogram] Display scaled to fit on screen (Key: '#' = up to 303 samples)\n\
             sockperf:  bins                                frequency\n\
             sockperf:  5-6    # (outliers)\n\
             sockperf:  6-8    #############\n\
             sockperf:  8-10   {}\n\
             sockperf: 10-12   ###########\n\
             sockperf: 30-430  # (outliers)\n",
            "#".repeat(70)
        );
        assert_eq!(bars(&rows(), 100, Style::PLAIN), expected);
    }

    #[test]
    fn few_samples_are_to_scale() {
        let rows = [Row {
            from_usec: 1,
            to_usec: 2,
            count: 3,
            is_outlier: false,
        }];
        let text = bars(&rows, 80, Style::PLAIN);
        assert!(
            text.starts_with("sockperf: [Histogram] Display to scale\n"),
            "{text}"
        );
        assert!(text.ends_with("sockperf: 1-2  ###\n"), "{text}");
    }

    #[test]
    fn narrow_terminals_and_no_rows_are_no_problem() {
        assert!(
            bars(
                &rows(),
                0,
                Style {
                    colour: true,
                    strict: false,
                }
            )
            .contains("\x1b[2;35m# (outliers)\x1b[0m")
        );
        assert!(bars(&[], 80, Style::PLAIN).contains("Display to scale"));
    }

    #[test]
    fn table_has_the_columns_of_the_original() {
        let options = BinOptions {
            bin_usec: 2,
            lower_usec: 6,
            upper_usec: 30,
        };
        assert_eq!(
            table(&rows(), options),
            "histogram was built using the following parameters: --h_bin_size_us=2 \
             --h_lower_range_us=6 --h_upper_range_us=30\n\
             ------------------------------\n\
             bin (usec)            frequency\n\
             5-6                       1\n\
             6                         3879\n\
             8                         21210\n\
             10                        3333\n\
             30-430                    15\n\
             ------------------------------\n"
        );
    }
}
