use super::*;
use crate::capture::packet::tests::frame;

fn parse(text: &str) -> Result<Filter, String> {
    Filter::parse(&[text.to_owned()])
}

/// Whether a packet of 100 octets from descriptor 7 is taken.
fn takes(text: &str, protocol: u32, source: &str, destination: &str) -> bool {
    let subject = Subject {
        headers: Headers::of(&frame(protocol, source, destination)),
        direction: Direction::Sent,
        len: 100,
        fds: &[7],
    };
    parse(text).unwrap().takes(&subject)
}

#[test]
fn words_mean_what_they_mean_in_pcap() {
    let taken = |text: &str| takes(text, PROTOCOL_TCP, "10.0.0.1:80", "10.0.0.2:4000");
    for text in [
        "",
        "tcp",
        "ip",
        "host 10.0.0.1",
        "10.0.0.2",
        "src 10.0.0.1",
        "dst host 10.0.0.2 and dst port 4000",
        "src or dst port 80",
        "tcp port 80",
        "net 10.0.0.0/8",
        "dst net 10.0.0.0/30",
        "portrange 80-90",
        "port 443 or 80",
        "port 443 or port 80",
        "not udp",
        "! (udp or port 443)",
        "!udp && (port 80 || port 443)",
        "outbound and fd 7",
        "greater 100 and less 100",
        // From the left.
        "udp and port 443 or port 80",
        "port 80 or udp and tcp",
    ] {
        assert!(taken(text), "{text}");
    }
    for text in [
        "udp",
        "ip6",
        "host 10.0.0.3",
        "dst 10.0.0.1",
        "src and dst port 80",
        "udp port 80",
        "net 11.0.0.0/8",
        "portrange 81-90",
        "dst port 443 or 80",
        "inbound",
        "fd 8",
        "greater 101",
        "port 80 or tcp and udp",
        "not (tcp)",
    ] {
        assert!(!taken(text), "{text}");
    }
    assert!(takes(
        "ip6 and net fe80::/10",
        PROTOCOL_UDP,
        "[fe80::1]:1",
        "[fe80::2]:2"
    ));
    assert!(!takes(
        "net 0.0.0.0/0",
        PROTOCOL_UDP,
        "[fe80::1]:1",
        "[fe80::2]:2"
    ));
    assert!(takes(
        "net 0.0.0.0/0",
        PROTOCOL_UDP,
        "1.2.3.4:1",
        "4.3.2.1:2"
    ));
}

#[test]
fn what_is_no_filter_is_refused_with_a_reason() {
    for (text, why) in [
        ("host", "wants a value"),
        ("port http", "is no port"),
        ("port 70000", "is no port"),
        ("portrange 9-1", "is no range of ports"),
        ("net 10.0.0.0/33", "is no network"),
        ("arp", "is no address"),
        ("(tcp", "a ')' is missing"),
        ("tcp)", "is not expected there"),
        ("tcp and", "something is missing"),
        ("tcp udp", "is not expected there"),
        ("fd seven", "is no number"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    assert!(parse(&"(".repeat(100_000)).is_err());
    assert!(parse(&"not ".repeat(100_000)).is_err());
}
