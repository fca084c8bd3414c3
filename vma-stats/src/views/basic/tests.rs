use std::time::Duration;

use stats::{PROTOCOL_TCP, PROTOCOL_UDP, SocketSlot};

use super::*;
use crate::sample::tests::Fixture;
use crate::views::Table;

const RULE: &str =
    "-------------------------------------------------------------------------------\n";

fn table(explained: bool) -> Table<Sockets> {
    Table::new(view(explained))
}

fn busy_socket(fixture: &Fixture) -> SocketSlot {
    let socket = fixture.segment.claim_socket();
    socket.fd.set(14);
    socket.protocol.set(PROTOCOL_UDP);
    socket.set_offloaded();
    socket.rx_packets.add(140_479_898);
    socket.rx_bytes.add(280_958_976 + 1023);
    socket.rx_poll_hit.add(999);
    socket.rx_poll_miss.add(1);
    socket.rx_eagain.add(12);
    socket.rx_errors.add(3);
    socket.rx_os_packets.add(4);
    socket.rx_os_bytes.add(5 * 1024);
    socket.rx_os_eagain.add(6);
    socket.rx_os_errors.add(7);
    socket.tx_packets.add(21);
    socket.tx_bytes.add(22 * 1024);
    socket.tx_eagain.add(23);
    socket.tx_errors.add(24);
    socket.tx_os_packets.add(25);
    socket.tx_os_bytes.add(26 * 1024);
    socket.tx_os_eagain.add(27);
    socket.tx_os_errors.add(28);
    socket
}

#[test]
fn totals_have_the_columns_of_the_original() {
    let fixture = Fixture::new();
    let _socket = busy_socket(&fixture);
    let mut view = table(false);
    let text = view.format(&fixture.sample().totals());
    let expected = concat!(
        " fd      ------------ total offloaded -------------   --------- total os ----------\n",
        "                pkt   Kbyte   eagain   error  poll%     pkt   Kbyte  eagain   error\n",
        " 14  Rx:  140479898  274374       12       3   99.9       4       5       6       7\n",
        "     Tx:         21      22       23      24             25      26      27      28\n",
    );
    assert_eq!(text, format!("{expected}{RULE}"));
}

#[test]
fn deltas_are_divided_by_the_true_time() {
    let fixture = Fixture::new();
    let socket = busy_socket(&fixture);
    let earlier = fixture.sample();
    socket.rx_packets.add(37_965);
    socket.rx_bytes.add(75_000);
    socket.rx_poll_hit.add(1);
    socket.rx_poll_miss.add(1);
    socket.tx_os_packets.add(25);
    let report = fixture
        .sample()
        .deltas(&earlier)
        .over(Duration::from_millis(2500));
    let text = table(false).format(&report);
    let expected = concat!(
        " fd      --------------- offloaded ----------------         ---------- os ---------\n",
        "              pkt/s Kbyte/s eagain/s error/s  poll%   pkt/s Kbyte/s eagain/s error/s\n",
        " 14  Rx:      15186      29        0       0   50.0       0       0       0       0\n",
        "     Tx:          0       0        0       0             10       0       0       0\n",
    );
    assert_eq!(text, format!("{expected}{RULE}"));
}

#[test]
fn no_socket_gives_the_heading_once_and_no_rule() {
    let fixture = Fixture::new();
    let mut view = table(false);
    assert_eq!(view.format(&fixture.sample().totals()).lines().count(), 2);
    assert_eq!(view.format(&fixture.sample().totals()), "");
}

#[test]
fn heading_is_repeated_after_a_screenful() {
    let fixture = Fixture::new();
    let _socket = busy_socket(&fixture);
    let mut view = table(false);
    let mut headed =
        std::iter::repeat_with(|| view.format(&fixture.sample().totals()).starts_with(" fd "));
    // Three lines a report: the heading is due after 24 of them.
    let headed: Vec<_> = headed.by_ref().take(17).collect();
    let at: Vec<_> = (0..17).filter(|index| headed[*index]).collect();
    assert_eq!(at, [0, 8, 16]);
}

#[test]
fn wide_values_push_columns_but_are_not_cut() {
    let fixture = Fixture::new();
    let socket = fixture.segment.claim_socket();
    socket.fd.set(12_345);
    socket.tx_packets.add(u64::MAX);
    let text = table(false).format(&fixture.sample().totals());
    assert!(text.contains(" 12345 Rx:          0"), "{text}");
    assert!(text.contains("Tx: 18446744073709551615       0"), "{text}");
    assert!(!text.contains("NaN"), "{text}");
}

#[test]
fn explain_adds_settings_rings_pools_reasons_and_rules() {
    let fixture = Fixture::new();
    fixture
        .segment
        .reason_names(&["", "the interface has no XDP support"]);
    let first = fixture.segment.claim_socket();
    first.fd.set(3);
    first.protocol.set(PROTOCOL_TCP);
    first.set_not_offloaded(1, 0);
    let second = fixture.segment.claim_socket();
    second.fd.set(4);
    second.protocol.set(PROTOCOL_UDP);
    second.set_not_offloaded(2, 1);
    let origin = "/etc/libvma.conf:12";
    fixture
        .segment
        .describe_rule(1, "use os udp_receiver *:7000", origin);
    let setting = |name, value, origin| stats::Setting {
        name,
        value,
        origin,
    };
    let settings = [
        setting("VMA_RX_POLL", "-1", "preset"),
        setting("VMA_SPEC", "none", "default"),
    ];
    fixture.segment.settings(settings.into_iter());
    let third = fixture.segment.claim_socket();
    third.fd.set(5);
    third.protocol.set(PROTOCOL_UDP);
    third.set_offloaded();
    third.detail.set("groups through the kernel: 239.1.2.3");
    third.rx_os_reasons.count(2);
    (0..3).for_each(|_| third.tx_os_reasons.count(1));
    third.tx_os_reasons.count(2);
    let closed = fixture.segment.claim_socket();
    closed.fd.set(6);
    closed.protocol.set(PROTOCOL_UDP);
    closed.local.set("10.0.0.1:53".parse().unwrap());
    closed.set_not_offloaded(1, 0);
    closed.detail.set("IP_PKTINFO");
    closed.rx_os_packets.add(8);
    fixture.segment.remember_closed(&closed);
    drop(closed);
    let of_kernel = [7, 9].map(|fd| {
        let slot = fixture.segment.claim_kernel_socket();
        slot.protocol.set(PROTOCOL_TCP);
        slot.reason.set(1);
        slot.fd.set(fd);
        slot
    });
    assert!(of_kernel[0].is_published());
    fixture.segment.note("eth0", "vlan", "tags are stripped");
    let ring = fixture.segment.claim_ring();
    ring.ifname.set("eth0");
    ring.mode.set("xdp native");
    ring.rx_packets.add(10);
    ring.rx_bytes.add(2048);
    ring.tx_packets.add(20);
    ring.tx_bytes.add(4096);
    ring.rx_dropped_no_socket.add(1);
    ring.rx_dropped_malformed.add(2);
    ring.rx_dropped_checksum.add(3);
    ring.rx_dropped_no_frame.add(4);
    ring.tx_full.add(5);
    let pool = fixture.segment.claim_pool();
    pool.frames.set(4096);
    pool.frame_bytes.set(2048);
    pool.free.set(4000);
    pool.exhausted.add(6);

    let plain = table(false).format(&fixture.sample().totals());
    let text = table(true).format(&fixture.sample().totals());
    let added = text
        .strip_prefix(plain.strip_suffix(RULE).unwrap())
        .unwrap();
    let expected = concat!(
        " Settings: VMA_RX_POLL=-1 (preset)\n",
        " Ring eth0 (xdp native): Rx 10 pkt 2 Kbyte, Tx 20 pkt 4 Kbyte, dropped: 1 no socket, 2 malformed, 3 checksum, 4 no buffer, 5 tx full\n",
        " Pool: 4000 of 4096 buffers free, 2048 bytes each, exhausted 6\n",
        " Note on eth0 (vlan): tags are stripped\n",
        " fd 3 tcp is not offloaded: the interface has no XDP support\n",
        " fd 4 udp is not offloaded: reason 2: \"use os udp_receiver *:7000\" (/etc/libvma.conf:12)\n",
        " fd 5 udp: groups through the kernel: 239.1.2.3\n",
        " fd 5 udp Rx through the kernel, pkt: 1 reason 2\n",
        " fd 5 udp Tx through the kernel, pkt: 3 the interface has no XDP support, 1 reason 2\n",
        " fd 7, 9 tcp: the interface has no XDP support\n",
        " Closed fd 6 udp 10.0.0.1:53 to -, not offloaded: the interface has no XDP support: IP_PKTINFO; offloaded Rx 0 pkt, Tx 0 pkt; os Rx 8 pkt, Tx 0 pkt\n",
    );
    assert_eq!(added, format!("{expected}{RULE}"));

    let earlier = fixture.sample();
    ring.rx_packets.add(10);
    let report = fixture
        .sample()
        .deltas(&earlier)
        .over(Duration::from_secs(2));
    let text = table(true).format(&report);
    assert!(text.contains(": Rx 5 pkt/s 0 Kbyte/s, "), "{text}");
    assert!(
        text.contains("4000 of 4096 buffers free, 2048 bytes each, exhausted 0/s"),
        "{text}"
    );
}
