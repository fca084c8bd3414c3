use super::*;
use crate::Instant;
use core::time::Duration;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A key as the sysctl is written, of four words.
fn key(words: [u32; 4]) -> [u8; 16] {
    words
        .map(u32::to_le_bytes)
        .as_flattened()
        .try_into()
        .unwrap()
}

/// The cookies are those that Linux gives; vectors of google/packetdrill,
/// `gtests/net/tcp/fastopen/server`.
// Requirement: RFC 7413 4.1.2-1, 4.1.2-2
#[test]
fn cookies_are_those_of_linux() {
    let words = [0xa0bf_63f7, 0xed80_3d81, 0xcd64_1d30, 0xcebc_4a90];
    let keys = FastOpenKeys::new(key(words), None);
    for (client, server, expected) in [
        ("10.248.0.2", "192.168.0.2", 0x00ab_aaab_e8e9_54c2_u64),
        ("10.248.0.3", "192.168.0.2", 0x1313_a2da_994a_0951),
        ("10.248.0.3", "192.168.0.3", 0x76d2_c1c5_30f5_1f79),
    ] {
        let cookie = keys.cookie(ip(client), ip(server), false).unwrap();
        assert_eq!(cookie.cookie(), expected.to_be_bytes());
    }
    let six = |client: &str| keys.cookie(ip(client), ip("2001:db8::1"), true).unwrap();
    assert_ne!(six("2001:db8::2"), six("2001:db8::3"));
}

// Requirement: RFC 7413 4.1.2-3
#[test]
fn a_key_is_replaced_without_a_gap() {
    let (old, new) = ([1; 16], [2; 16]);
    let (client, server) = (ip("192.0.2.1"), ip("192.0.2.2"));
    let issued = FastOpenKeys::new(old, None)
        .cookie(client, server, false)
        .unwrap();
    let worth = |keys: FastOpenKeys, client| keys.judge(issued.cookie(), client, server);
    assert_eq!(
        worth(FastOpenKeys::new(old, None), client),
        CookieWorth::Good
    );
    assert_eq!(
        worth(FastOpenKeys::new(new, Some(old)), client),
        CookieWorth::Old
    );
    assert_eq!(
        worth(FastOpenKeys::new(new, None), client),
        CookieWorth::Nothing
    );
    assert_eq!(
        worth(FastOpenKeys::new(old, None), ip("192.0.2.3")),
        CookieWorth::Nothing
    );
    let keys = FastOpenKeys::new(old, None);
    assert_eq!(
        keys.judge(&issued.cookie()[..6], client, server),
        CookieWorth::Nothing
    );
}

#[test]
fn keys_have_16_or_32_octets() {
    let octets: Vec<u8> = (0..48).collect();
    let keys = |len: usize| FastOpenKeys::from_octets(&octets[..len]);
    let half = |from: usize| octets[from..from + 16].try_into().unwrap();
    assert_eq!(keys(16), Some(FastOpenKeys::new(half(0), None)));
    assert_eq!(keys(32), Some(FastOpenKeys::new(half(0), Some(half(16)))));
    for len in [0, 3, 15, 17, 31, 33, 48] {
        assert_eq!(keys(len), None, "{len}");
    }
    assert_eq!(format!("{:?}", keys(16).unwrap()), "FastOpenKeys(..)");
}

const SERVER: &str = "192.0.2.1";

fn attempt(cache: &mut FastOpenCache, now: Instant, server: &str, bits: u32) -> FastOpenAttempt {
    let modes = FastOpenModes::from_bits(bits);
    cache.attempt(now, ip(server), modes, false, Duration::ZERO)
}

fn given(cookie: &[u8]) -> FastOpenLesson {
    FastOpenLesson {
        is_answered: true,
        mss: Some(1000),
        cookie: FastOpen::from_cookie(cookie, false),
        ..FastOpenLesson::default()
    }
}

// Requirement: RFC 7413 4.1.3-1, 4.1.3-2, 4.2.1-1
#[test]
fn the_last_cookie_and_mss_of_each_server_are_kept() {
    let mut cache = FastOpenCache::new(10);
    let now = Instant::ZERO;
    let first = attempt(&mut cache, now, SERVER, 1);
    assert_eq!(first.option, Some(FastOpen::request(false)));
    assert!(!first.sends_data && first.mss.is_none());
    cache.learn(now, ip(SERVER), &given(&[1; 8]));
    cache.learn(now, ip(SERVER), &given(&[2; 8]));
    let second = attempt(&mut cache, now, SERVER, 1);
    assert_eq!(second.option, FastOpen::from_cookie(&[2; 8], false));
    assert!(second.sends_data);
    assert_eq!(second.mss, Some(1000));
    // A SYN-ACK without a cookie does not revoke the one that is there.
    let plain = FastOpenLesson {
        cookie: None,
        mss: Some(900),
        ..given(&[])
    };
    cache.learn(now, ip(SERVER), &plain);
    let third = attempt(&mut cache, now, SERVER, 1);
    assert_eq!((third.option, third.mss), (second.option, Some(900)));
    assert!(
        !attempt(&mut cache, now, "192.0.2.2", 1).sends_data,
        "another server"
    );
    cache.clear();
    assert_eq!(attempt(&mut cache, now, SERVER, 1), first);
}

#[test]
fn the_experimental_form_is_tried_once() {
    let mut cache = FastOpenCache::new(10);
    let now = Instant::ZERO;
    let mut forms = Vec::new();
    for _ in 0..4 {
        let option = attempt(&mut cache, now, SERVER, 1).option.unwrap();
        forms.push(option.is_experimental());
        let refused = Some(option.is_experimental());
        cache.learn(
            now,
            ip(SERVER),
            &FastOpenLesson {
                refused,
                ..given(&[])
            },
        );
    }
    assert_eq!(forms, [false, true, false, false]);
}

#[test]
fn without_cookies_data_goes_at_once() {
    let mut cache = FastOpenCache::new(10);
    let cookieless = attempt(&mut cache, Instant::ZERO, SERVER, 5);
    assert!(cookieless.sends_data && cookieless.option.is_none());
    let modes = FastOpenModes::from_bits(1);
    let by_option = cache.attempt(Instant::ZERO, ip(SERVER), modes, true, Duration::ZERO);
    assert_eq!(by_option, cookieless);
}

#[test]
fn the_cache_is_bounded_and_forgets_what_was_not_used() {
    let mut cache = FastOpenCache::new(2);
    let now = Instant::ZERO;
    for server in ["192.0.2.1", "192.0.2.2"] {
        cache.learn(now, ip(server), &given(&[1; 8]));
    }
    attempt(&mut cache, now, "192.0.2.1", 1);
    cache.learn(now, ip("192.0.2.3"), &given(&[1; 8]));
    let mut has = |server| attempt(&mut cache, now, server, 1).sends_data;
    assert_eq!(
        ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(&mut has),
        [true, false, true]
    );
}

// Requirement: RFC 7413 4.1.3.1-1
#[test]
fn black_holes_pause_fast_open_for_longer_and_longer() {
    let mut cache = FastOpenCache::new(2);
    let hour = Duration::from_secs(3600);
    let swallowed = FastOpenLesson {
        is_black_hole: true,
        ..FastOpenLesson::default()
    };
    cache.learn(Instant::ZERO, ip(SERVER), &given(&[1; 8]));
    let mut now = Instant::ZERO;
    for pause in [1, 2, 4, 8, 16, 32, 64, 64] {
        cache.learn(now, ip(SERVER), &swallowed);
        let mut at = |now| cache.attempt(now, ip(SERVER), FastOpenModes::from_bits(1), false, hour);
        let paused = at(now + (hour * pause - Duration::from_nanos(1)));
        assert!(!paused.sends_data && paused.option.is_none());
        now = now + hour * pause;
        let check = at(now);
        assert!(check.sends_data && check.is_check);
    }
    assert!(
        attempt(&mut cache, Instant::ZERO, SERVER, 1).sends_data,
        "the sysctl is 0"
    );
    let cleared = FastOpenLesson {
        is_cleared: true,
        ..FastOpenLesson::default()
    };
    cache.learn(now, ip(SERVER), &cleared);
    let after = cache.attempt(
        Instant::ZERO,
        ip(SERVER),
        FastOpenModes::from_bits(1),
        false,
        hour,
    );
    assert!(after.sends_data && !after.is_check);
}
