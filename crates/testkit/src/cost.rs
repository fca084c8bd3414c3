//! What one run of `tests/c/many.c` costs.

/// CPU time in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// To open all.
    pub open: f64,
    /// In a second while nothing happens.
    pub idle: f64,
    /// To close all.
    pub close: f64,
}

impl Cost {
    /// As the program prints it.
    pub fn parse(output: &str) -> Option<Self> {
        let numbers: Result<Vec<f64>, _> = output.split_whitespace().map(str::parse).collect();
        match numbers.ok()?[..] {
            [open, idle, close] => Some(Self { open, idle, close }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_have_to_be_there() {
        let cost = Cost::parse("12 3.5 7\n").unwrap();
        assert_eq!((cost.open, cost.idle, cost.close), (12.0, 3.5, 7.0));
        for output in ["", "12 3", "12 3 x", "1 2 3 4"] {
            assert!(Cost::parse(output).is_none(), "{output}");
        }
    }
}
