//! libuv's tests, of Debian's source package. Each is a process of its own, and so is each server
//! that it asks for.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use testkit::{Skip, needs, or_skip};

use super::judge::{Known, Seen, Suite, judge};
use super::sources::{said, source};
use super::turned::Turned;

const TIMEOUT: Duration = Duration::from_secs(280);

const KNOWN: &[Known] = &[(
    "emfile",
    "takes all descriptors up to the limit, of which the library has some",
)];

struct Libuv {
    source: PathBuf,
}

#[test]
#[ignore = "fetches and builds another library"]
fn libuv() {
    let source = or_skip!(build());
    judge("libuv", &Libuv { source }, KNOWN, 100);
}

fn build() -> Result<PathBuf, Skip> {
    needs::require(&["cmake", "make"])?;
    let source = source("libuv1")?;
    let cmake = |arguments: &[&str]| {
        let mut command = Command::new("cmake");
        said(
            command
                .env("PATH", needs::PATH)
                .current_dir(&source)
                .args(arguments),
        )
    };
    cmake(&["-B", "built", "-S", "."])?;
    cmake(&[
        "--build",
        "built",
        "--parallel",
        "2",
        "--target",
        "uv_run_tests",
    ])?;
    Ok(source)
}

impl Suite for Libuv {
    const SIDE_BY_SIDE: bool = false;

    fn run(&self, turned: &Turned, with: bool, names: Option<&[String]>) -> Seen {
        let run = |name: &[String]| {
            let mut command = turned.command(self.source.join("built/uv_run_tests"), with);
            // They look for their files here, and leave some.
            command
                .current_dir(&self.source)
                .env("UV_RUN_AS_ROOT", "1")
                .args(name);
            turned.run(command, TIMEOUT)
        };
        let printed = match names {
            None => vec![run(&[])],
            Some(names) => names.iter().map(std::slice::from_ref).map(run).collect(),
        };
        let mut seen = Seen::default();
        for printed in printed {
            seen.passed.extend(outcomes(&printed.stdout));
            seen.words += &failures(&printed.all);
        }
        seen
    }
}

/// What the Test Anything Protocol says of each test that was not skipped.
fn outcomes(printed: &str) -> impl Iterator<Item = (String, bool)> {
    let test = |line: &str| {
        let (passed, rest) = match line.strip_prefix("not ") {
            Some(rest) => (false, rest),
            None => (true, line),
        };
        let (_, name) = rest.strip_prefix("ok ")?.split_once(" - ")?;
        (!name.contains(" # SKIP")).then(|| (name.to_owned(), passed))
    };
    printed.lines().filter_map(test)
}

/// The lines of those that did not pass.
fn failures(printed: &str) -> String {
    let mut is_of_one = false;
    let mut lines = String::new();
    for line in printed.lines() {
        is_of_one = line.starts_with("not ok ") || is_of_one && !line.starts_with("ok ");
        if is_of_one {
            lines += &format!("{line}\n");
        }
    }
    lines
}

#[test]
fn lines_say_how_each_test_ended() {
    let printed =
        "1..3\nok 1 - a\n# words\nnot ok 2 - b\n# exit code 6\nok 3 - c # SKIP not here\n";
    let seen: Vec<_> = outcomes(printed).collect();
    assert_eq!(seen, [("a".to_owned(), true), ("b".to_owned(), false)]);
    assert_eq!(failures(printed), "not ok 2 - b\n# exit code 6\n");
}
