//! What the two ends agree on, and what they do not.

use std::io::Read;
use std::net::TcpStream;

use socket2::SockRef;
use tcp::{Config, EcnMode, Event, Info, ReadError, SocketOption, UrgentError};
use testkit::or_skip;

use crate::lab::{ENGINE, Lab, OPENERS, Opener, Setup};
use crate::transfer::{LOSSY, exchange};

const SOME: u64 = 1 << 20;

type Sysctls = &'static [(&'static str, &'static str)];

/// Transfers on a lossy link for each opener; `check` gets the engine's and the kernel's view.
fn for_each_opener(config: &Config, sysctls: Sysctls, check: impl Fn(&Info, &str)) {
    for opener in OPENERS {
        let mut lab = or_skip!(Lab::with(Setup {
            conditions: LOSSY,
            config: config.clone(),
            sysctls,
            ..Setup::default()
        }));
        let (id, stream) = lab.open(opener);
        exchange(&mut lab, id, &stream, SOME);
        let now = lab.now();
        let info = lab.host().connections[id].connection.info(now);
        let kernel = lab.ss(&["-tinoH", "dst", &ENGINE.to_string()]);
        check(&info, &kernel);
    }
}

/// Whether ss(8) shows `word`, or `word:` with a value.
fn shows(kernel: &str, word: &str) -> bool {
    let mut words = kernel.split_whitespace();
    words.any(|shown| shown == word || shown.starts_with(&format!("{word}:")))
}

#[test]
fn both_agree_on_all_options() {
    for_each_opener(&Config::default(), &[], |info, kernel| {
        let scales = info.window_scales.is_some();
        assert!(
            info.has_timestamps && info.has_sack && scales && !info.has_ecn,
            "{info:?}"
        );
        for word in ["ts", "sack", "wscale"] {
            assert!(shows(kernel, word), "{word}: {kernel}");
        }
    });
}

#[test]
fn timestamps_need_both() {
    let without = Config {
        timestamps: false,
        ..Config::default()
    };
    let check = |info: &Info, kernel: &str| {
        assert!(!info.has_timestamps && info.has_sack, "{info:?}");
        assert!(!shows(kernel, "ts") && shows(kernel, "sack"), "{kernel}");
    };
    for_each_opener(&without, &[], check);
    for_each_opener(&Config::default(), &[("tcp_timestamps", "0")], check);
}

#[test]
fn sack_needs_both() {
    let without = Config {
        sack: false,
        ..Config::default()
    };
    let check = |info: &Info, kernel: &str| {
        assert!(info.has_timestamps && !info.has_sack, "{info:?}");
        assert!(shows(kernel, "ts") && !shows(kernel, "sack"), "{kernel}");
    };
    for_each_opener(&without, &[], check);
    for_each_opener(&Config::default(), &[("tcp_sack", "0")], check);
}

#[test]
fn window_scaling_needs_both() {
    let without = Config {
        window_scaling: false,
        ..Config::default()
    };
    let check = |info: &Info, kernel: &str| {
        assert_eq!(info.window_scales, None);
        assert!(!shows(kernel, "wscale"), "{kernel}");
    };
    for_each_opener(&without, &[], check);
    for_each_opener(&Config::default(), &[("tcp_window_scaling", "0")], check);
}

#[test]
fn plain_tcp_works() {
    let sysctls: Sysctls = &[
        ("tcp_timestamps", "0"),
        ("tcp_sack", "0"),
        ("tcp_window_scaling", "0"),
    ];
    for_each_opener(&Config::default(), sysctls, |info, _| {
        assert!(
            !info.has_timestamps && !info.has_sack && info.window_scales.is_none(),
            "{info:?}"
        );
    });
}

#[test]
fn ecn_needs_both() {
    let asking = Config {
        ecn: EcnMode::On,
        ..Config::default()
    };
    for_each_opener(&asking, &[("tcp_ecn", "1")], |info, kernel| {
        assert!(info.has_ecn, "{info:?}");
        assert!(shows(kernel, "ecn"), "{kernel}");
    });
    for_each_opener(&asking, &[("tcp_ecn", "0")], |info, kernel| {
        assert!(!info.has_ecn, "{info:?}");
        assert!(!shows(kernel, "ecn"), "{kernel}");
    });
}

#[test]
fn the_passive_mode_of_ecn_agrees_but_does_not_ask() {
    for opener in OPENERS {
        let mut lab = or_skip!(Lab::with(Setup {
            sysctls: &[("tcp_ecn", "1")],
            ..Setup::default()
        }));
        let (id, _stream) = lab.open(opener);
        let now = lab.now();
        let info = lab.host().connections[id].connection.info(now);
        assert_eq!(info.has_ecn, matches!(opener, Opener::Kernel), "{opener:?}");
    }
}

#[test]
fn segments_are_as_small_as_the_link_wants_them() {
    for mtu_bytes in [576, 296] {
        for opener in OPENERS {
            let mut lab = or_skip!(Lab::with(Setup {
                conditions: LOSSY,
                mtu_bytes,
                ..Setup::default()
            }));
            let (id, stream) = lab.open(opener);
            exchange(&mut lab, id, &stream, SOME / 4);
            let now = lab.now();
            let info = lab.host().connections[id].connection.info(now);
            assert_eq!(info.snd_mss, u32::from(mtu_bytes) - 40 - 12);
        }
    }
}

#[test]
fn segments_are_as_small_as_the_kernel_wants_them() {
    let mut lab = or_skip!(Lab::new());
    let listener = lab.kernel_listener();
    SockRef::from(&listener).set_tcp_mss(300).unwrap();
    let id = lab.connect();
    let accepted = lab.wait_for("accept", move || listener.accept());
    let (stream, _) = accepted.unwrap();
    exchange(&mut lab, id, &stream, SOME / 4);
    let now = lab.now();
    let info = lab.host().connections[id].connection.info(now);
    assert_eq!(info.snd_mss, 300 - 12);
}

#[test]
fn segments_are_as_small_as_the_engines_application_wants_them() {
    let mut lab = or_skip!(Lab::new());
    let options = &mut lab.host().options;
    options.set(SocketOption::MaxSegment(300)).unwrap();
    let (id, stream) = lab.open(Opener::Kernel);
    exchange(&mut lab, id, &stream, SOME / 4);
    let now = lab.now();
    let info = lab.host().connections[id].connection.info(now);
    assert_eq!(info.snd_mss, 300 - 12);
    let kernel = lab.ss(&["-tinH"]);
    assert!(kernel.contains("mss:288"), "{kernel}");
}

#[test]
fn urgent_data_reaches_the_kernel() {
    let mut lab = or_skip!(Lab::new());
    let (id, mut stream) = lab.open(Opener::Engine);
    let now = lab.now();
    let connection = &mut lab.host().connections[id].connection;
    assert_eq!(connection.write_urgent(now, b"abcX"), Ok(4));
    assert_eq!(connection.write(now, b"def"), Ok(3));
    let read = lab.wait_for("data", move || {
        let mut before = [0; 10];
        let before_len = stream.read(&mut before)?;
        let mut urgent = [std::mem::MaybeUninit::uninit()];
        let urgent_len = SockRef::from(&stream).recv_out_of_band(&mut urgent)?;
        let mut behind = [0; 10];
        let behind_len = stream.read(&mut behind)?;
        Ok((
            before[..before_len].to_vec(),
            urgent_len,
            behind[..behind_len].to_vec(),
        ))
    });
    let (before, urgent_len, behind) = read.unwrap();
    assert_eq!(
        (&before[..], urgent_len, &behind[..]),
        (&b"abc"[..], 1, &b"def"[..])
    );
}

#[test]
fn urgent_data_of_the_kernel_arrives() {
    let mut lab = or_skip!(Lab::new());
    let (id, stream): (usize, TcpStream) = lab.open(Opener::Kernel);
    let socket = SockRef::from(&stream);
    assert_eq!(socket.send_out_of_band(b"abcX").unwrap(), 4);
    assert_eq!(socket.send(b"def").unwrap(), 3);
    lab.run_until("all data", |host, now| {
        host.connections[id].connection.info(now).octets_received == 7
    });
    let now = lab.now();
    let held = &mut lab.host().connections[id];
    assert!(held.events.contains(&Event::Urgent));
    let connection = &mut held.connection;
    assert!(connection.has_urgent());
    // As SIOCINQ: up to the urgent octet.
    assert_eq!(connection.readable_len(), 3);
    let mut buffer = [0; 10];
    assert_eq!(connection.read(now, &mut buffer), Ok(3));
    assert_eq!(&buffer[..3], b"abc");
    assert!(connection.is_at_mark());
    assert_eq!(connection.read_urgent(), Ok(b'X'));
    assert_eq!(connection.read_urgent(), Err(UrgentError::None));
    assert_eq!(connection.read(now, &mut buffer), Ok(3));
    assert_eq!(&buffer[..3], b"def");
    assert_eq!(
        connection.read(now, &mut buffer),
        Err(ReadError::WouldBlock)
    );
}
