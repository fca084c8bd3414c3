//! The median of a few rounds.

/// The middle value, or the mean of the two in the middle; NaN of nothing.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.len().is_multiple_of(2), values.get(middle)) {
        (false, Some(&value)) => value,
        (true, Some(&value)) => (values[middle - 1] + value) / 2.0,
        (_, None) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_do_not_move_the_median() {
        assert_eq!(median([3.0, 1.0, 900.0, 2.0, 2.5]), 2.5);
        assert_eq!(median([4.0, 1.0, 2.0, 900.0]), 3.0);
        assert_eq!(median([7.0]), 7.0);
        assert!(median([]).is_nan());
    }
}
