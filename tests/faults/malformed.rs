//! Frames that nobody should send: the application receives of them what it receives on the kernel,
//! no more and no less.

mod frames;
mod lists;

use std::time::Duration;

use frames::{Frame, PORT, checksum};
use testkit::{Namespaces, Pair, RawLink, Running, SOON, or_skip, panic_unless_paused, preloaded};

/// Frames between two marks: no receive buffer overflows.
const BATCH: usize = 40;

/// Settings of the receiver's interface (`/proc/sys/net/ipv4/conf`).
type Settings = [(&'static str, &'static str)];

/// What the receiver says of the frames, which `make` makes for given hardware addresses.
fn received(
    with_library: bool,
    settings: &Settings,
    make: &dyn Fn(&Frame) -> Vec<Vec<u8>>,
) -> Result<String, testkit::Skip> {
    let pair = Namespaces::pair()?;
    for change in [
        "address add 10.77.0.3/24 dev vb",
        "address add 10.88.0.1/32 dev lo",
        // Every source has a way back.
        "route add default via 10.77.0.1",
    ] {
        pair.b.ip(&change.split(' ').collect::<Vec<_>>()).unwrap();
    }
    for (setting, value) in settings {
        let set = |link, value| {
            std::fs::write(format!("/proc/sys/net/ipv4/conf/{link}/{setting}"), value).unwrap();
        };
        pair.b.enter(|| {
            set("all", "0");
            set("vb", value);
        });
    }
    let program = testkit::c_program("receiver");
    let mut command = if with_library {
        let mut command = preloaded(&pair.b, &program).unwrap();
        command.env("VMA_TRACELEVEL", "debug");
        command
    } else {
        pair.b.command(&program)
    };
    command.args([Pair::ADDRESS_B.to_string(), PORT.to_string()]);
    let mut receiver = Running::start(command).unwrap();
    assert!(
        receiver.wait_for_output("ready", SOON),
        "{}",
        receiver.stderr()
    );

    let link = RawLink::open(&pair.a, "va").unwrap();
    let far = RawLink::open(&pair.b, "vb").unwrap();
    let template = Frame::new(far.mac(), link.mac());
    for (number, batch) in make(&template).chunks(BATCH).enumerate() {
        for frame in batch {
            // Longer than the MTU: it cannot be sent, on neither run.
            drop(link.send(frame));
        }
        let mark = format!("mark {number}.");
        link.send(&template.with_payload(mark.as_bytes()).bytes())
            .unwrap();
        assert!(
            receiver.wait_for_output(&mark, SOON),
            "{:?}: {mark}\n{}{}",
            receiver.status(),
            receiver.stdout(),
            receiver.stderr()
        );
    }
    // What the kernel holds back for the reassembly of fragments is dropped or delivered by now.
    std::thread::sleep(Duration::from_millis(50));
    link.send(&template.with_payload(b"end").bytes()).unwrap();
    let finished = receiver.wait(SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
    assert!(
        !with_library || finished.stderr.contains(": offloaded"),
        "{}",
        finished.stderr
    );
    Ok(finished.stdout)
}

/// Sends the same frames to a kernel socket and to an accelerated one. Returns the datagrams, marks
/// excluded.
fn compare(make: &dyn Fn(&Frame) -> Vec<Vec<u8>>) -> Result<Vec<String>, testkit::Skip> {
    compare_with(&[("rp_filter", "0")], make)
}

fn compare_with(
    settings: &Settings,
    make: &dyn Fn(&Frame) -> Vec<Vec<u8>>,
) -> Result<Vec<String>, testkit::Skip> {
    let lines = |with_library| -> Result<Vec<String>, testkit::Skip> {
        let text = received(with_library, settings, make)?;
        let lines = text
            .lines()
            .filter(|line| !line.contains(" mark ") && *line != "ready");
        Ok(lines.map(str::to_owned).collect())
    };
    // A datagram that comes through the kernel may be overtaken by one that does not.
    let (mut expected, mut seen) = (lines(false)?, lines(true)?);
    expected.sort();
    seen.sort();
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these
            .iter()
            .filter(|line| !those.contains(line))
            .cloned()
            .collect()
    };
    assert!(
        expected == seen,
        "only on the kernel: {:#?}\nonly with the library: {:#?}\n{} against {} in all",
        only(&expected, &seen),
        only(&seen, &expected),
        expected.len(),
        seen.len()
    );
    Ok(expected)
}

/// Payloads that the application must have received, and some that it must not have.
fn assert_contents(lines: &[String], present: &[&str], absent: &[&str]) {
    let has = |text: &str| lines.iter().any(|line| line.ends_with(&format!(" {text}")));
    for text in present {
        assert!(has(text), "{text} did not arrive: {lines:#?}");
    }
    for text in absent {
        assert!(!has(text), "{text} arrived: {lines:#?}");
    }
}

#[test]
fn headers_with_bad_fields() {
    panic_unless_paused(|| {
        let lines = or_skip!(compare(&lists::bad_fields));
        let present = [
            "good",
            "checksum zero",
            "padded",
            "IP options, no operation",
        ];
        let absent = [
            "bad UDP checksum",
            "bad IP checksum",
            "wrong destination hardware address",
            "TCP",
            "UDP length 7",
            "IP version 6",
        ];
        assert_contents(&lines, &present, &absent);
    });
}

#[test]
fn fragments() {
    panic_unless_paused(|| {
        let lines = or_skip!(compare(&lists::fragments));
        assert_contents(&lines, &["good"], &["only last", "only first"]);
        assert!(
            lines
                .iter()
                .filter(|line| line.starts_with("2000 "))
                .count()
                >= 2,
            "whole sets are put together: {lines:#?}"
        );
    });
}

#[test]
fn frames_cut_at_every_length() {
    panic_unless_paused(|| {
        let lines = or_skip!(compare(&|template| {
            let whole = template.with_payload(b"cut somewhere").bytes();
            let with_options = template
                .with_payload(b"options, cut somewhere")
                .with_options(&[1, 1, 1, 0])
                .bytes();
            let cut = |frame: &[u8]| {
                (14..=frame.len())
                    .map(|len| frame[..len].to_vec())
                    .collect()
            };
            let (mut all, more): (Vec<_>, Vec<_>) = (cut(&whole), cut(&with_options));
            all.extend(more);
            all
        }));
        let whole = ["cut somewhere", "options, cut somewhere"];
        assert_contents(&lines, &whole, &["cut somewher"]);
        assert_eq!(lines.len(), 3, "{lines:#?}");
    });
}

#[test]
fn odd_addresses() {
    panic_unless_paused(|| {
        let lines = or_skip!(compare(&lists::odd_addresses));
        let present = ["good", "source 10.77.0.255"];
        let absent = [
            "source 127.0.0.1",
            "source 224.0.0.1",
            "source 10.77.0.2",
            "source 10.77.0.3",
            "source 10.88.0.1",
        ];
        assert_contents(&lines, &present, &absent);
    });
}

#[test]
fn odd_addresses_with_reverse_path_filtering() {
    panic_unless_paused(|| {
        for mode in ["1", "2"] {
            let settings = [("rp_filter", mode)];
            let lines = or_skip!(compare_with(&settings, &lists::odd_addresses));
            let absent = ["source 10.77.0.255", "source 10.77.0.3"];
            assert_contents(&lines, &["good", "source 192.0.2.1"], &absent);
        }
    });
}

#[test]
fn odd_addresses_where_our_own_are_allowed() {
    panic_unless_paused(|| {
        let settings = [("rp_filter", "0"), ("accept_local", "1")];
        let lines = or_skip!(compare_with(&settings, &lists::odd_addresses));
        assert_contents(&lines, &["good", "source 10.77.0.3"], &["source 127.0.0.1"]);
    });
}

#[test]
fn links_with_tags() {
    panic_unless_paused(|| {
        let lines = or_skip!(compare(&lists::link_layer));
        assert_contents(&lines, &["good"], &["tagged for VLAN 5"]);
    });
}

/// Bits flipped anywhere, with the checksums put right again in some: what passes must be the same.
#[test]
fn random_damage() {
    panic_unless_paused(|| {
        let damaged = |template: &Frame| {
            let mut random = frames::Random::new(7);
            (0..6000)
                .map(|number| {
                    let text = format!("damaged {number}");
                    let mut frame = template.with_payload(text.as_bytes());
                    if random.below(4) == 0 {
                        frame = frame.with_options(&[1, 1, 1, 0]);
                    }
                    let mut bytes = frame.bytes();
                    let headers = bytes.len() - text.len();
                    for _ in 0..=random.below(2) {
                        let bit = random.below(headers * 8);
                        bytes[bit / 8] ^= 1 << (bit % 8);
                    }
                    if random.below(2) == 0 {
                        frames::repair_ip_checksum(&mut bytes);
                    }
                    if random.below(2) == 0 {
                        frames::repair_udp_checksum(&mut bytes);
                    }
                    bytes
                })
                .collect()
        };
        let lines = or_skip!(compare(&damaged));
        // Flips of the identification, of the time to live and the like harm nobody once the
        // checksum is right.
        assert!(lines.len() > 300, "{} arrived", lines.len());
    });
}

#[test]
fn the_checksum_is_that_of_the_rfc() {
    // RFC 1071, section 3.
    let words = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(checksum(&words), !0xddf2);
    assert_eq!(checksum(&[]), 0xffff);
}
