//! What killed processes leave, on a card that a test plays.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::super::Rules;
use super::super::tests::{TestCard, flow};
use super::*;
use dev_core::{Flow, Protocol};
use testkit::eventually;

const INDEX: u32 = 7;

/// A directory of this test's.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("vma-ledger-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn the_file(&self) -> PathBuf {
        let [file] = &self.files()[..] else {
            panic!("{:?}", self.files());
        };
        file.clone()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn flows() -> [Flow; 3] {
    ["192.0.2.1:9", "192.0.2.1:10", "[fd00::1]:11"].map(|it| flow(Protocol::Udp, it, None))
}

/// A process with three rules by queue 1, of which it has taken the second away.
fn working(directory: &Directory, card: &TestCard) -> Rules {
    let mut rules = Rules::known_in(&directory.0, INDEX, card);
    for flow in flows() {
        rules.bring(card, &flow, 1).unwrap();
    }
    rules.remove(card, &flows()[1]);
    rules
}

/// It is killed: its descriptors close, and nothing else happens. A program that another test is
/// about to execute has copies of them for a moment.
fn killed(rules: Rules, directory: &Directory) {
    drop(rules);
    let inode = fs::metadata(directory.the_file()).unwrap().ino();
    let is_free = || {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        !locks.contains(&format!(":{inode} "))
    };
    assert!(eventually(Duration::from_secs(10), is_free));
}

/// Another process has the interface with this index; how many rules there were left.
fn next(directory: &Directory, card: &TestCard, index: u32) -> u32 {
    remove_leftovers(card, &directory.0, &Place::of(index).unwrap())
}

fn a_card() -> TestCard {
    TestCard::new(true, 8)
}

#[test]
fn a_killed_processes_rules_go_with_the_next_and_no_others() {
    for finds_places in [true, false] {
        let (directory, card) = (Directory::new(), TestCard::new(finds_places, 8));
        // The administrator's, the same but for the queue.
        let mut others = Rules::default();
        others.bring(&card, &flows()[1], 2).unwrap();
        killed(working(&directory, &card), &directory);
        assert_eq!(card.queues().len(), 3);
        assert_eq!(next(&directory, &card, INDEX), 2);
        assert_eq!(card.queues().iter().map(|it| it.1).collect::<Vec<_>>(), [2]);
        assert!(directory.files().is_empty(), "{:?}", directory.files());
    }
}

#[test]
fn the_next_process_keeps_a_file_of_its_own_until_it_ends() {
    let (directory, card) = (Directory::new(), a_card());
    killed(working(&directory, &card), &directory);
    let mut rules = working(&directory, &card);
    assert_eq!(card.queues().len(), 2, "those of the first are gone");
    directory.the_file();
    rules.remove_all(&card);
    assert!(card.queues().is_empty() && directory.files().is_empty());
}

#[test]
fn a_process_that_lives_keeps_its_rules() {
    let (directory, card) = (Directory::new(), a_card());
    let rules = working(&directory, &card);
    assert_eq!(next(&directory, &card, INDEX), 0);
    assert_eq!(card.queues().len(), 2);
    killed(rules, &directory);
    assert_eq!(next(&directory, &card, INDEX), 2);
}

#[test]
fn a_rule_that_was_replaced_stays() {
    let (directory, card) = (Directory::new(), a_card());
    killed(working(&directory, &card), &directory);
    for rule in card.rules.borrow_mut().values_mut() {
        rule.spec.fields[11] ^= 1;
    }
    assert_eq!(next(&directory, &card, INDEX), 0);
    assert_eq!(card.queues().len(), 2);
    assert!(directory.files().is_empty());
}

#[test]
fn another_interfaces_file_waits_for_that_and_one_of_another_boot_goes() {
    let (directory, card) = (Directory::new(), a_card());
    killed(working(&directory, &card), &directory);
    assert_eq!(next(&directory, &card, INDEX + 1), 0);
    let file = directory.the_file();
    let mut content = fs::read(&file).unwrap();
    // A letter of the boot's name.
    content[FORMAT.len() + 1] ^= 1;
    fs::write(&file, content).unwrap();
    assert_eq!(next(&directory, &card, INDEX), 0);
    assert_eq!(card.queues().len(), 2);
    assert!(directory.files().is_empty());
}

#[test]
fn what_others_could_have_written_is_not_believed() {
    let (directory, card) = (Directory::new(), a_card());
    killed(working(&directory, &card), &directory);
    let file = directory.the_file();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o620)).unwrap();
    assert_eq!(next(&directory, &card, INDEX), 0, "a group may write it");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let elsewhere = Directory::new();
    let moved = elsewhere.0.join("ledger");
    fs::rename(&file, &moved).unwrap();
    symlink(&moved, &file).unwrap();
    assert_eq!(next(&directory, &card, INDEX), 0, "a link");
    fs::remove_file(&file).unwrap();
    fs::hard_link(&moved, &file).unwrap();
    assert_eq!(next(&directory, &card, INDEX), 0, "two names");
    fs::remove_file(&moved).unwrap();
    assert_eq!(card.queues().len(), 2);
    assert_eq!(next(&directory, &card, INDEX), 2);
}

#[test]
fn garbage_is_left_alone_and_half_a_file_does_no_harm() {
    let (directory, card) = (Directory::new(), a_card());
    killed(working(&directory, &card), &directory);
    let file = directory.the_file();
    let whole = fs::read(&file).unwrap();
    for len in 0..whole.len() {
        fs::write(&file, &whole[..len]).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let is_begun = len >= HEADER_BYTES;
        let is_of_another_boot =
            len >= FORMAT.len() && len < Place::of(1).unwrap().since_boot().len();
        next(&directory, &card, INDEX);
        assert_eq!(file.exists(), !is_begun && !is_of_another_boot, "{len}");
        // Both rules stand in the file before its end.
        assert!(
            len == whole.len() || !card.queues().is_empty() || len + RECORD_BYTES > whole.len()
        );
    }
}
