//! Command lines that are answered with an error, and its text.

use super::*;

#[test]
fn options_without_effect_are_refused_by_name() {
    refused(
        "pp --load-xlio=libxlio.so",
        "--load-xlio is not supported: preload",
    );
    for option in OPTIONS {
        let Some(reason) = option.refusal() else {
            continue;
        };
        for name in option.long {
            for mode in option.modes {
                for form in [
                    format!("--{name}"),
                    format!("--{name}=1"),
                    format!("--{name} 1"),
                ] {
                    refused(&format!("{} {form}", mode.name()), &reason);
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
        ("compare a b --html", "compare takes two files"),
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
        ("pp --mps 0", "'--mps' Invalid rate: 0"),
        ("pp --mps=1073741825", "'--mps' Invalid rate"),
        (
            "ul --reply-every 0",
            "'--reply-every' Invalid number of messages: 0",
        ),
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
        ("pp --rate-limit 0", "'--rate-limit' Invalid rate limit: 0"),
        ("pp --dummy-send=x", "'--dummy-send' Invalid value: x"),
        (
            "ul --mps 50 --dummy-send=50",
            "Dummy send is allowed only if",
        ),
        ("ul --dummy-send", "Dummy send is allowed only if"),
        ("pp --lls x", "'--lls' Invalid LLS value: x"),
        ("pp --color sometimes", "'--color' Invalid value: sometimes"),
        ("pp --interval 0", "'--interval' Invalid interval: 0"),
        ("pp --warmup-time x", "'--warmup-time' Invalid time: x"),
        ("pp --threads 0", "'--threads' Invalid threads number: 0"),
        (
            "ul --threads 257",
            "'--threads' Invalid threads number: 257",
        ),
        (
            "tp --flows 60001",
            "'--flows' Invalid number of flows: 60001",
        ),
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
        (
            "pp -t 1 --warmup-time 0.96",
            "--warmup-time leaves nothing of -t",
        ),
        ("pp -n 5 --warmup-time 1", "--warmup-time conflicts with -n"),
        ("pp -n 5 --threads 2", "--threads conflicts with -n"),
        ("tp -a 5 --threads 2", "--threads conflicts with -a"),
        ("tp -A 5 --threads 2", "--threads conflicts with -A"),
        ("ul --threads 3 --mps 2", "--threads is more than --mps"),
        ("pp --threads 3 --flows 2", "fewer than --threads"),
        (
            "pp --flows 2 --client_port 5",
            "--client_port conflicts with --flows",
        ),
        ("pp --flows 2 --threads 2 -F p", "-F must be used with"),
        (
            "pp -f x -F x --threads 2",
            "--threads conflicts with -F socketxtreme",
        ),
        (
            "sr -f x -F x --threads-num 2",
            "--threads-num conflicts with -F socketxtreme",
        ),
        (
            "pp -f x -F x --zcopyread",
            "--zcopyread conflicts with -F socketxtreme",
        ),
        (
            "sr -f x -F x --rxfiltercb",
            "--rxfiltercb conflicts with -F socketxtreme",
        ),
        ("pp --load-vma=", "'--load-vma' Invalid path:"),
        (
            "pp --load-vma=a.so:b.so",
            "'--load-vma' Invalid path: a.so:b.so",
        ),
    ] {
        refused(line, message);
    }
}

#[test]
fn what_was_probably_meant_is_named() {
    refused(
        "pingpong",
        "unknown command 'pingpong'; did you mean ping-pong?",
    );
    refused("througput", "did you mean throughput?");
    refused("help thrughput", "did you mean throughput?");
    refused("pp --sender-afinity 1", "did you mean --sender-affinity?");
    refused("xyzzy", "unknown command 'xyzzy'; see");
}
