//! Two endpoints over networks that lose, double, delay and mark, behind devices that are full at
//! times, with applications that write, read, rest and end as a seed says. The streams must be
//! exact, both sides must come to an end, and nothing may take for ever.
//!
//! `SIMULATION_SEEDS=first..end` plays other seeds than the default; `SIMULATION_SEEDS=n` plays one
//! and tells about it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tcp::{
    Config, CongestionAlgorithm, EcnMode, Instant, MtuProbing, Options, Path, SocketOption, State,
};
use testkit::link::Loss;

mod support;

use support::device::Device;
use support::network::{Conditions, Link, Rng};
use support::pair::{End, Ending, Pair, Plan};
use support::seeds;

const VARIABLE: &str = "SIMULATION_SEEDS";

/// Seeds that a run of all tests plays.
const SEEDS: u64 = 100_000;

/// No connection takes longer, whatever is lost: nothing is ever lost for good.
const LONGEST: Duration = Duration::from_secs(6 * 3600);

const MOST_STEPS: u32 = 400_000;

fn conditions(rng: &mut Rng) -> Conditions {
    let delay = Duration::from_micros(rng.pick(&[10, 100, 1_000, 10_000, 100_000]));
    let mut conditions = Conditions::perfect(delay);
    let link = &mut conditions.link;
    link.reorder_delay = delay * 3;
    if rng.chance(300_000) {
        link.rate_bits_per_second = Some(rng.pick(&[80_000, 800_000, 8_000_000, 800_000_000]));
        // Two of the largest packets, at least.
        link.queue_octets = rng.pick(&[20_000, 200_000]);
    }
    if rng.chance(600_000) {
        // More than a few hundredths in bursts would be more loss than anybody can repair before he
        // gives up.
        link.loss = rng.pick(&[
            Loss::Random(0.001),
            Loss::Random(0.01),
            Loss::Random(0.05),
            Loss::Random(0.15),
            Loss::Run {
                start: 0.001,
                len: 6,
            },
            Loss::Run {
                start: 0.01,
                len: 6,
            },
        ]);
    }
    if rng.chance(300_000) {
        link.duplicate = rng.pick(&[0.001, 0.05, 0.3]);
    }
    if rng.chance(300_000) {
        link.reorder = rng.pick(&[0.001, 0.05, 0.3]);
    }
    if rng.chance(200_000) {
        conditions.corrupt = rng.pick(&[1_000, 50_000]);
    }
    if rng.chance(200_000) {
        conditions.mark = rng.pick(&[10_000, 200_000]);
    }
    conditions
}

fn config(rng: &mut Rng) -> Config {
    let ecn = rng.pick(&[EcnMode::Off, EcnMode::On, EcnMode::Passive]);
    let mtu_probing = match rng.chance(100_000) {
        true => rng.pick(&[MtuProbing::AfterBlackHole, MtuProbing::Always]),
        false => MtuProbing::Off,
    };
    Config {
        timestamps: rng.chance(700_000),
        sack: rng.chance(800_000),
        window_scaling: rng.chance(800_000),
        ecn,
        // A handshake or an end that loss prevents is not what is tested here.
        syn_retries: 30,
        syn_ack_retries: 30,
        retries2: 30,
        orphan_retries: 30,
        mtu_probing,
        ..Config::default()
    }
}

fn options(rng: &mut Rng) -> Options {
    let mut options = Options::default();
    let mut set = |option| options.set(option).expect("the value is in range");
    if rng.chance(300_000) {
        set(SocketOption::NoDelay(true));
    }
    if rng.chance(200_000) {
        set(SocketOption::ReceiveBuffer(
            rng.pick(&[2_304, 5_000, 20_000]),
        ));
    }
    if rng.chance(200_000) {
        set(SocketOption::SendBuffer(rng.pick(&[4_608, 10_000])));
    }
    if rng.chance(100_000) {
        set(SocketOption::MaxSegment(rng.pick(&[88, 536, 1000])));
    }
    if rng.chance(100_000) {
        set(SocketOption::NotSentLowWater(rng.pick(&[1, 2_000])));
    }
    if rng.chance(200_000) {
        set(SocketOption::Congestion(CongestionAlgorithm::NewReno));
    }
    if rng.chance(100_000) {
        set(SocketOption::KeepAlive(true));
        set(SocketOption::KeepIdle(Duration::from_secs(1)));
        set(SocketOption::KeepCount(100));
    }
    options
}

fn plans(rng: &mut Rng) -> [Plan; 2] {
    let mut plans = [(); 2].map(|()| {
        let most = rng.pick(&[0, 1, 1_000, 20_000, 60_000]);
        Plan {
            to_send: u32::try_from(rng.between(0, most)).expect("small"),
            write_size: rng.pick(&[10, 1_000, 30_000]).max(most / 200 + 1),
            read_size: rng.pick(&[100, 1_000, 30_000]).max(most / 200 + 1),
            write_rest: Duration::from_millis(rng.pick(&[0, 1, 300])),
            read_rest: Duration::from_millis(rng.pick(&[0, 1, 300])),
            ending: Ending::HalfClose,
            takes_payloads: rng.chance(200_000),
            changes_options: rng.chance(200_000),
        }
    });
    match rng.between(0, 9) {
        0 | 1 => {
            plans[1].to_send = 0;
            plans[0].ending = Ending::Close;
        }
        2 | 3 => plans[1].ending = Ending::AfterPeer,
        4 => {
            let side = usize::from(rng.chance(500_000));
            let after = rng.between(0, u64::from(plans[side].to_send));
            plans[side].ending = Ending::Abort(u32::try_from(after).expect("small"));
        }
        _ => {}
    }
    plans
}

fn initial_number(rng: &mut Rng) -> u32 {
    // Often close to where numbers, or their signs, wrap.
    let near = rng.pick(&[
        0,
        u32::MAX,
        1 << 31,
        u32::try_from(rng.clone().next() >> 32).expect("half of it"),
    ]);
    near.wrapping_sub(u32::try_from(rng.between(0, 3_000)).expect("small"))
}

fn simulate(seed: u64, tells: bool) {
    let mut rng = Rng::new(seed);
    let plans = plans(&mut rng);
    let is_abortive = plans
        .iter()
        .any(|plan| matches!(plan.ending, Ending::Abort(_)));
    let sent = plans.clone().map(|plan| plan.to_send);
    // Of a generator of its own, so that a seed's other choices are what they are without it.
    let mut fast_open = Rng::new(!seed);
    let mut hole = Rng::new(seed.wrapping_mul(3));
    let mut shortage = Rng::new(seed.wrapping_mul(5));
    let mut device = Rng::new(seed.wrapping_mul(7));
    let mut congestion = Rng::new(seed.wrapping_mul(11));
    let is_hole = hole.chance(50_000);
    let mut ends = plans.map(|plan| {
        let mtu = rng.pick(&[296, 576, 1_500, 9_000]);
        let (mut config, options) = (config(&mut rng), options(&mut rng));
        if is_hole {
            config.mtu_probing = hole.pick(&[MtuProbing::AfterBlackHole, MtuProbing::Always]);
        }
        let (iss, own) = (initial_number(&mut rng), Rng::new(rng.next()));
        let path = Path {
            max_offload_len: rng.pick(&[0, 0, 5_000, 60_000]),
            ..Path::ipv4(mtu)
        };
        let mut end = End::new(config, options, path, iss, plan, own);
        end.opens_fast = fast_open.chance(500_000);
        end.shortage = shortage.chance(150_000).then(|| Rng::new(shortage.next()));
        end.device = device.chance(200_000).then(|| Device::new(device.next()));
        end
    });
    // Not where a device is full at times: what `Device` asks of a repeated timeout does not hold
    // if the peer reports again, meanwhile, what it seemed to have thrown away, which happens in
    // two of these seeds (8068 and 69937).
    if ends.iter().all(|end| end.device.is_none()) {
        for end in &mut ends {
            if congestion.chance(400_000) {
                let bbr = SocketOption::Congestion(CongestionAlgorithm::Bbr);
                end.options.set(bbr).expect("it is there");
            }
        }
    }
    let links = [(); 2].map(|()| {
        let mut conditions = conditions(&mut rng);
        if is_hole {
            conditions.largest = hole.pick(&[400, 700, 1_300]);
        }
        let link = Link::new(conditions, rng.next());
        Rc::new(RefCell::new(link))
    });
    let start = Instant::from_nanos(rng.pick(&[0, 1, 1_000_000_000_000, u64::MAX / 4]));
    let clock_jump = Duration::from_millis(rng.pick(&[0, 0, 0, 10, 3_000]));
    if tells {
        let [a, b] = &ends;
        println_to_test(&format!(
            "{links:#?}\n{:#?} {:#?}\n{:?} {:?}",
            a.config, b.config, a.options, b.options
        ));
    }
    let mut pair = Pair::new(ends, links, start, rng);
    pair.clock_jump = clock_jump;
    let mut steps = 0;
    while !pair.is_over() {
        let goes_on = pair.step();
        steps += 1;
        if tells {
            let states = pair
                .ends
                .each_ref()
                .map(|end| end.connection.as_ref().map(tcp::Connection::state));
            let progress = pair.ends.each_ref().map(|end| (end.written, end.read));
            println_to_test(&format!(
                "{:?} {states:?} {progress:?}",
                pair.now.saturating_since(start)
            ));
        }
        let ends = pair.ends.each_ref().map(|end| {
            let state = end.connection.as_ref().map(tcp::Connection::state);
            (state, end.written, end.read, end.has_closed, end.error)
        });
        // A side that nobody has connected to before its peer gave up.
        let never = pair.ends[1].connection.is_none() && pair.ends[0].is_over();
        if never {
            break;
        }
        // A reset that is lost is not sent again: the other side waits for ever, as it would
        // anywhere.
        if is_abortive && !goes_on && pair.ends.iter().any(End::is_over) {
            break;
        }
        assert!(goes_on, "nothing happens any more: {ends:?}");
        assert!(steps < MOST_STEPS, "no end after {steps} steps: {ends:?}");
        let elapsed = pair.now.saturating_since(start);
        assert!(elapsed < LONGEST, "no end after {elapsed:?}: {ends:?}");
        if is_abortive && pair.ends.iter().any(End::is_over) && elapsed > LONGEST / 2 {
            break;
        }
    }
    check_result(&pair, sent, is_abortive);
}

fn check_result(pair: &Pair, sent: [u32; 2], is_abortive: bool) {
    let packets: u64 = pair
        .links
        .iter()
        .map(|link| link.borrow().counts().packets)
        .sum();
    let octets = u64::from(sent[0]) + u64::from(sent[1]);
    // The smallest segments, each lost and probed for many times, and then some.
    let most = 20_000 + octets;
    assert!(packets < most, "{packets} packets for {octets} octets");
    for side in 0..2 {
        let end = &pair.ends[side];
        let expected = sent[1 - side];
        assert!(end.read <= expected, "more was read than sent");
        if is_abortive {
            continue;
        }
        assert_eq!(end.error, None, "side {side} failed");
        // Who closes without reading need not have read all.
        let must_read = end.peer_has_ended || expected == 0;
        assert!(
            !must_read || end.read == expected,
            "side {side} read {} of {expected}",
            end.read
        );
        assert_eq!(end.written, sent[side], "side {side} did not write all");
        let state = end.connection.as_ref().map(tcp::Connection::state);
        assert!(
            matches!(state, Some(State::Closed | State::TimeWait)),
            "{state:?}"
        );
    }
}

fn println_to_test(line: &str) {
    use std::io::Write;
    drop(writeln!(std::io::stderr(), "{line}"));
}

#[test]
fn streams_are_exact_and_connections_end() {
    let seeds = seeds::wanted(VARIABLE, SEEDS);
    let tells = seeds.end - seeds.start == 1;
    seeds::play_all(VARIABLE, seeds, |seed| simulate(seed, tells));
}
