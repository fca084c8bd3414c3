//! Progress output every so many messages (`-a`, `-A`).

use crate::options;
use crate::sys::clock::Clock;
use crate::terminal::Output;

/// Counts messages and prints when it is time.
#[derive(Debug)]
pub struct Activity {
    kind: options::Activity,
    until_print: u64,
    total: u64,
    last_nsec: u64,
    lines: u64,
}

impl Activity {
    /// Starts counting at `now_nsec`.
    pub fn new(kind: options::Activity, now_nsec: u64) -> Self {
        let until_print = match kind {
            options::Activity::Off => u64::MAX,
            options::Activity::Dots(every) | options::Activity::Rates(every) => every,
        };
        Self {
            kind,
            until_print,
            total: 0,
            last_nsec: now_nsec,
            lines: 0,
        }
    }

    /// Counts one message.
    #[inline]
    pub fn count(&mut self, clock: &Clock, output: &mut Output) {
        self.until_print -= 1;
        if self.until_print == 0 {
            self.print(clock.now_nsec(), output);
        }
    }

    /// Ends the line of dots.
    pub fn finish(self, output: &mut Output) {
        if self.total > 0 && matches!(self.kind, options::Activity::Dots(_)) {
            output.write("\n");
        }
    }

    #[cold]
    fn print(&mut self, now_nsec: u64, output: &mut Output) {
        match self.kind {
            options::Activity::Off => self.until_print = u64::MAX,
            options::Activity::Dots(every) => {
                self.until_print = every;
                self.total += every;
                output.write(".");
            }
            options::Activity::Rates(every) => {
                self.until_print = every;
                self.total += every;
                if self.lines.is_multiple_of(LINES_PER_HEADING) {
                    output.write(HEADING);
                }
                self.lines += 1;
                let interval_nsec = now_nsec.saturating_sub(self.last_nsec).max(1);
                self.last_nsec = now_nsec;
                output.write(&rate_line(interval_nsec, every, self.total));
            }
        }
    }
}

fn rate_line(interval_nsec: u64, messages: u64, total: u64) -> String {
    let rate = u128::from(messages) * 1_000_000_000 / u128::from(interval_nsec);
    format!(
        " {:>10} [usec]    {rate:>10} [msg/s]    {total:>13} [msg]\n",
        interval_nsec / 1000
    )
}

const LINES_PER_HEADING: u64 = 20;
const HEADING: &str = "    -- Interval --     -- Message Rate --  -- Total Message Count --\n";

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::terminal::Style;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn text_of(kind: options::Activity, messages: u64) -> String {
        let shared = Shared::default();
        let mut output = Output::new(Box::new(shared.clone()), Style::PLAIN);
        let clock = Clock::monotonic();
        let mut activity = Activity::new(kind, clock.now_nsec());
        (0..messages).for_each(|_| activity.count(&clock, &mut output));
        activity.finish(&mut output);
        let bytes = shared.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn dots_every_n_messages_end_with_a_newline() {
        assert_eq!(text_of(options::Activity::Dots(3), 10), "...\n");
        assert_eq!(text_of(options::Activity::Dots(3), 2), "");
    }

    #[test]
    fn off_prints_nothing() {
        assert_eq!(text_of(options::Activity::Off, 100), "");
    }

    #[test]
    fn rates_repeat_the_heading_every_20_lines() {
        let text = text_of(options::Activity::Rates(2), 42);
        assert_eq!(text.lines().count(), 23);
        assert_eq!(text.matches("-- Message Rate --").count(), 2);
        assert!(
            text.lines()
                .last()
                .unwrap()
                .ends_with("            42 [msg]"),
            "{text}"
        );
    }

    #[test]
    fn rate_line_has_the_columns_of_the_original() {
        assert_eq!(
            rate_line(199_023_000, 200, 200),
            "     199023 [usec]          1004 [msg/s]              200 [msg]\n"
        );
    }
}
