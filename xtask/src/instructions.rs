//! `cargo xtask instructions`: how many instructions the TCP engine takes for its common work,
//! compared with a committed table. Unlike times, the counts are the same in each run and on a busy
//! machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo;
use crate::failure::Failure;
use crate::needs;
use crate::output::{print, say};
use crate::process::{self, Read};
use crate::table::{layout, row};

/// Segments, or what else the case counts per.
const ROUNDS: u32 = 2000;

/// By how much a count may differ from the table's before anybody has to know.
const TOLERANCE_PERCENT: f64 = 2.0;

/// Why nothing can be counted on this machine.
pub(crate) fn missing() -> Option<&'static str> {
    (!needs::has("valgrind")).then_some("valgrind is not installed (cargo xtask setup)")
}

/// Counts, and shows the counts or writes them into the table.
pub(crate) fn run(update: bool) -> Result<(), Failure> {
    if let Some(reason) = missing() {
        return Err(Failure::new(reason));
    }
    if !update {
        return print(&check()?);
    }
    let counts = count_all()?;
    let table = Table::read()?;
    fs::write(table_path(), table.updated(&counts))?;
    say(format_args!("{} is current", table_path().display()));
    Ok(())
}

/// Fails if a count differs from the table, or is above what is required there.
pub(crate) fn check() -> Result<String, Failure> {
    let counts = count_all()?;
    let table = Table::read()?;
    say(table.report(&counts));
    let wrong = table.judge(&counts);
    if wrong.is_empty() {
        return Ok(format!("{} cases", counts.len()));
    }
    Err(Failure::Reason(wrong))
}

fn table_path() -> PathBuf {
    cargo::workspace().join("crates/tcp/benches/instructions.txt")
}

type Counts = BTreeMap<String, f64>;

/// The command that builds the cases.
pub(crate) fn build() -> Command {
    cargo::command(&[
        "bench",
        "--no-run",
        "--package",
        "tcp",
        "--bench",
        "instructions",
    ])
}

/// Builds the cases and counts each.
fn count_all() -> Result<Counts, Failure> {
    let artifacts = cargo::built_by(build())?;
    let program = artifacts.path("instructions")?;
    let mut cases = Vec::new();
    let list = || Command::new(program);
    let status = process::run_reading(list(), Read::Stdout, |line| cases.push(line.to_owned()))?;
    process::success(&list(), status)?;
    if cases.is_empty() {
        return Err(Failure::new("the benchmark has no cases"));
    }
    cases
        .into_iter()
        .map(|case| count(program, &case).map(|count| (case, count)))
        .collect()
}

/// Instructions per round of one case.
fn count(program: &Path, case: &str) -> Result<f64, Failure> {
    let command = || {
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .args([
                "--collect-atstart=no",
                "--toggle-collect=*instructions::counted*",
            ])
            .arg(program)
            .args([case, &ROUNDS.to_string()]);
        command
    };
    let mut total = None;
    let mut output = String::new();
    let status = process::run_reading(command(), Read::StdoutAndStderr, |line| {
        total = total.or_else(|| collected(line));
        output += &format!("{line}\n");
    })?;
    process::success(&command(), status).inspect_err(|_| say(&output))?;
    match total {
        // Nothing is collected if the function that callgrind waits for has another name.
        Some(total @ 1..) => Ok(total as f64 / f64::from(ROUNDS)),
        Some(0) | None => Err(Failure::Reason(format!(
            "{case}: callgrind counted nothing"
        ))),
    }
}

/// The number of callgrind's line `==PID== Collected : 123`.
fn collected(line: &str) -> Option<u64> {
    let (_, number) = line.split_once("Collected : ")?;
    number.trim().parse().ok()
}

/// The committed table: lines of a case, its count, and what is required of it, if anything. `#`
/// begins a comment.
#[derive(Debug)]
struct Table {
    text: String,
}

struct Entry<'a> {
    case: &'a str,
    count: f64,
    required: Option<f64>,
}

impl Table {
    fn read() -> Result<Self, Failure> {
        let text = fs::read_to_string(table_path())?;
        Ok(Self { text })
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.text.lines().filter_map(entry)
    }

    /// What is wrong, in words; nothing if nothing is.
    fn judge(&self, counts: &Counts) -> String {
        let mut wrong = String::new();
        for Entry {
            case,
            count: known,
            required,
        } in self.entries()
        {
            let Some(count) = counts.get(case) else {
                wrong += &format!("{case} is in the table, but there is no such case\n");
                continue;
            };
            if let Some(most) = required.filter(|most| count > most) {
                wrong += &format!("{case} takes {count:.0}, and {most} are allowed\n");
            }
            let change = (count / known - 1.0) * 100.0;
            if change > TOLERANCE_PERCENT {
                wrong += &format!("{case} grew by {change:.1} %, from {known} to {count:.0}\n");
            } else if change < -TOLERANCE_PERCENT {
                wrong += &format!(
                    "{case} shrank by {:.1} %, from {known} to {count:.0}: keep that with `cargo xtask instructions --update`\n",
                    -change
                );
            }
        }
        for case in counts.keys() {
            if self.entries().all(|entry| entry.case != case) {
                wrong += &format!("{case} is not in the table\n");
            }
        }
        wrong
    }

    fn report(&self, counts: &Counts) -> String {
        let mut rows = vec![row!["instructions", "counted", "table", "required"]];
        for entry in self.entries() {
            let count = counts.get(entry.case).map(|count| format!("{count:.0}"));
            let required = entry.required.map_or_else(String::new, |most| {
                let is_met = counts.get(entry.case).is_some_and(|count| *count <= most);
                format!("{most} {}", if is_met { "(met)" } else { "(NOT met)" })
            });
            rows.push(row![
                entry.case,
                count.unwrap_or_default(),
                entry.count,
                required
            ]);
        }
        layout(&rows)
    }

    /// The table with these counts; comments and requirements stay.
    fn updated(&self, counts: &Counts) -> String {
        let mut text = String::new();
        let mut left: Vec<&String> = counts.keys().collect();
        for line in self.text.lines() {
            let Some(entry) = entry(line) else {
                text += &format!("{line}\n");
                continue;
            };
            if let Some(count) = counts.get(entry.case) {
                left.retain(|case| *case != entry.case);
                text += &line_of(entry.case, *count, entry.required);
            }
        }
        for case in left {
            text += &line_of(case, counts.get(case).copied().unwrap_or_default(), None);
        }
        text
    }
}

fn line_of(case: &str, count: f64, required: Option<f64>) -> String {
    let required = required.map_or_else(String::new, |most| format!("  {most}"));
    format!("{case:<20}  {count:>6.0}{required}\n")
}

/// `None` for a comment or an empty line, and for what is no entry: its case is then missing, which
/// is noticed.
fn entry(line: &str) -> Option<Entry<'_>> {
    let mut words = line.split_whitespace();
    let case = words.next().filter(|word| !word.starts_with('#'))?;
    let count = words.next()?.parse().ok()?;
    let required = words.next().and_then(|word| word.parse().ok());
    Some(Entry {
        case,
        count,
        required,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let text = "# case count required\nsend 100 120\n\nreceive  200\n".to_owned();
        Table { text }
    }

    fn counts(send: f64, receive: f64) -> Counts {
        [("send".to_owned(), send), ("receive".to_owned(), receive)].into()
    }

    #[test]
    fn growth_fails_and_shrinking_wants_to_be_kept() {
        assert_eq!(table().judge(&counts(101.9, 196.1)), "");
        let wrong = table().judge(&counts(102.1, 195.0));
        assert!(
            wrong.contains("send grew by 2.1 %, from 100 to 102"),
            "{wrong}"
        );
        assert!(
            wrong.contains("receive shrank by 2.5 %") && wrong.contains("--update"),
            "{wrong}"
        );
    }

    #[test]
    fn what_is_required_is_not_exceeded_even_if_the_table_says_so() {
        let text = "send 125 120\nreceive 200\n".to_owned();
        let wrong = Table { text }.judge(&counts(125.0, 200.0));
        assert_eq!(wrong, "send takes 125, and 120 are allowed\n");
    }

    #[test]
    fn table_and_cases_are_the_same() {
        let mut counts = counts(100.0, 200.0);
        counts.insert("close".to_owned(), 5.0);
        counts.remove("send");
        let wrong = table().judge(&counts);
        assert!(wrong.contains("close is not in the table"), "{wrong}");
        assert!(wrong.contains("send is in the table"), "{wrong}");
    }

    #[test]
    fn an_update_keeps_comments_and_requirements() {
        let updated = table().updated(&counts(130.0, 190.4));
        assert_eq!(
            updated,
            "# case count required\nsend                     130  120\n\nreceive                  190\n"
        );
        let report = Table { text: updated }.report(&counts(130.0, 190.4));
        assert!(report.contains("120 (NOT met)"), "{report}");
    }

    #[test]
    fn callgrind_says_what_it_collected() {
        assert_eq!(collected("==12== Collected : 2225473"), Some(2_225_473));
        assert_eq!(collected("==12== Events    : Ir"), None);
    }
}
