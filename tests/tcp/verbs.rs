//! Streams by the queue pairs of an RDMA device, an emulated one.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::thread;

use testkit::{
    Accelerated, Namespaces, Pair, Running, SOON, VerbsQueues, emulated_verbs, or_skip, preloaded,
};

const PORT: u16 = 7940;
const MEGABYTES: u64 = 16;

#[test]
fn a_stream_by_verbs_arrives_whole() {
    a_stream_arrives_whole(VerbsQueues::Calls);
}

#[test]
fn a_stream_by_mlx5_arrives_whole() {
    a_stream_arrives_whole(VerbsQueues::Mlx5);
}

/// Both ends may be accelerated; here one is, and the kernel checks what it does.
fn a_stream_arrives_whole(queues: VerbsQueues) {
    let pair = or_skip!(Namespaces::pair());
    pair.make_wire();
    let listener = pair
        .b
        .enter(|| TcpListener::bind((Pair::ADDRESS_B, PORT)))
        .unwrap();
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut buffer, mut total) = (vec![0; 1 << 20], 0_u64);
        loop {
            let count = stream.read(&mut buffer).unwrap();
            if count == 0 {
                stream.write_all(&total.to_ne_bytes()).unwrap();
                stream.shutdown(Shutdown::Both).unwrap();
                return total;
            }
            for (octet, place) in buffer[..count].iter().zip(total..) {
                assert_eq!(u64::from(*octet), place % 251, "octet {place}");
            }
            total += count as u64;
        }
    });
    let program = testkit::c_program("bulk_stream");
    let mut command = preloaded(&pair.a, &program).unwrap();
    command
        .args([Pair::ADDRESS_B.to_string(), PORT.to_string()])
        .args([MEGABYTES.to_string(), "65536".to_owned()])
        .envs(emulated_verbs(queues).unwrap());
    let mut sender = Accelerated::start(command).unwrap();
    let mut input = sender.process().stdin().unwrap();
    let mut until = |word| {
        let process = sender.process();
        assert!(process.wait_for_output(word, SOON), "{}", process.stderr());
    };
    until("half");
    input.write_all(b"go\n").unwrap();
    until("all");
    assert_eq!(receiver.join().unwrap(), MEGABYTES << 20);
    let ring = sender.reader().rings().unwrap().remove(0);
    let mode = match queues {
        VerbsQueues::Calls => "verbs emu_va",
        VerbsQueues::Mlx5 => "mlx5 emu_va",
    };
    assert_eq!(ring.mode, mode);
    assert!(ring.tx_packets > (MEGABYTES << 20) / 1448, "{ring:?}");
    assert!(ring.rx_packets > 0, "{ring:?}");
    drop(input);
    let finished = Running::wait(sender.into_process(), SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
}
