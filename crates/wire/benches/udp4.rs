//! Nanoseconds per call of the parser, the emitter and the checksum: `cargo bench -p wire`.

#![allow(clippy::print_stdout, reason = "the report of a benchmark")]
#![allow(clippy::unwrap_used, reason = "the inputs are constants that fit")]

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Instant;

use wire::{ChecksumPolicy, EthernetAddresses, UdpTemplate, checksum, parse_udp4};

fn main() {
    let template = UdpTemplate::new(
        EthernetAddresses {
            source: [2, 0, 0, 0, 0, 1],
            destination: [2, 0, 0, 0, 0, 2],
        },
        SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 40_000),
        SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 12_345),
        64,
        0,
        true,
    );
    for payload_len in [12, 64, 256, 1472] {
        let payload = vec![0x5a; payload_len];
        let mut frame = vec![0; template.header_len() + payload_len];

        report("checksum::sum", payload_len, || {
            black_box(checksum::sum(black_box(&payload), 0));
        });
        report("checksum::copy_and_sum", payload_len, || {
            let target = black_box(&mut frame)
                .get_mut(template.header_len()..)
                .unwrap();
            black_box(checksum::copy_and_sum(target, black_box(&payload), 0));
        });
        report("emit_one", payload_len, || {
            black_box(
                template
                    .emit_one(black_box(&mut frame), 1, black_box(&payload))
                    .unwrap(),
            );
        });
        let halves = payload.split_at(payload_len / 2);
        report("emit of two parts", payload_len, || {
            let parts = [black_box(halves.0), black_box(halves.1)];
            black_box(
                template
                    .emit(black_box(&mut frame), 1, payload_len, parts)
                    .unwrap(),
            );
        });
        report("parse_udp4", payload_len, || {
            black_box(parse_udp4(black_box(&frame), ChecksumPolicy::Verify).unwrap());
        });
    }
}

/// Prints the fastest of several runs: the others were disturbed by something else on the machine.
fn report(name: &str, payload_len: usize, mut call: impl FnMut()) {
    const RUNS: u32 = 20;
    const CALLS: u32 = 200_000;
    let fastest = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                call();
            }
            start.elapsed()
        })
        .min()
        .unwrap();
    let nanoseconds = fastest.as_secs_f64() * 1e9 / f64::from(CALLS);
    println!("{name:<24} {payload_len:>5} B payload {nanoseconds:>8.1} ns");
}
