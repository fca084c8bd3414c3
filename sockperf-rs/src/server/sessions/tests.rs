use proptest::prelude::*;

use super::*;
use crate::terminal::Style;

fn header(sequence: u64, flags: u16) -> Header {
    Header {
        sequence,
        flags: Flags(flags),
        len: 14,
    }
}

fn client(port: u16) -> Client {
    Client::Inet(SocketAddr::from(([127, 0, 0, 1], port)))
}

fn silent() -> Output {
    Output::new(Box::new(std::io::sink()), Style::PLAIN)
}

fn summary_of(sequences: &[u64]) -> SessionSummary {
    let mut sessions = Sessions::new(true);
    let clock = Clock::monotonic();
    for &sequence in sequences {
        sessions.message(header(sequence, 1), client(1), &clock, &mut silent());
    }
    sessions.finish().remove(0)
}

fn missing_after(sequences: &[u64]) -> u64 {
    summary_of(sequences).missing
}

#[test]
fn gaps_are_counted_and_late_messages_ignored() {
    assert_eq!(missing_after(&[1, 2, 3]), 0);
    assert_eq!(missing_after(&[1, 5, 6]), 3);
    assert_eq!(missing_after(&[1, 5, 3, 4, 6]), 3);
    assert_eq!(missing_after(&[1, 1000, 3, 5_000_000]), 998 + 4_998_999);
    assert_eq!(missing_after(&[10, 11]), 0);
    assert_eq!(missing_after(&[1, u64::MAX, 1, u64::MAX]), u64::MAX - 2);
}

#[test]
fn loss_reordering_and_repetition_are_told_apart() {
    let parts = |sequences: &[u64]| {
        let it = summary_of(sequences);
        (it.received, it.lost, it.reordered, it.duplicated)
    };
    assert_eq!(parts(&[1, 2, 3]), (3, 0, 0, 0));
    assert_eq!(parts(&[1, 5, 6]), (3, 3, 0, 0));
    assert_eq!(parts(&[1, 5, 3, 4, 6]), (5, 1, 2, 0));
    assert_eq!(parts(&[1, 2, 2, 1, 3]), (3, 0, 0, 2));
    // Farther back than the window, a repetition looks like reordering.
    assert_eq!(parts(&[1, 3000, 2]), (3, 2997, 1, 0));
    assert_eq!(parts(&[1, 1025, 1024]), (3, 1022, 1, 0));
}

proptest! {
    #[test]
    fn counts_are_exact_within_the_window(
        kept in prop::collection::vec(0u64..4, 2..400),
        swaps in prop::collection::vec((0usize..400, 0usize..8), 0..40),
    ) {
        // Each number comes not at all, once or twice; then some change places with near ones.
        let mut sequences: Vec<u64> = (1..)
            .zip(&kept)
            .flat_map(|(sequence, &times)| {
                let times = if sequence == 1 || times == 3 { 1 } else { times };
                std::iter::repeat_n(sequence, usize::try_from(times).unwrap())
            })
            .collect();
        for &(index, distance) in &swaps {
            if index > 0 && index + distance < sequences.len() {
                sequences.swap(index, index + distance);
            }
        }
        let it = summary_of(&sequences);
        let mut different = sequences.clone();
        different.sort_unstable();
        different.dedup();
        let highest = *different.last().unwrap();
        prop_assert_eq!(it.received, different.len() as u64);
        prop_assert_eq!(it.lost, highest - different.len() as u64);
        prop_assert_eq!(it.duplicated, (sequences.len() - different.len()) as u64);
    }
}

#[test]
fn warm_up_starts_one_new_session() {
    let mut sessions = Sessions::new(false);
    let clock = Clock::monotonic();
    for (sequence, flags) in [(1, 1), (9, 1), (0, 5), (0, 5), (2, 1), (4, 1)] {
        sessions.message(header(sequence, flags), client(1), &clock, &mut silent());
    }
    let summary = sessions.finish().remove(0);
    assert_eq!((summary.received, summary.missing, summary.lost), (2, 2, 2));
}

#[test]
fn sessions_are_bounded_and_separate() {
    let mut sessions = Sessions::new(true);
    let clock = Clock::monotonic();
    let mut message = |sequence, port| {
        sessions.message(header(sequence, 1), client(port), &clock, &mut silent());
    };
    for port in 0..=u16::try_from(SESSIONS_MAX).unwrap() {
        message(1, port);
    }
    message(3, 7);
    assert_eq!(sessions.untracked_messages, 1);
    let summaries = sessions.finish();
    assert_eq!(summaries.len(), SESSIONS_MAX);
    let missing: u64 = summaries.iter().map(|session| session.missing).sum();
    assert_eq!((missing, summaries[7].missing), (1, 1));
    assert_eq!(summaries[7].client, client(7));
}

#[test]
fn lines_have_the_columns_of_the_original() {
    assert_eq!(
        gap_line(client(49_675), 3, 2, 4),
        "[127.0.0.1:49675]       Total Dropped/OOO: 3           GAP:(3)     [2 - 4]"
    );
    assert_eq!(
        gap_line(client(49_675), 4_999_995, 1001, 4_999_999),
        "[127.0.0.1:49675]       Total Dropped/OOO: 4999995     GAP:(4998999) [1001 - 4999999]"
    );
    assert_eq!(
        gap_summary(client(55_522), 28_499),
        "[127.0.0.1:55522]       Summary: Total Dropped/OOO: 28499"
    );
    assert_eq!(
        started(client(37_921)),
        "Starting new session: [127.0.0.1:37921]      "
    );
}
