use std::sync::Arc;

use wire::tcp::{Flags, Options as HeaderOptions};

use super::*;
use crate::{Config, ListenDisposition};

const NOW: Instant = Instant::from_nanos(1_000_000_000_000);
const KEYS: FastOpenKeys = FastOpenKeys::new([1; 16], None);

fn ends() -> (IpAddr, IpAddr) {
    ([192, 0, 2, 1].into(), [192, 0, 2, 2].into())
}

fn listener(bits: u32) -> Listener {
    let config = Config {
        fast_open: FastOpenModes::from_bits(bits),
        ..Config::default()
    };
    Listener::new(NOW, Arc::new(config), 2)
}

fn syn(option: Option<FastOpen>) -> Header {
    Header {
        flags: Flags::SYN,
        options: HeaderOptions {
            fast_open: option,
            ..HeaderOptions::default()
        },
        ..Header::default()
    }
}

fn good() -> Option<FastOpen> {
    KEYS.cookie(ends().0, ends().1, false)
}

fn reply(listener: &mut Listener, option: Option<FastOpen>, len: usize) -> FastOpenReply {
    let syn = syn(option);
    assert_eq!(listener.on_segment(NOW, &syn), ListenDisposition::Open);
    listener.on_embryonic_closed();
    listener.fast_open(NOW, &KEYS, ends(), &syn, len)
}

const OPEN: FastOpenReply = FastOpenReply {
    is_open: true,
    option: None,
};

// Requirement: RFC 7413 6.1-1
#[test]
fn it_is_off_unless_system_and_application_ask_for_it() {
    for (bits, limit, opens) in [
        (0x1, 10, false),
        (0x3, 0, false),
        (0x3, 10, true),
        (0x403, 0, true),
        (0x401, 0, false),
    ] {
        let mut listener = listener(bits);
        if limit > 0 {
            listener.set_fast_open(limit);
        }
        let reply = reply(&mut listener, good(), 10);
        assert_eq!(reply.is_open, opens, "{bits:#x} {limit}");
        assert!(opens || reply.option.is_none());
    }
}

// Requirement: RFC 7413 4.2.1-2, 4.2.2-2, 4.2.2-3
#[test]
fn the_cookie_decides() {
    let mut listener = listener(0x403);
    let given = FastOpenReply {
        is_open: false,
        option: good(),
    };
    assert_eq!(
        reply(&mut listener, Some(FastOpen::request(false)), 0),
        given
    );
    assert_eq!(
        reply(&mut listener, FastOpen::from_cookie(&[0; 8], false), 10),
        given
    );
    assert_eq!(reply(&mut listener, None, 10), FastOpenReply::default());
    // The answer has the form of the question.
    let old_form = reply(&mut listener, Some(FastOpen::request(true)), 0)
        .option
        .unwrap();
    assert!(old_form.is_experimental());
    assert_eq!(reply(&mut listener, good(), 10), OPEN);
    assert_eq!(reply(&mut listener, good(), 0), OPEN, "without data, too");
    let mut own = self::listener(0x403);
    own.set_fast_open_keys(Some(FastOpenKeys::new([2; 16], Some([1; 16]))));
    let replaced = reply(&mut own, good(), 10);
    assert!(replaced.is_open && replaced.option.is_some() && replaced.option != good());
}

#[test]
fn cookies_can_be_dispensed_with() {
    for mut listener in [listener(0x603), {
        let mut listener = listener(0x403);
        listener.set_fast_open_without_cookie(true);
        listener
    }] {
        assert_eq!(reply(&mut listener, None, 10), OPEN);
        assert_eq!(
            reply(&mut listener, None, 0),
            FastOpenReply::default(),
            "a plain SYN"
        );
    }
}

// Requirement: RFC 7413 5.1-1, 5.1-2
#[test]
fn pending_connections_are_bounded_and_resets_count_for_a_minute() {
    let mut listener = listener(0x403);
    assert_eq!(listener.fast_open_limit(), 2);
    assert_eq!(
        [(); 3].map(|()| reply(&mut listener, good(), 1).is_open),
        [true, true, false]
    );
    assert_eq!(listener.fast_open_count(), 2);
    let end = |was_reset, was_accepted| FastOpenEnd {
        was_reset,
        was_accepted,
    };
    listener.on_fast_open_end(NOW, end(false, true));
    assert!(reply(&mut listener, good(), 1).is_open);
    // One that nobody has accepted does not count.
    listener.on_fast_open_end(NOW, end(true, false));
    assert!(reply(&mut listener, good(), 1).is_open);
    listener.on_fast_open_end(NOW, end(true, true));
    assert!(!reply(&mut listener, good(), 1).is_open);
    let syn = syn(good());
    let later = NOW + RESET_MEMORY;
    assert!(listener.fast_open(later, &KEYS, ends(), &syn, 1).is_open);
    assert!(!listener.fast_open(later, &KEYS, ends(), &syn, 1).is_open);
}
