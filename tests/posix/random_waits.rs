//! Random programs that wait with every call for sockets, pipes and eventfds in epoll sets that
//! change under traffic: what they are told equals what they are told by the kernel. `RANDOM_WAITS`
//! says how many programs, `RANDOM_WAITS_FIRST` with which to begin.

use std::env;
use std::path::Path;
use std::time::Duration;

use testkit::{Namespaces, Pair, Running, libvma_path, or_skip};

const PATIENCE: Duration = Duration::from_secs(600);
/// The kernel's descriptors are asked as often as ours, so that each call tells of all.
const SETTINGS: [(&str, &str); 4] = [
    ("VMA_SELECT_SKIP_OS", "1"),
    ("VMA_SELECT_POLL_OS_RATIO", "1"),
    ("VMA_RX_UDP_POLL_OS_RATIO", "1"),
    ("VMA_TRACELEVEL", "ERROR"),
];

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

struct Programs<'a> {
    pair: &'a Pair,
    program: &'a Path,
}

impl Programs<'_> {
    /// What so many programs say on the kernel, and with the library.
    fn run(&self, first: u64, count: u64, pause_usec: u32, more: &[&str]) -> [String; 2] {
        [false, true].map(|is_preloaded| {
            let mut command = if is_preloaded {
                let library = libvma_path().unwrap();
                let mut command = self.pair.b.preload(self.program, &library);
                command.envs(SETTINGS);
                command
            } else {
                self.pair.b.command(self.program)
            };
            command
                .arg(Path::new("/run/netns").join(self.pair.a.name()))
                .args([first, count].map(|it| it.to_string()))
                .arg(pause_usec.to_string())
                .args(more);
            let finished = Running::start(command).unwrap().wait(PATIENCE).unwrap();
            assert!(finished.status.success(), "{}", finished.stderr);
            finished.stdout
        })
    }
}

#[test]
fn random_programs_are_told_what_the_kernel_tells() {
    let (first, count) = (
        number("RANDOM_WAITS_FIRST", 0),
        number("RANDOM_WAITS", 1500),
    );
    are_told_the_same(first, count);
}

#[test]
#[ignore = "takes a minute"]
fn ten_thousand_random_programs_are_told_what_the_kernel_tells() {
    are_told_the_same(1_000_000, 10_000);
}

/// Compares so many programs, the first with this number.
fn are_told_the_same(first: u64, count: u64) {
    let pair = or_skip!(Namespaces::pair());
    let program = testkit::c_program("random_waits");
    let programs = Programs {
        pair: &pair,
        program: &program,
    };
    let [kernel, library] = programs.run(first, count, 20, &[]);
    let differ = kernel
        .lines()
        .zip(library.lines())
        .filter(|(kernel, library)| kernel != library);
    let seeds: Vec<u64> = differ
        .map(|(line, _)| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(kernel.lines().count() as u64, count);
    assert_eq!(library.lines().count() as u64, count);
    let mut differing = Vec::new();
    let mut first = None;
    for seed in seeds {
        // A busy CPU may have been late with the traffic.
        let [kernel, library] = programs.run(seed, 1, 3000, &["loud"]);
        if kernel != library {
            differing.push(seed);
            first.get_or_insert([kernel, library]);
        }
    }
    if let Some([kernel, library]) = first {
        let difference = testkit::difference(&kernel, &library);
        panic!("programs {differing:?}; the first one:\n{difference}");
    }
}
