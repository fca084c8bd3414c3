use std::time::Duration;

use super::*;
use crate::bins::BinOptions;
use crate::options::{
    Activity, ClientOptions, Color, JsonTarget, MulticastOptions, Multiplexer, Target, TestLength,
};

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
    let compared = parse(words("compare a.json b.json"), None).unwrap();
    assert!(matches!(compared, Invocation::Compare { .. }));
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
         --sender-affinity 0,2-3 --receiver-affinity 0,2,3 --no-rdtsc --tcp --lls 50 --uc-reuseaddr \
         --tcp-skip-blocking-send --recv_looping_num=-1 --color=never --mc-rx-if 10.0.0.3 \
         --mc-tx-ip 10.0.0.4 --mc-ttl 0 --mc-loopback-enable --mc-source-filter host --giga-size \
         --increase_output_precision --tcp_nb_connect_timeout_ms 9 --interval 0.5 --csv a --hgrm b \
         --html c --live -d --daemonize",
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
    ];
    let files = files.map(|file| file.as_deref().unwrap_or_default());
    assert_eq!(files, ["log.csv", "a", "b", "c"]);

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
fn help_has_the_layout_of_the_original() {
    let text = printed("pp --help");
    for line in [
        " -h,-?   --help,--usage       \t-",
        " -t      --time               \t-",
        "         --tcp,--stream       \t-",
        "         --tcp-skip-blocking-send\n                              \t-",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
}

#[test]
fn options_without_effect_are_refused_by_name() {
    refused(
        "pp --load-vma=libvma.so",
        "--load-vma is not supported: preload",
    );
    refused(
        "pp --dummy-send",
        "--dummy-send is not supported: it needs libvma's extra API",
    );
    refused("sr --vmarxfiltercb", "--rxfiltercb is not supported");
    refused("pp -f x -F x", "-F socketxtreme is not supported");
    for option in OPTIONS {
        let Effect::Refused(reason) = option.effect else {
            continue;
        };
        for name in option.long {
            for mode in option.modes {
                for form in [
                    format!("--{name}"),
                    format!("--{name}=1"),
                    format!("--{name} 1"),
                ] {
                    refused(&format!("{} {form}", mode.name()), reason);
                }
            }
        }
    }
}

#[test]
fn options_of_another_mode_are_refused() {
    for (line, message) in [
        ("sr -t 1", "--time (-t) has no meaning in server mode"),
        (
            "tp -n 1",
            "--number-of-packets (-n) has no meaning in throughput mode",
        ),
        (
            "pp -g",
            "--gap-detection (-g) has no meaning in ping-pong mode",
        ),
        (
            "pp --data-file x",
            "--data-file has no meaning in ping-pong mode",
        ),
        (
            "pb -t 1 --data-file x",
            "--time (-t) has no meaning in playback mode",
        ),
    ] {
        refused(line, message);
    }
    // Every option in every mode that lacks it, in every form.
    for option in OPTIONS {
        for mode in Mode::ALL.iter().filter(|mode| !option.modes.contains(mode)) {
            for form in [
                format!("--{}", option.key()),
                format!("--{}=1", option.key()),
            ] {
                refused(&format!("{} {form}", mode.name()), "has no meaning in");
            }
        }
    }
}

#[test]
fn malformed_command_lines_are_refused() {
    for (line, message) in [
        ("badcmd", "unknown command 'badcmd'"),
        ("compare a", "compare takes two files"),
        ("pp --nosuch", "unexpected argument '--nosuch'"),
        ("pp -z", "unexpected argument '-z'"),
        ("pp --tim 1", "unexpected argument '--tim'"),
        ("pp extra", "unexpected argument 'extra'"),
        ("pp -t", "Option -t should have an argument"),
        ("pp --time", "Option --time should have an argument"),
        ("pp -t 1 -t 2", "Option -t should not be repeatable"),
        (
            "pp --full-rtt --full-rtt",
            "Option --full-rtt should not be repeatable",
        ),
        (
            "pp --full-rtt=1",
            "Option --full-rtt should not have an argument",
        ),
    ] {
        refused(line, message);
    }
    assert!(parse(words("pp --timeout -1"), None).is_err());
}

#[test]
fn values_outside_their_range_are_refused() {
    for (line, message) in [
        ("pp -t 0", "'-t' Invalid duration: 0"),
        ("pp -t 36000001", "'-t' Invalid duration: 36000001"),
        ("pp -m 13", "'-m' Invalid message size: 13 (min: 14)"),
        (
            "pp -m 65508",
            "'-m' Invalid message size: 65508 (max: 65507)",
        ),
        (
            "pp --tcp -m 1048576",
            "'-m' Invalid message size: 1048576 (max: 1048575)",
        ),
        (
            "sr -m 2000000",
            "'-m' Invalid message size: 2000000 (max: 1048575)",
        ),
        ("pp -p 11x", "'-p' Invalid port: 11x"),
        ("pp -p +1", "'-p' Invalid port: +1"),
        ("pp -p 99999", "'-p' Invalid port: 99999"),
        ("pp -p 0", "'-p' Invalid port: 0"),
        (
            "pp --client_port 65536",
            "'--client_port' Invalid value: 65536",
        ),
        ("pp -b 0", "'-b' Invalid burst size: 0"),
        ("pp --mps 0", "Invalid 18 val: 0"),
        ("pp --mps=1073741825", "Invalid 18 val"),
        ("ul --reply-every 0", "Invalid 19 val: 0"),
        ("pp -r abc", "'-r' Invalid value"),
        ("pp -n 0", "'-n' Invalid number of packets: 0"),
        ("pp -n 100000001", "'-n' Invalid number of packets"),
        ("pp --buffer-size 0", "Invalid socket buffer size: 0"),
        ("pp --tos 256", "'--tos' Invalid value: 256"),
        (
            "pp --timeout=-2",
            "Invalid select/poll/epoll timeout val: -2",
        ),
        ("pp --ci_sig_level 100", "Invalid Significance level: 100"),
        ("pp --pre-warmup-wait 0", "Invalid pre warmup wait: 0"),
        ("pp -a 0", "'-a' Invalid number of messages: 0"),
        ("pp --sender-affinity 3-1", "Invalid CPU list: 3-1"),
        ("pp --histogram 1:2", "binsize:lowerrange:upperrange"),
        ("pp --mc-ttl 300", "'--mc-ttl' Invalid value: 300"),
        ("pp --lls x", "'--lls' Invalid LLS value: x"),
        ("pp --color sometimes", "'--color' Invalid value: sometimes"),
        ("pp --interval 0", "'--interval' Invalid interval: 0"),
        ("ul --sweep 5:1:1", "'--sweep' Invalid rates: 5:1:1"),
        ("ul --search 5", "'--search' Invalid rates: 5"),
        ("pp -f x -F y", "'-F' Invalid multiply io handle type: y"),
        (
            "pp --nonblocked --recv_looping_num 0",
            "'--recv_looping_num' Invalid value: 0",
        ),
        (
            "sr -f x --threads-num 0",
            "'--threads-num' Invalid threads number: 0",
        ),
    ] {
        refused(line, message);
    }
}

#[test]
fn conflicting_options_are_refused() {
    for (line, message) in [
        ("pp -n 5 -t 1", "-n conflicts with -t,--mps options"),
        ("pp -n 5 --mps=10", "-n conflicts with -t,--mps options"),
        (
            "pp --data-integrity -b 2",
            "--data-integrity conflicts with -b option",
        ),
        ("pp -a 1 -A 1", "-a conflicts with -A"),
        ("pp --sender-affinity 0 --receiver-affinity 1", "one thread"),
        ("pp -i 127.0.0.1 -f x", "-f conflicts with -i,-p options"),
        ("pp -p 5 -f x", "-f conflicts with -i,-p options"),
        ("pp --tcp -f x", "--tcp conflicts with -f option"),
        (
            "pp -f x --client_port 5",
            "--client_port conflicts with -f option",
        ),
        ("pp -F e", "-F must be used with feed file (option '-f')"),
        (
            "pb -i 127.0.0.1",
            "--data-file must be used with playback mode",
        ),
        (
            "sr --threads-num 2",
            "--threads-num must be used with feed file (option '-f')",
        ),
        (
            "sr -f x -F r --threads-num 2",
            "--threads-num conflicts with -F recvfrom",
        ),
        (
            "sr --tcp --dont-reply",
            "--tcp conflicts with --dont-reply option",
        ),
        (
            "pp --recv_looping_num 5",
            "recv_looping_num larger then one must be used",
        ),
        ("pp --tcp_nb_connect_timeout_ms 10", "requires --tcp or -f"),
        (
            "ul --sweep 1:2:1 --search 1:2",
            "--sweep conflicts with --search",
        ),
        ("ul --sweep 1:2:1 --mps 5", "conflict with --mps"),
    ] {
        refused(line, message);
    }
}
