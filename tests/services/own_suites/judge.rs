//! What a suite says with the library it says on the kernel.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::thread;

use testkit::or_skip;

use super::turned::Turned;

/// A test's name and why it fails with the library, which docs/differences.md tells.
pub(crate) type Known = (&'static str, &'static str);

/// What a run of a suite showed.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Whether each test passed; those that were skipped are not here.
    pub(crate) passed: BTreeMap<String, bool>,
    /// What the tests printed that did not pass.
    pub(crate) words: String,
}

/// A suite that runs by itself.
pub(crate) trait Suite: Sync {
    /// Two runs at a time do not meet, in files or anywhere else.
    const SIDE_BY_SIDE: bool = true;

    /// Runs all tests, or those of these names, with the library or without.
    fn run(&self, turned: &Turned, with: bool, names: Option<&[String]>) -> Seen;
}

/// Runs a suite with the library and, on another link, without. A test that fails only with it is
/// run once more, alone.
///
/// # Panics
///
/// If one fails then, too, and is not known to; or if fewer than `ours_min` sockets passed the
/// kernel.
pub(crate) fn judge<S: Suite>(name: &str, suite: &S, known: &[Known], ours_min: usize) {
    let links = [or_skip!(Turned::new()), or_skip!(Turned::new())];
    let run = &|with: bool| suite.run(&links[usize::from(with)], with, None);
    let [bare, with] = match S::SIDE_BY_SIDE {
        true => thread::scope(|scope| {
            let runs = [false, true].map(|with| scope.spawn(move || run(with)));
            runs.map(|run| run.join().unwrap())
        }),
        false => [false, true].map(run),
    };
    let ours = links[1].take_ours();
    let failed = |seen: &Seen, test: &String| !seen.passed.get(test).copied().unwrap_or(false);
    let is_known = |test: &String| known.iter().any(|(known, _)| known == test);
    let (good, bad): (Vec<_>, Vec<_>) = bare.passed.iter().partition(|(_, passed)| **passed);
    let names = |tests: Vec<(&String, &bool)>| -> Vec<String> {
        tests.into_iter().map(|(test, _)| test.clone()).collect()
    };
    let (good, bad) = (names(good), names(bad));
    let suspects: Vec<_> = good
        .iter()
        .filter(|test| failed(&with, test) && !is_known(test))
        .cloned()
        .collect();
    let mut wrong = String::new();
    let mut once = Vec::new();
    for test in suspects {
        let again = suite.run(&links[1], true, Some(std::slice::from_ref(&test)));
        if failed(&again, &test) {
            writeln!(wrong, "=== {test}\n{}", again.words).unwrap();
        } else {
            once.push(test);
        }
    }
    let said = format!(
        "{name}: {} tests pass on the kernel, and with {ours} sockets past it; on the kernel fail, too: {bad:?}; passed only alone: {once:?}\n",
        good.len()
    );
    drop(std::io::stderr().write_all(said.as_bytes()));
    assert!(
        wrong.is_empty(),
        "{name}, only with the library:\n{wrong}\nin the whole run:\n{}",
        with.words
    );
    assert!(
        ours >= ours_min,
        "{name}: only {ours} sockets passed the kernel"
    );
}
