//! Two kernels joined by a relay.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use testkit::link::{Conditions, Loss};
use testkit::{Namespace, Relay, Skip, Tun, or_skip};

const A: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);

const LIMIT: Duration = Duration::from_secs(60);

type Ends = (Namespace, Namespace, Relay<Tun, Tun>);

fn ends(conditions: Conditions) -> Result<Ends, Skip> {
    let (a, b) = (Namespace::create("a")?, Namespace::create("b")?);
    let relay = Relay::new(
        Tun::create(&a, "tun0", A, 1500)?,
        Tun::create(&b, "tun0", B, 1500)?,
        conditions,
        1,
    );
    Ok((a, b, relay))
}

#[test]
fn datagrams_cross_a_perfect_link_both_ways() {
    let (a, b, mut relay) = or_skip!(ends(Conditions::default()));
    let at_a = a.enter(|| UdpSocket::bind((A, 7000))).unwrap();
    let at_b = b.enter(|| UdpSocket::bind((B, 7000))).unwrap();
    for (from, to, address) in [(&at_a, &at_b, B), (&at_b, &at_a, A)] {
        from.send_to(b"hello", (address, 7000)).unwrap();
        to.set_nonblocking(true).unwrap();
        let mut buffer = [0; 10];
        let received = relay.run_until(LIMIT, |_| to.recv(&mut buffer).is_ok());
        assert!(received.unwrap());
        assert_eq!(&buffer[..5], b"hello");
    }
}

#[test]
fn delay_is_added_in_each_direction() {
    let conditions = Conditions {
        delay: Duration::from_millis(20),
        ..Conditions::default()
    };
    let (a, b, mut relay) = or_skip!(ends(conditions));
    let listener = b.enter(|| TcpListener::bind((B, 7000))).unwrap();
    let (times, time) = mpsc::channel();
    thread::spawn(move || {
        a.enter(|| {
            let start = std::time::Instant::now();
            drop(TcpStream::connect((B, 7000)));
            // The test may have given up.
            let _ = times.send(start.elapsed());
        });
    });
    let mut measured = None;
    let done = relay.run_until(LIMIT, |_| {
        measured = time.try_recv().ok();
        measured.is_some()
    });
    assert!(done.unwrap());
    assert!(measured >= Some(Duration::from_millis(40)), "{measured:?}");
    drop(listener);
}

#[test]
fn kernels_make_up_for_losses() {
    const LEN: usize = 1 << 20;
    let conditions = Conditions {
        rate_bits_per_second: Some(100_000_000),
        loss: Loss::Random(0.01),
        reorder: 0.05,
        reorder_delay: Duration::from_millis(1),
        duplicate: 0.01,
        ..Conditions::default()
    };
    let (a, b, mut relay) = or_skip!(ends(conditions));
    let listener = b.enter(|| TcpListener::bind((B, 7000))).unwrap();
    let data: Vec<u8> = (0..=250).cycle().take(LEN).collect();
    let sent = data.clone();
    let sender = thread::spawn(move || {
        let mut stream = a.enter(|| TcpStream::connect((B, 7000)))?;
        stream.write_all(&sent)
    });
    let receiver = thread::spawn(move || {
        let mut received = Vec::new();
        let (mut stream, _) = listener.accept()?;
        stream.read_to_end(&mut received).map(|_| received)
    });
    let done = relay.run_until(LIMIT, |_| receiver.is_finished() && sender.is_finished());
    assert!(done.unwrap(), "{:?}", relay.counts());
    sender.join().unwrap().unwrap();
    assert!(receiver.join().unwrap().unwrap() == data);
    let [forward, _] = relay.counts();
    let seen = [forward.lost, forward.reordered, forward.duplicated];
    assert!(seen.iter().all(|count| *count > 0), "{forward:?}");
}
