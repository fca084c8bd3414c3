//! `cargo xtask fuzz`: every target of `fuzz/targets`, guided by coverage, for a while each.
//!
//! The stable compiler inserts the counters that libFuzzer reads; a C++ compiler builds libFuzzer
//! itself. Seeds are in `fuzz/corpus`, words that random changes would hardly hit on in
//! `fuzz/dictionaries`; what a run finds beside them stays in cargo's target directory, where the
//! next run begins with it.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::iter;
use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::cargo;
use crate::failure::Failure;
use crate::needs::Whom;
use crate::output::say;
use crate::process::{self, Read};
use crate::setup;

/// Counters for each edge of the program, their places, and what comparisons compare: what
/// libFuzzer asks of a compiler.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";
/// An input that takes longer, in seconds, is a failure.
const INPUT_SEC_MAX: u32 = 20;
const INPUT_BYTES_MAX: u32 = 1024;
/// Lines of a failed run that are shown: the stack and the input.
const LINES_SHOWN: usize = 60;

/// The targets that run with the release build of libvma.so preloaded, which has no counters.
const PRELOADED: [&str; 3] = ["preloaded", "extra", RINGS];
/// That of them which is a program of SocketXtreme.
const RINGS: &str = "extra_rings";

/// How long a target runs unless told otherwise, in seconds. That of TCP has whole connections to
/// find its way through, that of the statistics a segment.
fn default_seconds(target: &str) -> u32 {
    match target {
        "tcp" | "segment" => 30,
        // Its inputs are not guided by the library's coverage.
        _ if PRELOADED.contains(&target) => 5,
        _ => 12,
    }
}

/// Installs what is missing and runs, each target for `seconds` or else for its own time.
pub(crate) fn run(seconds: Option<u32>) -> Result<(), Failure> {
    setup::ensure(Whom::Testing)?;
    say(run_targets(seconds)?);
    Ok(())
}

/// As [`run`], with everything installed; also after a target has failed. Says how many inputs were
/// tried.
pub(crate) fn run_targets(seconds: Option<u32>) -> Result<String, Failure> {
    let directory = cargo::workspace().join("fuzz");
    let mut format = cargo::command(&["fmt", "--check"]);
    format.current_dir(&directory);
    process::run(format)?;
    let target_directory = cargo::target_directory().join("fuzz");
    let programs = cargo::built_by(build()?)?;
    cargo::release_library()?;
    let targets = targets(&directory)?;
    let run = |target: &String| {
        let program = programs.path(target)?;
        let seconds = seconds.unwrap_or_else(|| default_seconds(target));
        run_target(target, program, &directory, &target_directory, seconds)
    };
    let mut failed = Vec::new();
    let mut summary = Vec::new();
    for (target, result) in targets.iter().zip(on_all_cpus(&targets, run)) {
        match result {
            Ok(inputs) => summary.push(format!("{target}: {inputs} inputs")),
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(failure) => {
                say(&failure);
                failed.push(target.as_str());
            }
        }
    }
    if failed.is_empty() {
        Ok(summary.join(", "))
    } else {
        Err(Failure::Reason(format!(
            "found something: {}",
            failed.join(", ")
        )))
    }
}

/// What `work` makes of each item, as many at a time as there are CPUs.
fn on_all_cpus<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let worker = || {
        let take = || {
            let index = next.fetch_add(1, Ordering::Relaxed);
            Some((index, items.get(index)?))
        };
        let done = iter::from_fn(take).map(|(index, item)| (index, work(item)));
        done.collect::<Vec<_>>()
    };
    let mut done = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let join =
            |worker: thread::ScopedJoinHandle<'_, _>| worker.join().expect("it has no panic");
        workers.into_iter().flat_map(join).collect::<Vec<_>>()
    });
    done.sort_unstable_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The names of the targets: what is a source file there.
fn targets(directory: &Path) -> Result<Vec<String>, Failure> {
    let mut targets: Vec<String> = fs::read_dir(directory.join("targets"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    targets.sort_unstable();
    Ok(targets)
}

/// The command that builds all targets.
pub(crate) fn build() -> Result<Command, Failure> {
    let manifest = cargo::workspace().join("fuzz/Cargo.toml");
    let target_directory = cargo::target_directory().join("fuzz");
    let [manifest, target_directory] =
        [manifest, target_directory].map(|path| path.to_string_lossy().into_owned());
    let host = host()?;
    // Naming the target keeps the counters out of build scripts.
    let mut command = cargo::command(&[
        "build",
        "--release",
        "--locked",
        "--bins",
        "--manifest-path",
        &manifest,
        "--target-dir",
        &target_directory,
        "--target",
        &host,
    ]);
    command.env("RUSTFLAGS", COVERAGE);
    Ok(command)
}

/// The compiler's own target.
fn host() -> Result<String, Failure> {
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).arg("-vV").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| Failure::new("rustc -vV does not name the host"))
}

/// Runs one target; the number of inputs it tried.
fn run_target(
    target: &str,
    program: &Path,
    directory: &Path,
    target_directory: &Path,
    seconds: u32,
) -> Result<u64, Failure> {
    say(format_args!("fuzzing {target} for {seconds} s"));
    let found = target_directory.join("found").join(target);
    let seeds = directory.join("corpus").join(target);
    fs::create_dir_all(&found)?;
    if fs::read_dir(&seeds).map_or(0, Iterator::count) == 0 {
        return Err(Failure::Reason(format!(
            "{target}: no seeds in {}",
            seeds.display()
        )));
    }
    let mut prefix = OsString::from("-artifact_prefix=");
    prefix.push(target_directory.join(format!("{target}-")));
    let dictionary = directory.join("dictionaries").join(target);
    let mut words = OsString::from("-dict=");
    words.push(&dictionary);
    let mut command = Command::new(program);
    command
        .args([
            format!("-max_total_time={seconds}"),
            format!("-timeout={INPUT_SEC_MAX}"),
            format!("-max_len={INPUT_BYTES_MAX}"),
            "-rss_limit_mb=2048".to_owned(),
            "-print_final_stats=1".to_owned(),
        ])
        .args(dictionary.is_file().then_some(words))
        .arg(prefix)
        .args([&found, &seeds])
        .env_remove("LD_PRELOAD");
    if PRELOADED.contains(&target) {
        let library = cargo::target_directory().join("release/libvma.so");
        command
            .env("LD_PRELOAD", library)
            .env("VMA_TRACELEVEL", "error")
            // It looks at once whether its sockets are past the kernel.
            .env("VMA_OPEN_WAIT_MSEC", "60000")
            .envs((target == RINGS).then_some(("VMA_SOCKETXTREME", "1")));
    }
    let mut inputs = 0;
    let mut lines = VecDeque::new();
    let status = process::run_reading(command, Read::StdoutAndStderr, |line| {
        inputs = executed(line).unwrap_or(inputs);
        lines.push_back(line.to_owned());
        if lines.len() > LINES_SHOWN {
            lines.pop_front();
        }
    })?;
    if !status.success() {
        lines.iter().for_each(say);
        return Err(Failure::Reason(format!(
            "{target} ended with {status}; to try the input again: {} <the file above>",
            program.display()
        )));
    }
    if inputs == 0 {
        return Err(Failure::Reason(format!("{target} tried nothing")));
    }
    Ok(inputs)
}

/// The number of inputs, in libFuzzer's final statistics.
fn executed(line: &str) -> Option<u64> {
    let number = line.strip_prefix("stat::number_of_executed_units:")?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the help and README.md say is what happens.
    #[test]
    fn the_times_are_those_that_are_told() {
        let told = |text: &str| {
            let text = text.replace(['`', '\n'], " ");
            let words: Vec<_> = text.split_whitespace().collect();
            let text = words.join(" ");
            for target in ["tcp", "segment"].into_iter().chain(PRELOADED) {
                let time = default_seconds(target).to_string();
                let at = text.find(&format!(" {time} for ")).expect(&time);
                assert!(text[at..].contains(target), "{target}: {text}");
            }
            text.contains(&format!(" {} ", default_seconds("other")))
                || text.contains(&format!(" {}, ", default_seconds("other")))
        };
        let readme = fs::read_to_string(cargo::workspace().join("README.md")).unwrap();
        let line = |line: &&str| line.contains("xtask fuzz");
        assert!(told(readme.lines().find(line).unwrap()));
        let help = crate::arguments::USAGE;
        let help = &help[help.find("fuzz [--seconds").unwrap()..];
        assert!(told(help.split("\n  bench").next().unwrap()));
    }

    #[test]
    fn every_target_is_built_and_has_seeds() {
        let directory = cargo::workspace().join("fuzz");
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let targets = targets(&directory).unwrap();
        assert!(targets.contains(&"conf".to_owned()));
        // The one with a time of its own.
        assert!(targets.contains(&"tcp".to_owned()));
        for target in targets {
            assert!(
                manifest.contains(&format!("path = \"targets/{target}.rs\"")),
                "{target} has no [[bin]]"
            );
            let seeds = fs::read_dir(directory.join("corpus").join(&target));
            assert!(seeds.unwrap().count() > 0, "{target} has no seeds");
        }
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..50).collect();
        let doubled = on_all_cpus(&items, |&item| {
            thread::sleep(std::time::Duration::from_micros(500 - 10 * item));
            2 * item
        });
        assert_eq!(
            doubled,
            items.iter().map(|item| 2 * item).collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_final_statistics_tell_the_number_of_inputs() {
        let line = "stat::number_of_executed_units: 168986";
        assert_eq!(executed(line), Some(168_986));
        assert_eq!(executed("stat::average_exec_per_sec: 5"), None);
    }
}
