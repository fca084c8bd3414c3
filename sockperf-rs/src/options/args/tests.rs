use std::time::Duration;

use super::*;
use crate::options::{
    Activity, BinOptions, ClientOptions, Color, JsonTarget, MulticastOptions, Multiplexer, Target,
    TestLength,
};

mod refusals;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[track_caller]
fn ok(line: &str) -> Options {
    match parse(words(line), None) {
        Ok(Invocation::Run(options)) => options,
        other => panic!("{line}: {other:?}"),
    }
}

#[track_caller]
fn client(line: &str) -> ClientOptions {
    match ok(line) {
        Options::Client(options) => options,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn pp(line: &str) -> ClientOptions {
    client(&format!("pp {line}"))
}

#[track_caller]
fn refused(line: &str, message: &str) {
    match parse(words(line), None) {
        Err(Error::Usage(text)) => assert!(text.contains(message), "{line}: {text}"),
        other => panic!("{line}: {other:?}"),
    }
}

#[track_caller]
fn printed(line: &str) -> String {
    match parse(words(line), None) {
        Ok(Invocation::Print(text)) => text,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn subcommands_and_their_aliases() {
    for mode in Mode::ALL {
        for word in [mode.name(), mode.alias()] {
            let data = if mode == Mode::Playback {
                "--data-file x"
            } else {
                ""
            };
            assert_eq!(ok(&format!("{word} {data}")).mode(), mode, "{word}");
        }
    }
    for (line, page) in [
        ("compare a.json b.json", None),
        ("compare a.json b.json --html c.html", Some("c.html")),
        ("compare --html c.html a.json b.json", Some("c.html")),
    ] {
        let Invocation::Compare { first, html, .. } = parse(words(line), None).unwrap() else {
            panic!("{line}");
        };
        assert_eq!((first.as_str(), html.as_deref()), ("a.json", page));
    }
}

#[test]
fn defaults_of_the_clients() {
    let options = pp("");
    assert_eq!(options.length, TestLength::TimeSec(1));
    let common = &options.common;
    let target = Target::One {
        host: None,
        port: 11_111,
        stream: false,
    };
    assert_eq!(common.target, target);
    assert_eq!(common.multiplexer, Multiplexer::Recvfrom);
    assert_eq!(common.reply_timeout(), Some(Duration::from_millis(100)));
    assert_eq!(common.multiplexer_timeout_msec(), 10);
    assert!(common.warm_up && !common.nonblocked && !common.no_rdtsc);
    assert!(common.socket.no_delay && !common.socket.multicast.loopback);
    assert_eq!(options.connect_timeout, Duration::from_secs(5));
    let numbers = |line| {
        let it = client(line);
        (
            it.message_len,
            it.burst,
            it.messages_per_second,
            it.reply_every,
        )
    };
    assert_eq!(numbers("pp"), (14, 1, None, 1));
    assert_eq!(numbers("ul"), (14, 1, Some(10_000), 100));
    assert_eq!(numbers("pb --data-file x"), (14, 1, None, 100));
    assert_eq!(numbers("tp"), (14, 1, None, 0));
    assert!(!client("tp").common.socket.no_delay);
    assert!(client("tp --tcp-avoid-nodelay").common.socket.no_delay);
    assert!(!pp("--tcp-avoid-nodelay").common.socket.no_delay);
}

#[test]
fn the_library_is_asked_for() {
    let common = pp("").common;
    assert!(!common.zero_copy && common.load_vma.is_none() && !common.socket.accelerated);
    for form in ["--zcopyread", "--vmazcopyread"] {
        assert!(pp(form).common.zero_copy, "{form}");
    }
    assert!(pp("--set-sock-accl").common.socket.accelerated);
    let by_rings = pp("-f x -F x").common;
    assert_eq!(by_rings.multiplexer, Multiplexer::SocketXtreme);
    assert!(by_rings.nonblocked);
    assert_eq!(pp("-f x -F socketxtreme").common, by_rings);
    let library = |line| pp(line).common.load_vma;
    assert_eq!(library("--load-vma").as_deref(), Some("libvma.so"));
    assert_eq!(library("--load-vma=/a/b.so").as_deref(), Some("/a/b.so"));
}

#[test]
fn every_value_form_gives_the_same() {
    for form in ["-t 5", "-t5", "-t=5", "--time 5", "--time=5"] {
        assert_eq!(pp(form).length, TestLength::TimeSec(5), "{form}");
    }
    for form in ["--mps 7", "--mps=7", "--pps 7", "--pps=7"] {
        assert_eq!(pp(form).messages_per_second, Some(7), "{form}");
    }
    for form in [
        "-i host",
        "-ihost",
        "-i=host",
        "--ip host",
        "--ip=host",
        "--addr=host",
    ] {
        let Target::One { host, .. } = pp(form).common.target else {
            panic!("{form}");
        };
        assert_eq!(host.as_deref(), Some("host"), "{form}");
    }
    // The original skips a lone dash.
    assert_eq!(pp("-").length, TestLength::TimeSec(1));
}

#[test]
fn numbers_have_c_notation_and_no_trailing_garbage() {
    assert_eq!(pp("-m 0x20").message_len, 32);
    assert_eq!(pp("-m 020").message_len, 16);
    for bad in ["1x", "abc", "0x", "+1", "1.5", "--5", "09"] {
        refused(&format!("pp -t={bad}"), "'-t' Invalid duration");
    }
}

#[test]
fn all_options_of_a_client() {
    let options = pp(
        "-i 10.0.0.1 -p 5 -t 3 -m 100 -r 10 -b 4 --mps=1000 --timeout=250 --full-rtt --ci_sig_level 95 \
         --histogram 1:2:30 --full-log log.csv --json - --client_port 77 --client_ip 10.0.0.2 \
         --nonblocked --buffer-size 200000 --tos 0x10 -A 100 --dontwarmup --pre-warmup-wait 2 \
         --sender-affinity 0,2-3 --receiver-affinity 0,2,3 --no-rdtsc --tcp --lls 50 --rate-limit 125000 --dummy-send --uc-reuseaddr \
         --tcp-skip-blocking-send --recv_looping_num=-1 --color=never --mc-rx-if 10.0.0.3 \
         --mc-tx-ip 10.0.0.4 --mc-ttl 0 --mc-loopback-enable --mc-source-filter host --giga-size \
         --increase_output_precision --tcp_nb_connect_timeout_ms 9 --interval 0.5 --csv a --hgrm b \
         --html c --hlog d --live -d --daemonize",
    );
    let common = &options.common;
    let target = Target::One {
        host: Some("10.0.0.1".to_owned()),
        port: 5,
        stream: true,
    };
    assert_eq!(common.target, target);
    assert_eq!(common.timeout_msec, Some(250));
    assert_eq!(common.receive_loops, None);
    assert_eq!(common.activity, Activity::Rates(100));
    assert_eq!(common.pre_warm_up_wait, Duration::from_secs(2));
    assert_eq!(
        (common.color, &common.json),
        (Color::Never, &Some(JsonTarget::Stdout))
    );
    assert!(common.nonblocked && !common.warm_up && common.no_rdtsc);
    assert!(common.debug && common.daemonize);
    let socket = &common.socket;
    assert_eq!((socket.tos, socket.buffer_len), (Some(16), Some(200_000)));
    assert_eq!(socket.busy_poll_usec, Some(50));
    assert_eq!(socket.rate_limit, Some(125_000));
    assert_eq!(options.dummies_per_second, Some(10_000));
    assert!(socket.reuse_address && socket.no_delay && socket.skip_blocking_send);
    let multicast = MulticastOptions {
        receive_interface: Some("10.0.0.3".to_owned()),
        send_interface: Some("10.0.0.4".to_owned()),
        loopback: true,
        ttl: Some(0),
        source: Some("host".to_owned()),
    };
    assert_eq!(socket.multicast, multicast);
    assert_eq!(options.length, TestLength::TimeSec(3));
    assert_eq!(
        (options.bind_host.as_deref(), options.bind_port),
        (Some("10.0.0.2"), 77)
    );
    assert_eq!(
        (options.message_len, options.range_len, options.burst),
        (100, 10, 4)
    );
    assert_eq!(options.messages_per_second, Some(1000));
    assert_eq!(options.connect_timeout, Duration::from_millis(9));
    assert_eq!(options.sender_cpus, Some(vec![0, 2, 3]));
    let results = &options.results;
    assert!(results.full_rtt && results.giga_size && results.precise && results.live);
    assert_eq!(
        (results.confidence_level, results.interval_msec),
        (95, Some(500))
    );
    let bins = BinOptions {
        bin_usec: 1,
        lower_usec: 2,
        upper_usec: 30,
    };
    assert_eq!(results.histogram, Some(bins));
    let files = [
        &results.full_log,
        &results.csv,
        &results.hgrm,
        &results.html,
        &results.hlog,
    ];
    let files = files.map(|file| file.as_deref().unwrap_or_default());
    assert_eq!(files, ["log.csv", "a", "b", "c", "d"]);

    assert_eq!(pp("-n 10").length, TestLength::Packets(10));
    assert_eq!(pp("--timeout=-1").common.reply_timeout(), None);
    assert_eq!(pp("--timeout 0").common.multiplexer_timeout_msec(), 0);
    assert!(pp("--data-integrity").data_integrity);
    assert_eq!(pp("--mps=max").messages_per_second, None);
    assert_eq!(client("ul --mps=MAX").messages_per_second, None);
    assert_eq!(client("ul --reply-every 7").reply_every, 7);
    assert_eq!(pp("--receiver-affinity 1").sender_cpus, Some(vec![1]));
    let under_load = client("ul --receiver-affinity 1 --sender-affinity 0");
    assert_eq!(under_load.sender_cpus, Some(vec![0]));
    assert_eq!(under_load.receiver_cpus, Some(vec![1]));
    assert_eq!(pp("--tcp -m 1048575").message_len, 1_048_575);
}

#[test]
fn multiplexers_go_with_a_file() {
    for (words, multiplexer) in [
        ("", Multiplexer::Epoll),
        ("-F s", Multiplexer::Select),
        ("-Fpoll", Multiplexer::Poll),
        ("-F=epoll", Multiplexer::Epoll),
        ("--iomux-type r", Multiplexer::Recvfrom),
    ] {
        let options = pp(&format!("-f x {words}"));
        assert_eq!(options.common.multiplexer, multiplexer, "{words}");
        assert_eq!(options.common.target, Target::File("x".to_owned()));
    }
}

#[test]
fn threads_share_the_flows() {
    let numbers = |line: &str| {
        let it = client(line);
        (it.flows, it.threads, it.common.multiplexer)
    };
    assert_eq!(numbers("pp"), (1, 1, Multiplexer::Recvfrom));
    assert_eq!(numbers("ul --threads 3"), (3, 3, Multiplexer::Recvfrom));
    assert_eq!(numbers("tp --flows 5"), (5, 1, Multiplexer::Epoll));
    assert_eq!(
        numbers("pp --flows 5 --threads 2 -F p"),
        (5, 2, Multiplexer::Poll)
    );
    assert_eq!(numbers("pp -f x --threads 2"), (1, 2, Multiplexer::Epoll));
}

#[test]
fn both_directions_have_a_thread_each() {
    let options = client("tp --bidir --sender-affinity 0 --receiver-affinity 1");
    assert!(options.is_bidirectional);
    assert_eq!(options.reply_every, 1);
    assert_eq!(options.sender_cpus, Some(vec![0]));
    assert_eq!(options.receiver_cpus, Some(vec![1]));
    assert_eq!(
        client("tp --receiver-affinity 1").sender_cpus,
        Some(vec![1])
    );
}

#[test]
fn warm_up_time_is_given_in_seconds() {
    assert_eq!(pp("").warm_up_msec, 400);
    assert_eq!(pp("-t 2 --warmup-time 1.25").warm_up_msec, 1250);
    assert_eq!(client("ul --warmup-time 0").warm_up_msec, 0);
}

#[cfg(feature = "tls")]
#[test]
fn tls_goes_with_streams_and_known_ciphers() {
    let cipher = |line: &str| pp(line).common.socket.tls;
    let default = Some("TLS_AES_128_GCM_SHA256".to_owned());
    assert_eq!(cipher("--tcp --tls"), default);
    assert_eq!(cipher("-f x --tls"), default);
    let other = "ECDHE-ECDSA-AES256-GCM-SHA384";
    assert_eq!(
        cipher(&format!("--tcp --tls={other}")).as_deref(),
        Some(other)
    );
    refused("pp --tls", "--tls needs --tcp or -f");
    refused("pp --tcp --tls=NULL", "'--tls' Unsupported cipher: NULL");
}

#[test]
fn all_options_of_the_server() {
    let Options::Server(options) = ok(
        "sr -f feed -m 100000 --dont-reply -g -a 5 --cpu-affinity 1 --json out.json --tos 1 \
         --threads-num 2 --force-unicast-reply",
    ) else {
        panic!("not a server");
    };
    assert!(!options.reply && options.gap_detection && options.unicast_reply);
    assert_eq!(options.common.activity, Activity::Dots(5));
    assert_eq!((options.threads, options.message_len_max), (2, 100_000));
    assert_eq!(options.cpus, Some(vec![1]));
    let json = JsonTarget::File("out.json".to_owned());
    assert_eq!(options.common.json, Some(json));
    let Options::Server(options) = ok("sr -m 20 -p 0") else {
        panic!("not a server");
    };
    assert_eq!(options.message_len_max, 65_507);
}

#[test]
fn seed_comes_from_the_environment() {
    let Ok(Invocation::Run(Options::Client(options))) = parse(words("tp"), Some("42")) else {
        panic!("refused");
    };
    assert_eq!(options.seed, 42);
    assert!(parse(words("tp"), Some("x")).is_err());
}

#[test]
fn help_and_version_are_printed() {
    for line in ["", "help", "h", "?", "--help"] {
        assert!(printed(line).contains("ping-pong (pp)"), "{line}");
    }
    for line in ["pp -h", "pp -?", "pp --help", "pp --usage"] {
        let text = printed(line);
        assert!(
            text.starts_with("ping-pong (pp): Measure latency"),
            "{text}"
        );
        assert!(
            text.contains("--number-of-packets") && !text.contains("--data-file"),
            "{text}"
        );
    }
    assert!(!printed("sr --help").contains("--burst"));
    assert!(printed("--version").contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_are_printed_for_known_shells() {
    assert!(printed("completions bash").contains("complete "));
    refused("completions", "bash, zsh, fish");
    refused("completions csh", "bash, zsh, fish");
}

#[test]
fn help_has_the_layout_of_the_original() {
    let text = printed("pp --help");
    for line in [
        " -h,-?   --help,--usage       \t-",
        " -t      --time <sec>         \t-",
        "         --tcp,--stream       \t-",
        "         --tcp-skip-blocking-send\n                              \t-",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert_eq!(printed("help pp"), text);
    let columns = |line: &str| line.replace("\t", "  ").chars().count();
    let longest = text.lines().map(columns).max();
    assert!(longest.is_some_and(|longest| longest <= 100), "{longest:?}");
}
