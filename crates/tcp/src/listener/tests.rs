use std::time::Duration;

use wire::tcp::{Options as HeaderOptions, Timestamps};

use super::*;
use crate::{
    CookieError, Ecn, Options, Path, SecretFlow, SecretKey, Secrets, SeqNumber, State, Transmit,
};

const NOW: Instant = Instant::from_nanos(1_000_000_000_000);

fn listener(config: Config, backlog: u32) -> Listener {
    Listener::new(NOW, Arc::new(config), backlog)
}

fn header(flags: Flags) -> Header {
    Header {
        seq: 1000,
        flags,
        window: 1000,
        ..Header::default()
    }
}

fn syn() -> Header {
    header(Flags::SYN)
}

/// What ends the handshake of an [`embryo`].
fn last_ack() -> Header {
    Header {
        seq: 1001,
        ack: 8,
        ..header(Flags::ACK)
    }
}

fn embryo(syn: &Header) -> Connection<Vec<u8>> {
    let secrets = Secrets {
        iss: SeqNumber(7),
        timestamp_offset: 0,
    };
    let mut connection = Connection::accept(
        NOW,
        Arc::new(Config::default()),
        Options::default(),
        Path::ipv4(1500),
        secrets,
        syn,
        Ecn::NotEct,
    );
    assert!(connection.poll_transmit(NOW, &mut Transmit::default()));
    connection
}

#[test]
fn rfc9293_3_10_7_2_only_a_plain_syn_opens() {
    let mut listener = listener(Config::default(), 10);
    for (flags, expected) in [
        (Flags::RST, ListenDisposition::Ignore),
        (Flags::RST | Flags::ACK, ListenDisposition::Ignore),
        (Flags::ACK, ListenDisposition::Reset),
        (Flags::SYN | Flags::ACK, ListenDisposition::Reset),
        (Flags::NONE, ListenDisposition::Ignore),
        (Flags::SYN | Flags::FIN, ListenDisposition::Ignore),
        (Flags::SYN, ListenDisposition::Open),
    ] {
        assert_eq!(
            listener.on_segment(NOW, &header(flags)),
            expected,
            "{flags:?}"
        );
    }
    assert_eq!(listener.half_open_count(), 1);
}

#[test]
fn the_queues_hold_what_linux_lets_them_hold() {
    let mut listener = listener(Config::default(), 2);
    // One more than the backlog is half open.
    for _ in 0..3 {
        assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Open);
    }
    assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Cookie);
    listener.on_embryonic_closed();
    assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Open);
    // One more than the backlog waits for `accept`.
    for _ in 0..3 {
        listener.on_established();
    }
    assert_eq!(
        (listener.accept_count(), listener.half_open_count()),
        (3, 0)
    );
    assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Ignore);
    assert_eq!(listener.overflow_count(), 1);
    let mut late = embryo(&syn());
    assert!(!listener.admits(&mut late, &last_ack(), 0));
    assert!(listener.admits(&mut late, &header(Flags::RST), 0));
    listener.on_accepted();
    assert!(listener.admits(&mut late, &last_ack(), 0));
}

#[test]
fn without_a_backlog_one_connection_waits() {
    let mut listener = listener(Config::default(), 0);
    assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Open);
    assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Cookie);
    listener.on_established();
    assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Ignore);
}

#[test]
fn tcp_syncookies_2_remembers_no_embryo() {
    let config = Config {
        syn_cookies: SynCookies::Always,
        ..Config::default()
    };
    let mut listener = listener(config, 0);
    for _ in 0..2 {
        assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Cookie);
    }
    assert_eq!(listener.half_open_count(), 0);
    listener.on_established();
    assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Ignore);
}

#[test]
fn tcp_abort_on_overflow_resets_instead_of_forgetting() {
    let config = Config {
        abort_on_overflow: true,
        ..Config::default()
    };
    let mut listener = listener(config, 0);
    assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Open);
    listener.on_established();
    let mut late = embryo(&syn());
    // Whoever does not know the numbers has no part in it.
    for stray in [
        Header {
            ack: 9,
            ..last_ack()
        },
        Header {
            seq: 900,
            ..last_ack()
        },
    ] {
        assert!(listener.admits(&mut late, &stray, 0));
    }
    assert_eq!(late.state(), State::SynReceived);
    assert!(!listener.admits(&mut late, &last_ack(), 0));
    let mut reset = Transmit::default();
    assert!(late.poll_transmit(NOW, &mut reset));
    assert_eq!((reset.header.flags, reset.header.seq), (Flags::RST, 8));
    assert_eq!(late.state(), State::Closed);
}

#[test]
fn without_cookies_a_full_queue_ignores() {
    let config = Config {
        syn_cookies: SynCookies::Never,
        ..Config::default()
    };
    let mut listener = listener(config, 0);
    assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Open);
    assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Ignore);
    assert_eq!(listener.overflow_count(), 0);
}

#[test]
fn vma_tcp_max_syn_rate_limits_a_listener() {
    let config = Config {
        syn_rate_max: 10,
        ..Config::default()
    };
    let mut listener = listener(config, 1000);
    let opened = (0..1000u64)
        .filter(|index| {
            let now = NOW + Duration::from_millis(*index);
            listener.on_segment(now, &syn()) == ListenDisposition::Open
        })
        .count();
    assert!((9..=11).contains(&opened), "{opened}");
}

#[test]
fn tcp_defer_accept_waits_for_data_and_reminds_at_the_end() {
    let mut listener = listener(Config::default(), 10);
    listener.set_defer_accept(3);
    assert_eq!(listener.on_segment(NOW, &syn()), ListenDisposition::Open);
    let mut connection = embryo(&syn());
    let ack = Header {
        seq: 1001,
        ack: 8,
        ..header(Flags::ACK)
    };
    assert!(!listener.admits(&mut connection, &ack, 0));
    assert!(listener.admits(&mut connection, &ack, 5));
    let mut now = NOW;
    let mut reminders = vec![];
    for _ in 0..2 {
        now = connection.poll_timeout().unwrap();
        connection.on_timeout(now);
        if connection.poll_transmit(now, &mut Transmit::default()) {
            reminders.push(now - NOW);
        }
    }
    assert_eq!(reminders, [Duration::from_secs(3)]);
    assert!(listener.admits(&mut connection, &ack, 0));
    connection.on_segment(now, &ack, Ecn::NotEct, None);
    assert_eq!(connection.state(), State::Established);
}

/// The answer with a cookie of a stack with `config` to a SYN that offers everything.
fn answer_of(config: Config) -> Header {
    let key = SecretKey::new([7; 16]);
    let options = HeaderOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 1, echo: 0 }),
        ..HeaderOptions::default()
    };
    let syn = Header {
        options,
        ..header(Flags::SYN | Flags::ECE | Flags::CWR)
    };
    let mut answer = Transmit::default();
    let (path, flow) = (Path::ipv4(1500), flow(&key));
    let listener = listener(config, 0);
    listener.answer_with_cookie(NOW, &flow, &path, &Options::default(), &syn, &mut answer);
    answer.header
}

#[test]
fn a_cookie_agrees_to_what_the_stack_has() {
    let agreed = |config| {
        let header = answer_of(config);
        let options = header.options;
        let echo = options.timestamps.map(|timestamps| timestamps.value);
        let carried = echo.map(crate::syn_cookie::options_from);
        let has_ecn = header.flags.contains(Flags::ECE);
        let scale = options.window_scale.is_some();
        if let Some(carried) = carried {
            assert_eq!(carried.window_scale.is_some(), scale);
            assert_eq!(carried.sack, options.sack_permitted);
            assert_eq!(carried.ecn, has_ecn);
        }
        (scale, options.sack_permitted, has_ecn, carried.is_some())
    };
    let config = Config::default();
    assert_eq!(agreed(config.clone()), (true, true, true, true));
    let no_scaling = Config {
        window_scaling: false,
        ..config.clone()
    };
    assert_eq!(agreed(no_scaling), (false, true, true, true));
    let no_sack = Config {
        sack: false,
        ..config.clone()
    };
    assert_eq!(agreed(no_sack), (true, false, true, true));
    let no_ecn = Config {
        ecn: crate::EcnMode::Off,
        ..config.clone()
    };
    assert_eq!(agreed(no_ecn), (true, true, false, true));
    let no_timestamps = Config {
        timestamps: false,
        ..config
    };
    assert_eq!(agreed(no_timestamps), (false, false, false, false));
}

/// `secs_to_retrans`: intervals double up to two minutes.
#[test]
fn so_many_syn_acks_fit_into_a_time() {
    for (secs, count) in [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 2),
        (4, 3),
        (127, 7),
        (250, 9),
        (u32::MAX, 255),
    ] {
        assert_eq!(syn_acks_within(secs), count, "{secs}");
    }
}

fn flow(key: &SecretKey) -> SecretFlow<'_> {
    SecretFlow {
        key,
        local: "192.0.2.1:80".parse().unwrap(),
        remote: "192.0.2.2:4000".parse().unwrap(),
    }
}

/// A SYN with all options through a cookie; returns the connection after its first ACK.
fn through_a_cookie(options: HeaderOptions) -> (Listener, Connection<Vec<u8>>, Header, Instant) {
    let mut listener = listener(Config::default(), 0);
    let key = SecretKey::new([7; 16]);
    listener.on_segment(NOW, &syn());
    let syn = Header { options, ..syn() };
    assert_eq!(listener.on_segment(NOW, &syn), ListenDisposition::Cookie);
    let mut answer = Transmit::default();
    let path = Path::ipv4(1500);
    listener.answer_with_cookie(
        NOW,
        &flow(&key),
        &path,
        &Options::default(),
        &syn,
        &mut answer,
    );
    let answer = answer.header;
    assert_eq!((answer.flags, answer.ack), (Flags::SYN | Flags::ACK, 1001));

    let now = NOW + Duration::from_millis(50);
    let ack = Header {
        seq: 1001,
        ack: answer.seq.wrapping_add(1),
        options: HeaderOptions {
            timestamps: answer.options.timestamps.map(|timestamps| Timestamps {
                value: 5050,
                echo: timestamps.value,
            }),
            ..HeaderOptions::default()
        },
        ..header(Flags::ACK)
    };
    let forged = Header {
        ack: ack.ack.wrapping_add(100),
        ..ack
    };
    let syn_ack = Header {
        flags: Flags::SYN | Flags::ACK,
        ..ack
    };
    for wrong in [forged, syn_ack] {
        let refused: Result<Connection<Vec<u8>>, _> =
            listener.accept_cookie(now, &flow(&key), path, Options::default(), &wrong);
        assert_eq!(refused.err(), Some(CookieError::Invalid));
    }
    assert_eq!(listener.half_open_count(), 1);
    let mut connection: Connection<Vec<u8>> = listener
        .accept_cookie(now, &flow(&key), path, Options::default(), &ack)
        .expect("the cookie is good");
    assert!(connection.is_embryonic());
    assert!(listener.admits(&mut connection, &ack, 0));
    connection.on_segment(now, &ack, Ecn::NotEct, None);
    connection.check_invariants();
    assert_eq!(connection.state(), State::Established);
    (listener, connection, answer, now)
}

#[test]
fn rfc4987_3_6_a_cookie_carries_the_options_in_the_timestamp() {
    let options = HeaderOptions {
        mss: Some(1460),
        window_scale: Some(9),
        sack_permitted: true,
        timestamps: Some(Timestamps {
            value: 5000,
            echo: 0,
        }),
        ..HeaderOptions::default()
    };
    let (listener, mut connection, answer, now) = through_a_cookie(options);
    assert_eq!(listener.half_open_count(), 2);
    let info = connection.info(now);
    assert!(info.has_sack && info.has_timestamps);
    assert_eq!(info.window_scales.unwrap().snd, 9);
    assert_eq!(
        Some(info.window_scales.unwrap().rcv),
        answer.options.window_scale
    );
    assert_eq!(info.snd_mss, 1448);
    assert_eq!(
        info.rtt,
        Duration::ZERO,
        "nobody knows when the SYN-ACK was sent"
    );
    // It works.
    connection.write(now, b"hello").unwrap();
    let mut transmit = Transmit::default();
    assert!(connection.poll_transmit(now, &mut transmit));
    assert_eq!(transmit.header.seq, answer.seq.wrapping_add(1));
    assert!(connection.payload(&transmit).eq([&b"hello"[..]]));
}

#[test]
fn a_cookie_without_timestamps_has_an_mss_only() {
    let options = HeaderOptions {
        mss: Some(1400),
        window_scale: Some(9),
        sack_permitted: true,
        ..HeaderOptions::default()
    };
    let (_, connection, answer, now) = through_a_cookie(options);
    let expected = HeaderOptions {
        mss: Some(1460),
        ..HeaderOptions::default()
    };
    assert_eq!(answer.options, expected);
    let info = connection.info(now);
    assert!(!info.has_sack && !info.has_timestamps && info.window_scales.is_none());
    assert_eq!(info.snd_mss, 1300);

    let (_, connection, _, now) = through_a_cookie(HeaderOptions::default());
    assert_eq!(connection.info(now).snd_mss, 536);
}

#[test]
fn cookies_are_not_looked_at_unless_some_were_issued() {
    let mut listener = listener(Config::default(), 1);
    let key = SecretKey::new([7; 16]);
    let cookie = crate::syn_cookie::issue(
        &key,
        flow(&key).local,
        flow(&key).remote,
        SeqNumber(1000),
        1460,
        NOW,
    );
    let ack = Header {
        seq: 1001,
        ack: cookie.0.wrapping_add(1),
        ..header(Flags::ACK)
    };
    let path = Path::ipv4(1500);
    let accept = |listener: &mut Listener, now| {
        let accepted: Result<Connection<Vec<u8>>, _> =
            listener.accept_cookie(now, &flow(&key), path, Options::default(), &ack);
        accepted.map(drop)
    };
    assert_eq!(accept(&mut listener, NOW), Err(CookieError::Invalid));
    for _ in 0..3 {
        listener.on_segment(NOW, &syn());
    }
    assert_eq!(accept(&mut listener, NOW), Ok(()));
    assert_eq!(listener.half_open_count(), 3);
    let late = NOW + Duration::from_secs(120);
    assert_eq!(accept(&mut listener, late), Err(CookieError::Invalid));
    // The backlog is one, and Linux lets one more wait.
    listener.on_established();
    listener.on_established();
    let overflow_count = listener.overflow_count();
    assert_eq!(accept(&mut listener, NOW), Err(CookieError::QueueFull));
    assert_eq!(listener.overflow_count(), overflow_count + 1);
}
