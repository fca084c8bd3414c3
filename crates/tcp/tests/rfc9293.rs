//! The requirements of RFC 9293, as its appendix B numbers them, and what holds each of them here. This test fails when a test
//! that a requirement relies on is gone; `cargo test -p tcp --test rfc9293 -- --nocapture` prints what none holds.

#![allow(clippy::print_stdout, reason = "the report")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What holds a requirement.
enum By {
    /// Tests of this crate or of `wire`, by their names.
    Tests(&'static [&'static str]),
    /// Another part of the library, or the kernel.
    Other(&'static str),
    /// Linux does otherwise, and so does the engine.
    NotAsLinux(&'static str),
    /// Nothing yet.
    Open(&'static str),
}

use By::{NotAsLinux, Open, Other, Tests};

const SOCKET: &str = "the socket in front of the engine, and the kernel's socket behind it";
const IP: &str = "IP input: such packets are not for the engine";
const SOURCE_ROUTE: &str = "a socket with IP options is the kernel's";

const REQUIREMENTS: [(u8, &str, By); 69] = [
    (
        1,
        "windows are unsigned",
        Tests(&["must_1_a_window_beyond_the_sign_bit_is_large"]),
    ),
    (
        2,
        "checksums are sent",
        Tests(&["a_segment_comes_back_with_everything_it_had"]),
    ),
    (
        3,
        "checksums are verified",
        Tests(&["every_flipped_bit_behind_the_ip_header_is_noticed"]),
    ),
    (
        4,
        "End of List, No-Operation and MSS are supported",
        Tests(&["the_list_of_a_syn_is_that_of_linux"]),
    ),
    (
        5,
        "options are received in any segment",
        Tests(&["generated_segments_come_back"]),
    ),
    (
        6,
        "unknown options are ignored",
        Tests(&["illegal_lengths_end_or_skip"]),
    ),
    (
        7,
        "illegal lengths do no harm",
        Tests(&[
            "illegal_lengths_end_or_skip",
            "no_bytes_make_the_parsers_panic",
        ]),
    ),
    (
        8,
        "initial sequence numbers follow a clock",
        Tests(&["a_flow_s_numbers_rise_by_one_each_four_microseconds"]),
    ),
    (
        9,
        "nobody else can compute them",
        Tests(&["each_part_of_the_flow_and_the_key_matter"]),
    ),
    (
        10,
        "simultaneous open",
        Tests(&["rfc9293_figure8_simultaneous_open"]),
    ),
    (
        11,
        "SYN-RECEIVED knows how it came about",
        Tests(&["must_11_a_reset_in_syn_received_means_what_the_open_was"]),
    ),
    (
        12,
        "the application hears of an abort",
        Tests(&[
            "rfc5961_3_2_a_reset_counts_at_rcv_nxt_only",
            "what_was_received_before_a_reset_can_be_read",
        ]),
    ),
    (
        13,
        "TIME-WAIT lasts two MSL",
        NotAsLinux("60 s in all, whatever the MSL"),
    ),
    (
        14,
        "the MSS option is sent and received",
        Tests(&["active_open_sends_syn_with_the_options_of_linux_and_acknowledges_the_answer"]),
    ),
    (
        15,
        "without it the MSS is 536",
        Tests(&["must_15_without_the_option_segments_have_536_octets"]),
    ),
    (
        16,
        "segments fit peer, path and options",
        Tests(&["must_16_segments_fit_the_peer_the_path_and_their_options"]),
    ),
    (
        17,
        "Nagle can be switched off",
        Tests(&["rfc9293_3_7_4_nagle_holds_a_small_segment_while_one_is_outstanding"]),
    ),
    (
        18,
        "Karn's algorithm",
        Tests(&["timeouts_double_and_send_the_first_segment"]),
    ),
    (
        19,
        "backoff, slow start, congestion avoidance",
        Tests(&[
            "each_timeout_doubles_up_to_two_minutes",
            "slow_start_doubles_each_round",
            "new_reno_halves_and_grows_by_one_segment_per_round",
        ]),
    ),
    (
        20,
        "R1 and R2: the path is suspected, the connection closed",
        Tests(&["what_is_not_acknowledged_is_sent_again_until_retries2"]),
    ),
    (
        21,
        "the application can set R2",
        Tests(&["rfc5482_user_timeout_bounds_the_time_without_acknowledgement"]),
    ),
    (
        22,
        "SYNs have R1 and R2, too",
        Tests(&["syn_is_repeated_six_times_with_doubling_intervals_as_in_linux"]),
    ),
    (
        23,
        "R2 of a SYN is three minutes at least",
        NotAsLinux("six repetitions take 127 s (tcp_syn_retries)"),
    ),
    (
        24,
        "keep-alive is up to the application",
        Tests(&["rfc9293_3_8_4_keepalive_probes_and_gives_up"]),
    ),
    (
        25,
        "and off by default",
        Tests(&["rfc9293_3_8_4_keepalive_probes_and_gives_up"]),
    ),
    (
        26,
        "it is sent when nothing came for the interval",
        Tests(&["rfc9293_3_8_4_keepalive_probes_and_gives_up"]),
    ),
    (
        27,
        "the interval can be set",
        Tests(&["rfc9293_3_8_4_keepalive_probes_and_gives_up"]),
    ),
    (
        28,
        "and is two hours by default",
        Tests(&["rfc9293_3_8_4_keepalive_probes_and_gives_up"]),
    ),
    (
        29,
        "one probe without an answer is not death",
        Tests(&["rfc9293_3_8_4_keepalive_probes_and_gives_up"]),
    ),
    (
        30,
        "the urgent mechanism is there",
        Tests(&["urgent_data_as_linux_has_it"]),
    ),
    (
        31,
        "urgent data may have any length",
        Tests(&["must_62_the_pointer_is_behind_urgent_data_of_any_length"]),
    ),
    (
        32,
        "the application is told of urgent data",
        Tests(&["urgent_data_may_be_announced_before_it_comes"]),
    ),
    (
        33,
        "and can learn where it ends",
        Tests(&["urgent_data_as_linux_has_it"]),
    ),
    (
        34,
        "a window that shrinks does no harm",
        Tests(&["must_34_a_window_that_is_taken_back_stops_new_data_only"]),
    ),
    (
        35,
        "window probes are the standard ones",
        Tests(&["rfc9293_3_8_6_1_a_closed_window_is_probed_with_growing_intervals"]),
    ),
    (
        36,
        "a closed window is probed",
        Tests(&["rfc9293_3_8_6_1_a_closed_window_is_probed_with_growing_intervals"]),
    ),
    (
        37,
        "it may stay closed for ever",
        Tests(&["must_37_a_window_may_stay_closed_while_probes_are_answered"]),
    ),
    (
        38,
        "the sender avoids the silly window syndrome",
        Tests(&["rfc9293_3_8_6_2_1_a_window_smaller_than_a_segment_waits_for_the_probe_timer"]),
    ),
    (
        39,
        "and so does the receiver",
        Tests(&["the_window_closes_as_data_waits_and_opens_when_it_is_read"]),
    ),
    (
        40,
        "acknowledgements are delayed by less than half a second",
        Tests(&[
            "rfc5681_section4_2_every_second_full_segment_is_acknowledged_and_others_after_a_delay",
        ]),
    ),
    (
        41,
        "passive opens do not disturb others",
        Tests(&["connections_are_found_by_both_ends"]),
    ),
    (
        42,
        "passive opens on one port coexist",
        Tests(&["a_listener_on_the_address_goes_before_one_on_all"]),
    ),
    (43, "OPEN takes a local address", Other(SOCKET)),
    (44, "IP chooses the source address", Other(SOCKET)),
    (45, "a connection keeps its local address", Other(SOCKET)),
    (46, "no OPEN to broadcast or multicast", Other(SOCKET)),
    (
        47,
        "errors are reported",
        Tests(&[
            "rfc5927_icmp_errors_do_not_end_an_open_connection",
            "a_reset_after_the_peers_fin_is_a_broken_pipe",
        ]),
    ),
    (48, "the application can set DSCP", Other(SOCKET)),
    (49, "the TTL can be set", Other(SOCKET)),
    (
        50,
        "unknown IP options are ignored",
        Open(
            "a packet with IP options is not parsed and goes to the kernel, which does not know the connection",
        ),
    ),
    (51, "a source route can be given", Other(SOURCE_ROUTE)),
    (52, "and goes before one received", Other(SOURCE_ROUTE)),
    (
        53,
        "one received is used for the way back",
        NotAsLinux("source routes are not accepted (accept_source_route = 0)"),
    ),
    (
        54,
        "ICMP is acted on",
        Tests(&[
            "an_icmp_error_ends_a_connection_that_is_being_opened",
            "rfc1191_a_smaller_path_mtu_sends_again_in_smaller_segments",
        ]),
    ),
    (
        55,
        "Source Quench is not",
        Other("there is no such value of IcmpError"),
    ),
    (
        56,
        "soft errors do not abort",
        Tests(&["rfc5927_icmp_errors_do_not_end_an_open_connection"]),
    ),
    (
        57,
        "segments to broadcast and multicast are dropped",
        Other(IP),
    ),
    (
        58,
        "acknowledgements are aggregated",
        Tests(&[
            "must_59_segments_that_came_together_get_one_acknowledgement",
            "an_acknowledgement_rides_on_data",
        ]),
    ),
    (
        59,
        "all queued segments before one acknowledgement",
        Tests(&["must_59_segments_that_came_together_get_one_acknowledgement"]),
    ),
    (
        60,
        "data is not held back indefinitely",
        Tests(&[
            "cork_sends_full_segments_only_for_up_to_200_ms",
            "rfc9293_3_7_4_nagle_holds_a_small_segment_while_one_is_outstanding",
        ]),
    ),
    (
        61,
        "the last segment is pushed",
        Tests(&["must_61_the_last_segment_is_pushed"]),
    ),
    (
        62,
        "the urgent pointer is behind the urgent data",
        Tests(&["must_62_the_pointer_is_behind_urgent_data_of_any_length"]),
    ),
    (63, "SYNs from invalid addresses are dropped", Other(IP)),
    (
        64,
        "options need no alignment",
        Tests(&["generated_segments_come_back"]),
    ),
    (
        65,
        "MSS goes with SYN only",
        Tests(&["must_65_only_syns_carry_options_of_the_handshake"]),
    ),
    (
        66,
        "RST, URG and ACK count at a closed window",
        Tests(&["must_66_a_closed_window_still_hears_resets_acknowledgements_and_urgency"]),
    ),
    (
        67,
        "the MSS that is sent is that of the interface",
        Tests(&["active_open_sends_syn_with_the_options_of_linux_and_acknowledges_the_answer"]),
    ),
    (
        68,
        "all other options have lengths",
        Tests(&["illegal_lengths_end_or_skip"]),
    ),
    (
        69,
        "padding is zero",
        Tests(&["the_list_of_a_syn_is_that_of_linux"]),
    ),
];

#[test]
fn every_requirement_is_held_by_a_test_that_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("crates/");
    let mut tests = BTreeSet::new();
    for directory in ["tcp/src", "wire/src", "wire/tests"] {
        collect_tests(&crates.join(directory), &mut tests);
    }
    assert!(tests.len() > 100, "the sources were not found");
    let mut missing = Vec::new();
    for (index, (number, what, by)) in REQUIREMENTS.iter().enumerate() {
        assert_eq!(usize::from(*number), index + 1);
        match by {
            Tests(names) => {
                assert!(!names.is_empty());
                let gone = names.iter().filter(|name| !tests.contains(**name));
                missing.extend(gone.map(|name| format!("MUST-{number}: {name}")));
            }
            Other(whom) => println!("MUST-{number} ({what}): {whom}"),
            NotAsLinux(how) => println!("MUST-{number} ({what}): as Linux: {how}"),
            Open(why) => println!("MUST-{number} ({what}): OPEN: {why}"),
        }
    }
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

/// The names of functions behind `#[test]`, also inside `proptest!`.
fn collect_tests(directory: &Path, tests: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect_tests(&path, tests);
            continue;
        }
        let source = fs::read_to_string(&path).expect("a source file");
        let mut is_test = false;
        for line in source.lines().map(str::trim) {
            if line == "#[test]" {
                is_test = true;
            } else if is_test && let Some(rest) = line.strip_prefix("fn ") {
                let name = rest.split('(').next().expect("a name");
                tests.insert(name.to_owned());
                is_test = false;
            }
        }
    }
}
