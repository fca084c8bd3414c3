//! A small text table: the first column to the left, all others to the right.

/// Lays out `rows`; the columns are two spaces apart, and a row may end early.
pub(crate) fn layout(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell_width =
        |row: &Vec<String>, column: usize| row.get(column).map_or(0, |cell| cell.chars().count());
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter()
                .map(|row| cell_width(row, column))
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if column == 0 {
                line += &format!("{cell:<width$}");
            } else {
                line += &format!("  {cell:>width$}");
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// A row of a table, from anything that can be shown.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}
pub(crate) use row;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            row!["", "p50", "p99"],
            row!["kernel", 9.5, 120],
            row!["x"],
            row![],
        ];
        let expected = "        p50  p99\nkernel  9.5  120\nx\n\n";
        assert_eq!(layout(&rows), expected);
        assert_eq!(layout(&[]), "");
    }
}
