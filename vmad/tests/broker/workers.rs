//! Workers that accept from one listener, which their parent has opened.

use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Accelerated, eventually, or_skip};

use crate::lab::{Lab, exchange_octets};
use crate::{SIGKILL, end};

const PORT: u16 = 7201;

/// How many sockets of a worker are past the kernel, its listener among them.
fn accelerated(server: &Accelerated, worker: u32) -> usize {
    let sockets = server
        .try_reader_of(worker)
        .and_then(|it| it.sockets().ok());
    let sockets = sockets.unwrap_or_default();
    sockets.iter().filter(|it| it.offloaded).count()
}

fn await_workers(lab: &Lab, server: &Accelerated, workers: &[u32]) {
    let all = || workers.iter().all(|it| accelerated(server, *it) > 0);
    assert!(eventually(Duration::from_secs(20), all), "{}", lab.log());
}

fn tell(worker: u32, signal: Signal) {
    let worker = Pid::from_raw(worker.cast_signed()).unwrap();
    kill_process(worker, signal).unwrap();
}

#[test]
fn each_has_its_part_of_what_comes_to_the_listener() {
    let lab = or_skip!(Lab::new(""));
    let (server, workers) = lab.prefork_server(PORT, 3);
    await_workers(&lab, &server, &workers);
    let mut streams = lab.streams(PORT, 120);
    for stream in &mut streams {
        exchange_octets(stream, 20_000, 3).unwrap();
    }
    let counts: Vec<_> = workers.iter().map(|it| accelerated(&server, *it)).collect();
    assert!(counts.iter().all(|it| *it > 15), "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), 123, "{counts:?}");
}

/// As nginx as it is shipped: the broker knows them as what they were when they began.
#[test]
fn they_may_give_up_their_rights_first() {
    let lab = or_skip!(Lab::new(""));
    let (server, workers) = lab.prefork_server_as(PORT, 2, &["65533"]);
    await_workers(&lab, &server, &workers);
    let mut streams = lab.streams(PORT, 60);
    for stream in &mut streams {
        exchange_octets(stream, 20_000, 3).unwrap();
    }
    let counts: Vec<_> = workers.iter().map(|it| accelerated(&server, *it)).collect();
    assert_eq!(counts.iter().sum::<usize>(), 62, "{counts:?}");
}

/// Those that it does not accept go to others.
#[test]
fn a_worker_that_is_busy_keeps_nobody_waiting() {
    let lab = or_skip!(Lab::new(""));
    let (server, workers) = lab.prefork_server(PORT, 2);
    await_workers(&lab, &server, &workers);
    assert_eq!(lab.streams(PORT, 10).len(), 10);
    tell(workers[0], Signal::USR1);
    thread::sleep(Duration::from_millis(50));
    let begin = Instant::now();
    let mut streams = lab.streams(PORT, 20);
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    for stream in &mut streams {
        exchange_octets(stream, 20_000, 3).unwrap();
    }
    let sockets = server.reader_of(workers[1]).sockets().unwrap();
    let of_kernel = sockets.iter().filter(|it| !it.offloaded).count();
    println!("{of_kernel} of 20 by the kernel");
}

/// As at a reload: what it has it serves to its end, and what nobody has accepted is others'.
#[test]
fn a_worker_that_leaves_loses_nothing() {
    let lab = or_skip!(Lab::new(""));
    let (server, workers) = lab.prefork_server(PORT, 2);
    await_workers(&lab, &server, &workers);
    let mut streams = lab.streams(PORT, 40);
    thread::scope(|scope| {
        let (until, lab) = (Instant::now() + Duration::from_secs(1), &lab);
        let opens = scope.spawn(move || {
            let mut count = 0;
            while Instant::now() < until {
                count += lab.streams(PORT, 5).len();
            }
            count
        });
        thread::sleep(Duration::from_millis(200));
        tell(workers[0], Signal::TERM);
        assert!(opens.join().unwrap() > 10);
    });
    for stream in &mut streams {
        exchange_octets(stream, 5_000, 3).unwrap();
    }
    drop(streams);
    let is_over = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", workers[0]));
        stat.is_ok_and(|it| it.contains(") Z "))
    };
    assert!(eventually(Duration::from_secs(10), is_over));
    assert_eq!(lab.streams(PORT, 40).len(), 40);
}

/// Their listener is the kernel's meanwhile, and what came then they serve by the kernel.
#[test]
fn they_have_their_parts_again_when_the_broker_is_back() {
    let mut lab = or_skip!(Lab::new(""));
    let (server, workers) = lab.prefork_server(PORT, 2);
    await_workers(&lab, &server, &workers);
    let mut streams = lab.streams(PORT, 20);
    end(lab.broker.take().unwrap(), SIGKILL);
    let none = || workers.iter().all(|it| accelerated(&server, *it) == 0);
    assert!(eventually(Duration::from_secs(20), none));
    streams.extend(lab.streams(PORT, 20));
    lab.start_broker();
    await_workers(&lab, &server, &workers);
    streams.extend(lab.streams(PORT, 60));
    for stream in &mut streams {
        exchange_octets(stream, 20_000, 3).unwrap();
    }
    let counts: Vec<_> = workers.iter().map(|it| accelerated(&server, *it)).collect();
    assert!(counts.iter().all(|it| *it > 15), "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), 62, "{counts:?}");
}
