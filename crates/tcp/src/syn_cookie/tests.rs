use core::time::Duration;

use super::*;

const KEY: SecretKey = SecretKey::new([3; 16]);
const SEQ: SeqNumber = SeqNumber(0xffff_fff0);

fn local() -> SocketAddr {
    "192.0.2.1:80".parse().unwrap()
}

fn remote() -> SocketAddr {
    "192.0.2.2:12345".parse().unwrap()
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn cookie(mss: u16, seconds: u64) -> SeqNumber {
    issue(&KEY, local(), remote(), SEQ, mss, at(seconds))
}

fn verified(cookie: SeqNumber, seconds: u64) -> Option<u16> {
    verify(&KEY, local(), remote(), SEQ, cookie, at(seconds))
}

#[test]
fn the_segment_size_comes_back_rounded_down() {
    for (offered, kept) in [
        (0, 536),
        (535, 536),
        (536, 536),
        (1299, 536),
        (1300, 1300),
        (1448, 1440),
        (1460, 1460),
        (65_535, 1460),
    ] {
        assert_eq!(
            verified(cookie(offered, 1000), 1000),
            Some(kept),
            "{offered}"
        );
    }
}

#[test]
fn the_segment_sizes_of_ipv6_are_others() {
    let [local, remote]: [SocketAddr; 2] =
        ["[fd00::1]:80", "[fd00::2]:12345"].map(|text| text.parse().unwrap());
    for (offered, kept) in [
        (0, 1220),
        (1419, 1220),
        (1420, 1420),
        (1440, 1440),
        (8940, 8940),
    ] {
        let cookie = issue(&KEY, local, remote, SEQ, offered, at(1000));
        let found = verify(&KEY, local, remote, SEQ, cookie, at(1000));
        assert_eq!(found, Some(kept), "{offered}");
    }
}

#[test]
fn a_cookie_is_good_for_this_minute_and_the_next() {
    let issued = cookie(1460, 60);
    for seconds in [60, 119, 120, 179] {
        assert_eq!(verified(issued, seconds), Some(1460), "{seconds}");
    }
    // The eight bits of the count come around, the hash does not.
    for seconds in [0, 59, 180, 240, 60 + 256 * 60, 120 + 256 * 60] {
        assert_eq!(verified(issued, seconds), None, "{seconds}");
    }
}

#[test]
fn nobody_else_s_cookie_is_good() {
    let issued = cookie(1460, 60);
    let other: SocketAddr = "192.0.2.2:12346".parse().unwrap();
    let now = at(60);
    assert_eq!(verify(&KEY, local(), other, SEQ, issued, now), None);
    assert_eq!(verify(&KEY, other, remote(), SEQ, issued, now), None);
    assert_eq!(verify(&KEY, local(), remote(), SEQ + 4, issued, now), None);
    let key = SecretKey::new([4; 16]);
    assert_eq!(verify(&key, local(), remote(), SEQ, issued, now), None);
}

/// Of 2^32 guesses, eight (four sizes, two minutes) are right.
#[test]
fn guesses_fail() {
    let mut random = 1_u64;
    let found = (0..100_000)
        .filter(|_| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            verified(SeqNumber(u32::try_from(random >> 32).unwrap()), 600).is_some()
        })
        .count();
    assert!(found == 0, "{found} of a hundred thousand");
}

#[test]
fn options_travel_in_the_timestamp() {
    for window_scale in (0..=14).map(Some).chain([None]) {
        for (sack, ecn) in [(false, false), (true, false), (false, true), (true, true)] {
            let options = CookieOptions {
                window_scale,
                sack,
                ecn,
            };
            for clock in [0, 1, 63, 64, 12_345_678, u32::MAX] {
                let timestamp = timestamp_with(&options, clock);
                assert_eq!(options_from(timestamp), options);
                let behind = clock.wrapping_sub(timestamp);
                assert!(behind < 64, "{clock} became {timestamp}");
            }
        }
    }
}
