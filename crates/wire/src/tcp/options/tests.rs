#![allow(clippy::arithmetic_side_effects, reason = "tests")]

use super::*;

const SYN: Options = Options {
    mss: Some(1460),
    window_scale: Some(7),
    sack_permitted: true,
    timestamps: Some(Timestamps {
        value: 0x0102_0304,
        echo: 0,
    }),
    sack: SackBlocks {
        blocks: [SackBlock { left: 0, right: 0 }; 4],
        len: 0,
    },
    fast_open: None,
};

fn emitted(options: Options) -> Vec<u8> {
    let mut target = [0xee; MAX_OPTIONS_LEN];
    let len = options.emit(&mut target);
    target[..len].to_vec()
}

fn blocks(count: u32) -> SackBlocks {
    (0..count)
        .map(|index| SackBlock {
            left: index * 100,
            right: index * 100 + 50,
        })
        .collect()
}

// Requirement: RFC 9293 MUST-4, MUST-69
#[test]
fn the_list_of_a_syn_is_that_of_linux() {
    assert_eq!(
        emitted(SYN),
        [
            2, 4, 0x05, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7
        ]
    );
    assert_eq!(Options::parse(&emitted(SYN), true), SYN);
}

#[test]
fn options_of_a_syn_are_skipped_elsewhere() {
    let parsed = Options::parse(&emitted(SYN), false);
    let expected = Options {
        timestamps: SYN.timestamps,
        ..Options::default()
    };
    assert_eq!(parsed, expected);
}

// Requirement: RFC 2018 4-2
#[test]
fn sack_blocks_fill_the_room_and_no_more() {
    let alone = Options {
        sack: blocks(4),
        ..Options::default()
    };
    assert_eq!(emitted(alone).len(), 36);
    assert_eq!(Options::parse(&emitted(alone), false), alone);

    let beside_timestamps = Options {
        timestamps: SYN.timestamps,
        ..alone
    };
    assert_eq!(emitted(beside_timestamps).len(), 40);
    let parsed = Options::parse(&emitted(beside_timestamps), false);
    assert_eq!(parsed.sack.as_slice(), &alone.sack.as_slice()[..3]);
}

#[test]
fn a_truncated_list_is_read_up_to_the_option_that_runs_over() {
    let list = emitted(SYN);
    for len in 0..list.len() {
        let parsed = Options::parse(&list[..len], true);
        assert_eq!(parsed.mss.is_some(), len >= 4, "{len}");
        assert_eq!(parsed.sack_permitted, len >= 6, "{len}");
        assert_eq!(parsed.timestamps.is_some(), len >= 16, "{len}");
        assert_eq!(parsed.window_scale, None, "{len}");
    }
}

// Requirement: RFC 9293 MUST-7
#[test]
fn illegal_lengths_end_or_skip() {
    // Zero and one would loop or stand still.
    assert_eq!(Options::parse(&[2, 0, 4, 2], true), Options::default());
    assert_eq!(Options::parse(&[2, 1, 4, 2], true), Options::default());
    // A known option of a wrong length is skipped as a whole.
    assert!(Options::parse(&[2, 3, 9, 4, 2], true).sack_permitted);
    assert!(
        Options::parse(&[5, 9, 1, 1, 1, 1, 1, 1, 1], false)
            .sack
            .is_empty()
    );
    // What follows the end of the list does not count.
    assert_eq!(Options::parse(&[0, 2, 4, 5, 180], true), Options::default());
    // An MSS of zero would divide by zero.
    assert_eq!(Options::parse(&[2, 4, 0, 0], true).mss, None);
}

// Requirement: RFC 7323 2.3-2
#[test]
fn window_scale_is_limited_to_14() {
    assert_eq!(Options::parse(&[3, 3, 255, 0], true).window_scale, Some(14));
}

// Requirement: RFC 7413 4.1.1-1
#[test]
fn fast_open_has_two_forms_and_whole_words() {
    let request = FastOpen::request(false);
    let cookie = FastOpen::from_cookie(&[1, 2, 3, 4], false).unwrap();
    let long = FastOpen::from_cookie(&[7; 16], true).unwrap();
    for (option, expected) in [
        (request, vec![34, 2, 1, 1]),
        (FastOpen::request(true), vec![254, 4, 0xf9, 0x89]),
        (cookie, vec![34, 6, 1, 2, 3, 4, 1, 1]),
        (long, [vec![254, 20, 0xf9, 0x89], vec![7; 16]].concat()),
    ] {
        let options = Options {
            fast_open: Some(option),
            ..SYN
        };
        let list = emitted(options);
        assert_eq!(list[20..], expected);
        assert_eq!(Options::parse(&list, true), options);
        assert_eq!(Options::parse(&list, false).fast_open, None, "not a SYN");
    }
}

// Requirement: RFC 7413 4.1.1-2
#[test]
fn cookies_of_impossible_lengths_are_none() {
    let parse = |list: &[u8]| Options::parse(list, true).fast_open;
    assert_eq!(parse(&[34, 5, 1, 2, 3]), None);
    assert_eq!(parse(&[34, 4, 1, 2]), None);
    assert_eq!(parse(&[vec![34, 20], vec![0; 18]].concat()), None);
    assert_eq!(parse(&[254, 4, 0xf9, 0x88]), None, "another experiment");
    // The last one counts.
    let cookie = FastOpen::from_cookie(&[9; 4], false);
    assert_eq!(parse(&[34, 2, 34, 6, 9, 9, 9, 9]), cookie);
    assert_eq!(parse(&[34, 6, 9, 9, 9, 9, 34, 3, 1]), cookie);
    assert_eq!(parse(&[34, 6, 9, 9, 9, 9, 34, 4, 1, 1]), None);
}
