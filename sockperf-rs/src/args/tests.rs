use super::*;

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
fn pp(line: &str) -> PingPongOptions {
    match ok(&format!("pp {line}")) {
        Options::PingPong(options) => options,
        other => panic!("{other:?}"),
    }
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
    for (word, mode) in [
        ("server", Mode::Server),
        ("sr", Mode::Server),
        ("ping-pong", Mode::PingPong),
        ("pp", Mode::PingPong),
        ("throughput", Mode::Throughput),
        ("tp", Mode::Throughput),
    ] {
        assert_eq!(ok(word).mode(), mode, "{word}");
    }
}

#[test]
fn defaults_of_ping_pong() {
    let options = pp("");
    assert_eq!(options.length, TestLength::TimeSec(1));
    assert_eq!(options.timeout, Some(Duration::from_millis(100)));
    assert_eq!(
        (
            options.full_rtt,
            options.data_integrity,
            options.confidence_level
        ),
        (false, false, 99)
    );
    let client = options.client;
    assert_eq!(
        (client.message_len, client.range_len, client.burst),
        (14, 0, 1)
    );
    assert_eq!(
        (
            client.messages_per_second,
            client.bind_host,
            client.bind_port
        ),
        (None, None, 0)
    );
    let common = client.common;
    assert_eq!(
        (common.host, common.port, common.tos, common.buffer_len),
        (None, 11_111, None, None)
    );
    assert!(common.warm_up && !common.nonblocked && !common.no_rdtsc);
}

#[test]
fn every_value_form_gives_the_same() {
    for form in ["-t 5", "-t5", "-t=5", "--time 5", "--time=5"] {
        assert_eq!(pp(form).length, TestLength::TimeSec(5), "{form}");
    }
    for form in ["--mps 7", "--mps=7", "--pps 7", "--pps=7"] {
        assert_eq!(pp(form).client.messages_per_second, Some(7), "{form}");
    }
    for form in [
        "-i host",
        "-ihost",
        "-i=host",
        "--ip host",
        "--ip=host",
        "--addr=host",
    ] {
        assert_eq!(
            pp(form).client.common.host.as_deref(),
            Some("host"),
            "{form}"
        );
    }
}

#[test]
fn numbers_have_c_notation_and_no_trailing_garbage() {
    assert_eq!(pp("-m 0x20").client.message_len, 32);
    assert_eq!(pp("-m 020").client.message_len, 16);
    for bad in ["1x", "abc", "0x", "+1", "1.5", "--5", "09"] {
        refused(&format!("pp -t={bad}"), "'-t' Invalid duration");
    }
}

#[test]
fn all_options_of_ping_pong() {
    let options = pp(
        "-i 10.0.0.1 -p 5 -t 3 -m 100 -r 10 -b 4 --mps=1000 --timeout=250 --full-rtt --ci_sig_level 95 \
         --histogram 1:2:30 --full-log log.csv --json - --client_port 77 --client_ip 10.0.0.2 \
         --nonblocked --buffer-size 200000 --tos 0x10 -A 100 --dontwarmup --pre-warmup-wait 2 \
         --sender-affinity 0,2-3 --receiver-affinity 0,2,3 --no-rdtsc",
    );
    let expected = PingPongOptions {
        client: ClientOptions {
            common: CommonOptions {
                host: Some("10.0.0.1".to_owned()),
                port: 5,
                tos: Some(16),
                buffer_len: Some(200_000),
                nonblocked: true,
                activity: Activity::Rates(100),
                warm_up: false,
                pre_warm_up_wait: Duration::from_secs(2),
                no_rdtsc: true,
                cpus: Some(vec![0, 2, 3]),
                json: Some(JsonTarget::Stdout),
            },
            bind_host: Some("10.0.0.2".to_owned()),
            bind_port: 77,
            message_len: 100,
            range_len: 10,
            burst: 4,
            messages_per_second: Some(1000),
            seed: 1,
        },
        length: TestLength::TimeSec(3),
        timeout: Some(Duration::from_millis(250)),
        full_rtt: true,
        data_integrity: false,
        confidence_level: 95,
        histogram: Some(BinOptions {
            bin_usec: 1,
            lower_usec: 2,
            upper_usec: 30,
        }),
        full_log: Some("log.csv".to_owned()),
    };
    assert_eq!(options, expected);
    assert_eq!(pp("-n 10").length, TestLength::Packets(10));
    assert_eq!(pp("--timeout=-1").timeout, None);
    assert!(pp("--data-integrity").data_integrity);
    assert_eq!(pp("--mps=max").client.messages_per_second, None);
    assert_eq!(
        pp("--receiver-affinity 1").client.common.cpus,
        Some(vec![1])
    );
}

#[test]
fn all_options_of_the_server() {
    let Options::Server(options) =
        ok("sr -i :: -p 0 -m 1000 --dont-reply -g -a 5 --cpu-affinity 1 --json out.json --tos 1")
    else {
        panic!("not a server");
    };
    assert!(!options.reply && options.gap_detection);
    assert_eq!(options.common.activity, Activity::Dots(5));
    assert_eq!((options.common.port, options.common.tos), (0, Some(1)));
    assert_eq!(options.common.cpus, Some(vec![1]));
    assert_eq!(
        options.common.json,
        Some(JsonTarget::File("out.json".to_owned()))
    );
}

#[test]
fn seed_comes_from_the_environment() {
    let Ok(Invocation::Run(Options::Throughput(options))) = parse(words("tp"), Some("42")) else {
        panic!("refused");
    };
    assert_eq!(options.client.seed, 42);
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
            text.starts_with("ping-pong (pp): Run sockperf client"),
            "{text}"
        );
        assert!(
            text.contains("--number-of-packets") && !text.contains("--tcp"),
            "{text}"
        );
    }
    assert!(!printed("sr --help").contains("--time"));
    assert!(printed("--version").contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn options_of_the_original_that_are_lacking_are_refused_by_name() {
    refused("pp --tcp -i 127.0.0.1", "not supported yet: --tcp");
    refused("sr --stream", "not supported yet: --tcp");
    refused("pp -f feed.txt", "not supported yet: --file (-f)");
    refused("pp -ffeed.txt", "not supported yet: --file (-f)");
    refused("pp --load-vma=libvma.so", "not supported yet: --load-vma");
    refused("pp --load-vma", "not supported yet: --load-vma");
    refused("tp --giga-size", "not supported yet: --giga-size");
    refused("sr --threads-num 2", "not supported yet: --threads-num");
    refused("pp -d", "not supported yet: --debug (-d)");
    refused("ul -i 127.0.0.1", "not supported yet: ul");
    refused("playback", "not supported yet: playback");
    for option in OPTIONS.iter().filter(|option| option.modes.is_empty()) {
        for name in option.long {
            for mode in ["sr", "pp", "tp"] {
                for form in [
                    format!("--{name}"),
                    format!("--{name}=1"),
                    format!("--{name} 1"),
                ] {
                    refused(&format!("{mode} {form}"), "not supported yet: --");
                }
            }
        }
    }
}

#[test]
fn options_of_another_mode_are_refused() {
    refused("sr -t 1", "--time (-t) has no meaning in server mode");
    refused(
        "tp -n 1",
        "--number-of-packets (-n) has no meaning in throughput mode",
    );
    refused(
        "tp --full-rtt",
        "--full-rtt has no meaning in throughput mode",
    );
    refused(
        "tp --receiver-affinity 0",
        "--receiver-affinity has no meaning in throughput mode",
    );
    refused(
        "pp -g",
        "--gap-detection (-g) has no meaning in ping-pong mode",
    );
    refused("sr --timeout 10", "--timeout has no meaning in server mode");
}

#[test]
fn malformed_command_lines_are_refused() {
    refused("badcmd", "unknown command 'badcmd'");
    refused("pp --nosuch", "unexpected argument '--nosuch'");
    refused("pp -z", "unexpected argument '-z'");
    refused("pp --tim 1", "unexpected argument '--tim'");
    refused("pp extra", "unexpected argument 'extra'");
    refused("pp -t", "value is required for '--time <sec>'");
    refused("pp -t 1 -t 2", "cannot be used multiple times");
    refused("pp --full-rtt --full-rtt", "cannot be used multiple times");
    refused("pp --full-rtt=1", "unexpected value '1'");
    refused("pp --timeout -1", "unexpected argument '-1'");
}

#[test]
fn values_outside_their_range_are_refused() {
    refused("pp -t 0", "'-t' Invalid duration: 0");
    refused("pp -t 36000001", "'-t' Invalid duration: 36000001");
    refused("pp -m 13", "'-m' Invalid message size: 13 (min: 14)");
    refused(
        "pp -m 65508",
        "'-m' Invalid message size: 65508 (max: 65507)",
    );
    refused(
        "sr -m 2000000",
        "'-m' Invalid message size: 2000000 (max: 65507)",
    );
    refused("pp -p 11x", "'-p' Invalid port: 11x");
    refused("pp -p +1", "'-p' Invalid port: +1");
    refused("pp -p 99999", "'-p' Invalid port: 99999");
    refused("pp -p 0", "'-p' Invalid port: 0");
    refused(
        "pp --client_port 65536",
        "'--client_port' Invalid port: 65536",
    );
    refused("pp -b 0", "'-b' Invalid burst size: 0");
    refused("pp --mps 0", "'--mps' Invalid rate: 0");
    refused("pp --mps=1073741825", "'--mps' Invalid rate");
    refused("pp -r abc", "'-r' Invalid value");
    refused("pp -n 0", "'-n' Invalid number of packets: 0");
    refused("pp -n 100000001", "'-n' Invalid number of packets");
    refused("pp --buffer-size 0", "Invalid socket buffer size: 0");
    refused("pp --tos 256", "'--tos' Invalid value: 256");
    refused("pp --timeout=-2", "Invalid reply timeout: -2");
    refused("pp --timeout=0", "Invalid reply timeout: 0");
    refused("pp --ci_sig_level 100", "Invalid Significance level: 100");
    refused("pp --pre-warmup-wait 0", "Invalid pre warmup wait: 0");
    refused("pp -a 0", "'-a' Invalid number of messages: 0");
    refused("pp --sender-affinity 3-1", "Invalid CPU list: 3-1");
    refused("pp --histogram 1:2", "binsize:lowerrange:upperrange");
}

#[test]
fn conflicting_options_are_refused() {
    refused("pp -n 5 -t 1", "-n conflicts with -t,--mps");
    refused("pp -n 5 --mps=10", "-n conflicts with -t,--mps");
    refused(
        "pp --data-integrity -b 2",
        "--data-integrity conflicts with -b",
    );
    refused("pp -a 1 -A 1", "-a conflicts with -A");
    refused("pp --sender-affinity 0 --receiver-affinity 1", "one thread");
}
