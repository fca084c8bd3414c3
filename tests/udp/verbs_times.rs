//! Times by the clock of an emulated ConnectX card.

use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::thread;
use std::time::Duration;

use testkit::{
    Accelerated, Namespaces, Pair, SOON, VerbsQueues, emulated_verbs, eventually, or_skip,
    preloaded,
};

const PORT: u16 = 7947;
/// Datagrams wait for so long before they are read.
const WAIT: Duration = Duration::from_millis(300);

const TRY: Duration = Duration::from_millis(200);

/// Answers once, so that it is past the kernel. Then tells, for each line that comes, how many
/// microseconds before it was read the next datagram came: by the software's time, and by the
/// card's, which counts from another beginning if the second argument says so.
const RECEIVER: &str = r"
import socket, struct, sys, time
clock = time.CLOCK_MONOTONIC if sys.argv[2] == 'raw' else time.CLOCK_REALTIME
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 37, 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6)
s.bind((sys.argv[1], 7947))
print('ready', flush=True)
data, sender = s.recvfrom(64)
s.sendto(data, sender)
for line in sys.stdin:
    data, control, _, _ = s.recvmsg(64, 256)
    now, by_card = time.time_ns(), time.clock_gettime_ns(clock)
    times = [data for level, kind, data in control if kind == 37]
    seconds = struct.unpack('6q', times[0])
    software, hardware = (seconds[at] * 10**9 + seconds[at + 1] for at in (0, 4))
    print((now - software) // 1000, (by_card - hardware) // 1000, flush=True)
";

/// Ages by the software's and by the card's time, in microseconds, of datagrams that wait.
fn ages(conversion: &str, clock: &str) -> Vec<[i64; 2]> {
    let pair = Namespaces::pair().unwrap();
    pair.make_wire();
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command
        .args(["-c", RECEIVER, &Pair::ADDRESS_B.to_string(), clock])
        .envs(emulated_verbs(VerbsQueues::Mlx5).unwrap())
        // Only the program's own calls take anything in.
        .env("VMA_PROGRESS_ENGINE_INTERVAL", "0")
        .env("VMA_HW_TS_CONVERSION", conversion);
    let mut receiver = Accelerated::start(command).unwrap();
    let mut input = receiver.process().stdin().unwrap();
    assert!(receiver.process().wait_for_output("ready", SOON));
    let bind = || UdpSocket::bind((Pair::ADDRESS_A, 0));
    let sender = pair.a.enter(bind).unwrap();
    sender.set_read_timeout(Some(TRY)).unwrap();
    let send = || sender.send_to(b"x", (Pair::ADDRESS_B, PORT)).unwrap();
    // A datagram may be lost while the neighbours learn of each other.
    let is_answered = || {
        send();
        sender.recv(&mut [0; 1]).is_ok()
    };
    assert!(
        eventually(SOON, is_answered),
        "{}",
        receiver.process().stderr()
    );
    let mut ages = Vec::new();
    for number in 1..=5 {
        send();
        thread::sleep(WAIT);
        input.write_all(b"read\n").unwrap();
        let process = receiver.process();
        let is_told = || process.stdout().lines().count() > number;
        assert!(eventually(SOON, is_told), "{}", process.stderr());
        let said = process.stdout();
        let last = said.lines().last().unwrap();
        let mut words = last.split(' ').map(|word| word.parse().unwrap());
        ages.push([(); 2].map(|()| words.next().unwrap()));
    }
    drop(input);
    assert!(receiver.into_process().wait(SOON).unwrap().status.success());
    ages
}

/// The card stamps a packet when it comes, however late it is read.
#[test]
fn datagrams_bear_the_cards_time() {
    drop(or_skip!(Namespaces::pair()));
    for (conversion, clock) in [("3", "system"), ("1", "raw")] {
        for [software, card] in ages(conversion, clock) {
            let waited = i64::try_from(WAIT.as_micros()).unwrap();
            assert!(software >= waited - 1_000, "{conversion}: {software} us");
            // The program reads the two clocks one after the other.
            let differ = (software - card).abs();
            assert!(differ < 50_000, "{conversion}: {software} and {card} us");
        }
    }
}
