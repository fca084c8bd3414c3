use super::*;
use crate::client::replies::Replies;
use crate::client::run::{Run, Sending};
use crate::measure::bins::Bins;
use crate::measure::event::{Event, Outcome};
use crate::measure::recorder::{Recorder, WARM_UP_PACKETS, Window};
use crate::measure::round_trips::RoundTrips;
use crate::measure::sample_log::SampleLog;
use crate::measure::statistics::Statistics;
use crate::options::Options;
use crate::options::args::{self, Invocation};

const COLOUR: Style = Style {
    colour: true,
    strict: false,
};

pub(crate) fn pp_options(line: &str) -> ClientOptions {
    let words = ["pp"]
        .into_iter()
        .chain(line.split_whitespace())
        .map(str::to_owned);
    match args::parse(words, None) {
        Ok(Invocation::Run(Options::Client(options))) => options,
        other => panic!("{line}: {other:?}"),
    }
}

fn tp_options(line: &str) -> ClientOptions {
    let words = ["tp"]
        .into_iter()
        .chain(line.split_whitespace())
        .map(str::to_owned);
    match args::parse(words, None) {
        Ok(Invocation::Run(Options::Client(options))) => options,
        other => panic!("{line}: {other:?}"),
    }
}

/// 100 round trips of 10.00, 10.02, ... 11.98 us, one each millisecond, sent from second 1 on.
pub(crate) fn sample_run(options: &ClientOptions) -> Run {
    let bins = options
        .results
        .histogram
        .map(|bins| Bins::new(bins, options.results.full_rtt));
    let log = options
        .results
        .full_log
        .as_ref()
        .map(|_| SampleLog::with_capacity(1000).unwrap());
    let mut recorder = Recorder::new(Window::Packets(100), bins, log).unwrap();
    for _ in 0..WARM_UP_PACKETS {
        recorder.record(Event {
            tx_nsec: 0,
            lag_nsec: 0,
            outcome: Outcome::Dropped,
        });
    }
    for index in 0..100 {
        let tx_nsec = 1_000_000_000 + index * 1_000_000;
        recorder.record(Event {
            tx_nsec,
            lag_nsec: 0,
            outcome: Outcome::Received(10_000 + 20 * index),
        });
    }
    Run {
        sending: Sending {
            end: End::Timer,
            sent: 9100,
            sent_bytes: 9100 * 14,
            skipped: 0,
            send_retries: 0,
            start_nsec: 0,
            run_time_nsec: 2_000_123_456,
            last_tx_nsec: 0,
            rate_too_high: false,
        },
        replies: Replies {
            received: 9099,
            ..Default::default()
        },
        estimate: None,
        valid: recorder.finish(0),
    }
}

fn pp_text(line: &str, style: Style, alter: impl FnOnce(&mut Run)) -> String {
    let options = pp_options(line);
    let mut run = sample_run(&options);
    alter(&mut run);
    let statistics = Statistics::new(
        &run.valid.round_trips,
        options.results.full_rtt,
        options.results.confidence_level,
    )
    .unwrap();
    latency(&run, &statistics, &options, style)
}

fn tp_text(line: &str, sent: u64, run_time_nsec: u64) -> String {
    let options = tp_options(line);
    let sent_bytes = sent * options.message_len as u64;
    let run = Sending {
        end: End::Timer,
        sent,
        sent_bytes,
        skipped: 0,
        send_retries: 0,
        start_nsec: 0,
        run_time_nsec,
        last_tx_nsec: 0,
        rate_too_high: false,
    };
    throughput(&run, &options, Style::PLAIN)
}

#[test]
fn ping_pong_report_is_complete() {
    assert_eq!(
        pp_text("-t 2", Style::PLAIN, |_| {}),
        "\
sockperf: [Total Run] RunTime=2.000 sec; Warm up time=400 msec; SentMessages=9100; ReceivedMessages=9099
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=0.099 sec; SentMessages=100; ReceivedMessages=100
sockperf: ====> avg-latency=5.495 (std-dev=0.290, mean-ad=0.250, median-ad=0.371, siqr=0.250, cv=0.053, \
std-error=0.029, 99.0% ci=[5.420, 5.570])
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Latency is 5.495 usec
sockperf: Total 100 observations; each percentile contains 1.00 observations
sockperf: ---> <MAX> observation =    5.990
sockperf: ---> percentile 99.999 =    5.990
sockperf: ---> percentile 99.990 =    5.990
sockperf: ---> percentile 99.900 =    5.990
sockperf: ---> percentile 99.000 =    5.980
sockperf: ---> percentile 90.000 =    5.890
sockperf: ---> percentile 75.000 =    5.740
sockperf: ---> percentile 50.000 =    5.490
sockperf: ---> percentile 25.000 =    5.240
sockperf: ---> <MIN> observation =    5.000
"
    );
}

#[test]
fn colours_are_those_of_the_original() {
    let text = pp_text("", COLOUR, |run| run.replies.duplicated = 1);
    assert!(
        text.contains("sockperf: \x1b[2;35m====> avg-latency="),
        "{text}"
    );
    assert!(text.contains("99.0% ci=[5.420, 5.570])\x1b[0m\n"), "{text}");
    assert!(text.contains("sockperf: \x1b[0;31m# dropped messages = 0; # duplicated messages = 1"));
    assert!(text.contains(
        "\nsockperf: Summary: Latency is 5.495 usec\n\
         sockperf: \x1b[2;35mTotal 100 observations\x1b[0m; each percentile"
    ));
    let version = version(COLOUR);
    assert!(version.starts_with("sockperf: \x1b[2;35m== version #"));
    assert!(version.ends_with(" == \x1b[0m\n"), "{version:?}");
}

#[test]
fn variants_of_the_ping_pong_report() {
    let text = pp_text("--full-rtt --ci_sig_level 95", Style::PLAIN, |_| {});
    assert!(text.contains("====> avg-rtt=10.990 ("), "{text}");
    assert!(text.contains(", 95.0% ci=["), "{text}");
    assert!(
        text.contains("Summary: Round trip is 10.990 usec\n"),
        "{text}"
    );
    let text = pp_text("-b 4", Style::PLAIN, |_| {});
    assert!(
        text.contains("Summary: Latency of burst of 4 messages is 5.495 usec\n"),
        "{text}"
    );
    let text = pp_text("-n 100", Style::PLAIN, |_| {});
    assert!(
        text.contains("RunTime=2.000 sec; Warm up packets=8000; SentMessages=9100;"),
        "{text}"
    );
    let text = pp_text("", Style::PLAIN, |run| {
        run.valid.dropped = 1;
        run.valid.out_of_order = 3;
        run.replies.duplicated = 2;
        run.replies.late = 4;
        run.replies.unexpected = 5;
        run.replies.malformed = 6;
    });
    assert!(text.contains(
        "sockperf: # dropped messages = 1; # duplicated messages = 2; # out-of-order messages = 3\n\
         sockperf: # late replies = 4; # unexpected replies = 5; # malformed datagrams = 6\n\
         sockperf: Summary:"
    ));
}

#[test]
fn first_lines_of_the_modes() {
    assert_eq!(
        sends_on(Mode::PingPong, Multiplexer::Recvfrom),
        "sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)\n\n"
    );
    assert_eq!(
        sends_on(Mode::Throughput, Multiplexer::Epoll),
        "sockperf[CLIENT] send on:\n"
    );
    assert_eq!(LISTENS_ON, "sockperf: [SERVER] listen on:\n");
}

#[test]
fn corrected_times_have_a_line_that_the_original_lacks() {
    let with_corrected = |run: &mut Run| {
        let mut times = RoundTrips::new().unwrap();
        times.record(2000);
        run.valid.corrected = Some(times);
    };
    let text = pp_text("", Style::PLAIN, with_corrected);
    let line = "sockperf: Corrected for coordinated omission: p50 = 1.000; p99 = 1.000; ";
    assert!(text.contains(line), "{text}");
    let strict = Style {
        colour: false,
        strict: true,
    };
    assert_eq!(
        pp_text("", strict, with_corrected),
        pp_text("", strict, |_| {})
    );
}

#[test]
fn server_totals() {
    let totals = Totals {
        handled: 1_334_230,
        ..Totals::default()
    };
    assert_eq!(
        server(&totals, false, Style::PLAIN),
        "sockperf: Test end (interrupted by user)\n\
         sockperf: Total 1334230 messages received and handled\n\
         sockperf: cleanupAfterLoop() exit\n"
    );
    let totals = Totals {
        malformed_datagrams: 3,
        failed_replies: 2,
        last_reply_error: Some("no".to_owned()),
        sessions: vec![crate::server::sessions::SessionSummary {
            client: crate::server::sessions::Client::Inet(([127, 0, 0, 1], 55_522).into()),
            received: 5,
            lost: 4,
            reordered: 3,
            duplicated: 2,
            missing: 28_499,
            messages_per_sec: 10.4,
        }],
        ..Totals::default()
    };
    assert_eq!(
        server(&totals, true, Style::PLAIN),
        "sockperf: Test end (interrupted by user)\n\
         sockperf: No messages were received on the server.\n\
         sockperf: [127.0.0.1:55522]       Summary: Total Dropped/OOO: 28499\n\
         sockperf: [127.0.0.1:55522] received=5; lost=4; reordered=3; duplicated=2; rate=10 [msg/sec]\n\
         sockperf: # malformed datagrams = 3\n\
         sockperf: # replies that could not be sent (last: no) = 2\n\
         sockperf: cleanupAfterLoop() exit\n"
    );
    let strict = Style {
        colour: false,
        strict: true,
    };
    assert_eq!(
        server(&totals, false, strict),
        "sockperf: Test end (interrupted by user)\n\
         sockperf: No messages were received on the server.\n\
         sockperf: cleanupAfterLoop() exit\n"
    );
}

#[test]
fn ends_and_estimate() {
    assert_eq!(
        test_end(End::Timer),
        "sockperf: Test end (interrupted by timer)\nsockperf: Test ended\n"
    );
    assert_eq!(
        test_end(End::Packets),
        "sockperf: Test end (reached packet number)\nsockperf: Test ended\n"
    );
    assert_eq!(
        test_end(End::Stopped),
        "sockperf: Test end (interrupted by user)\nsockperf: Test ended\n"
    );
    assert!(test_end(End::PacketTimeout).contains("taking too long"));
    let text = estimate(Estimate {
        run_time_nsec: 209_000_000,
        time_out_nsec: 314_000_000,
    });
    assert_eq!(
        text,
        "sockperf: RunTime Estimate=0.209 sec, Time out in 0.314 sec\n"
    );
    let sizes = BufferSizes {
        fd: 3,
        wanted_len: 200_000,
        receive_len: 400_000,
        send_len: 400_000,
    };
    assert_eq!(
        buffer_sizes(sizes),
        "sockperf: Socket buffers sizes of fd 3: RX: 400000 Byte, TX: 400000 Byte\n"
    );
}

#[test]
fn throughput_report_of_small_messages() {
    assert_eq!(
        tp_text("-t 2", 792_336, 2_000_460_000),
        "\
sockperf: Total of 792336 messages sent in 2.000 sec

sockperf: NOTE: test was performed, using msg-size=14. For getting maximum throughput consider using \
--msg-size=1472
sockperf: Summary: Message Rate is 396077 [msg/sec]
sockperf: Summary: BandWidth is 5.288 MBps (42.306 Mbps)
"
    );
}

#[test]
fn bandwidth_in_other_units() {
    // Of the captured runs: 281931 messages of 14 bytes a second, 229108 of 1472.
    let text = tp_text("--giga-size", 281_931, 1_000_000_000);
    assert!(
        text.contains("BandWidth is 0.004 GBps (0.030 Gbps)"),
        "{text}"
    );
    let text = tp_text(
        "-m 1472 --increase_output_precision",
        229_108,
        1_000_000_000,
    );
    assert!(
        text.contains("BandWidth is 321.623779297 MBps (2572.990234375 Mbps)"),
        "{text}"
    );
}

#[test]
fn throughput_report_of_full_frames_has_no_note() {
    assert_eq!(
        tp_text("-m 1472", 229_116, 1_000_000_000),
        "\
sockperf: Total of 229116 messages sent in 1.000 sec

sockperf: Summary: Message Rate is 229116 [msg/sec]
sockperf: Summary: BandWidth is 321.635 MBps (2573.080 Mbps)
"
    );
}

#[test]
fn throughput_report_of_paced_fragments() {
    assert_eq!(
        tp_text("-m 4096 --mps=1000", 1001, 1_000_000_000),
        "\
sockperf: Total of 1001 messages sent in 1.000 sec

sockperf: NOTE: test was performed, using msg-size=4096, mps=1000. For getting maximum throughput use \
--mps=max (and consider --msg-size=1472 or --msg-size=4096)
sockperf: Summary: Message Rate is 1001 [msg/sec], Packet Rate is about 3003 [pkt/sec] (3 ip frags / msg)
sockperf: Summary: BandWidth is 3.910 MBps (31.281 Mbps)
"
    );
}

#[test]
fn throughput_note_names_the_range() {
    let text = tp_text("-m 500 -r 100", 235_938, 1_000_407_000);
    assert!(text.contains(
        "NOTE: test was performed, using average msg-size=500 (+/-100). For getting maximum \
         throughput consider using --msg-size=1472\n"
    ));
    assert!(
        text.contains("Summary: BandWidth is 112.458 MBps (899.666 Mbps)\n"),
        "{text}"
    );
}
