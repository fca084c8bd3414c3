//! The tests of Python's standard library, of the modules that use sockets, as Debian packages
//! them.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use testkit::{needs, or_skip};

use super::judge::{Seen, Suite, judge};
use super::turned::Turned;

/// One module's.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Modules of Python, each a process of its own.
struct Modules(&'static [&'static str]);

/// Waits, sockets and streams themselves.
#[test]
#[ignore = "takes minutes"]
fn sockets() {
    const MODULES: &[&str] = &[
        "test_epoll",
        "test_poll",
        "test_select",
        "test_selectors",
        "test_socket",
        "test_socketserver",
        "test_ssl",
        "test_timeout",
    ];
    or_skip!(needs::require(&["python:test.test_socket"]));
    judge("Python's sockets", &Modules(MODULES), &[], 300);
}

#[test]
#[ignore = "takes minutes"]
fn asyncio() {
    or_skip!(needs::require(&["python:test.test_socket"]));
    judge("Python's asyncio", &Modules(&["test_asyncio"]), &[], 300);
}

/// Clients and servers of protocols.
#[test]
#[ignore = "takes minutes"]
fn protocols() {
    const MODULES: &[&str] = &[
        "test_asynchat",
        "test_asyncore",
        "test_docxmlrpc",
        "test_ftplib",
        "test_httplib",
        "test_httpservers",
        "test_imaplib",
        "test_logging",
        "test_nntplib",
        "test_poplib",
        "test_smtplib",
        "test_telnetlib",
        "test_urllib2_localnet",
        "test_wsgiref",
        "test_xmlrpc",
    ];
    or_skip!(needs::require(&["python:test.test_socket"]));
    judge("Python's protocols", &Modules(MODULES), &[], 300);
}

impl Suite for Modules {
    fn run(&self, turned: &Turned, with: bool, names: Option<&[String]>) -> Seen {
        let mut seen = Seen::default();
        for module in self.0 {
            let is_of_it = |name: &&String| name.starts_with(&format!("test.{module}."));
            let names: Option<Vec<_>> = names.map(|names| names.iter().filter(is_of_it).collect());
            if names.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let results = results_file(module, with);
            drop(fs::remove_file(&results));
            let mut command = turned.command("/usr/bin/python3", with);
            // The network of the link. Those over VSOCK end nowhere.
            command
                .args([
                    "-m",
                    "test",
                    "-u",
                    "network",
                    "-i",
                    "*VSOCK*",
                    "-v",
                    "--junit-xml",
                ])
                .arg(&results)
                .args(names.iter().flatten().flat_map(|name| ["-m", name]))
                .arg(module);
            let printed = turned.run(command, TIMEOUT);
            let results = fs::read_to_string(&results).unwrap_or_default();
            seen.passed.extend(outcomes(&results));
            if !printed.is_good {
                seen.words += &format!("--- {module}\n{}\n", printed.all);
            }
        }
        seen
    }
}

fn results_file(module: &str, with: bool) -> PathBuf {
    let end = if with { "library" } else { "kernel" };
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{module}.{end}.xml"))
}

/// The names of the tests that were not skipped, and whether each passed.
fn outcomes(results: &str) -> impl Iterator<Item = (String, bool)> {
    results
        .split("<testcase name=\"")
        .skip(1)
        .filter_map(|test| {
            let name = test.split('"').next()?;
            let is_skipped = test.contains("<skipped");
            let failed = test.contains("<failure") || test.contains("<error");
            (!is_skipped).then(|| (name.to_owned(), !failed))
        })
}

#[test]
fn results_say_how_each_test_ended() {
    let results = r#"<testsuite><testcase name="a" status="run" /><testcase name="b"><skipped>no</skipped></testcase>
        <testcase name="c"><failure type="x">f</failure></testcase><testcase name="d" /></testsuite>"#;
    let seen: Vec<_> = outcomes(results).collect();
    let expected = [("a", true), ("c", false), ("d", true)];
    assert_eq!(
        seen,
        expected.map(|(name, passed)| (name.to_owned(), passed))
    );
}
