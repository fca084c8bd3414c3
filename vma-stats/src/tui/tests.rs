//! The screens at several sizes, from statistics that no process has made.

use std::time::{Duration, UNIX_EPOCH};

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use stats::{PROTOCOL_TCP, PROTOCOL_UDP, ProcessInfo, SocketSlot};

use super::app::{Action, App, Followed, Tab};
use super::draw::draw;
use super::theme::Theme;
use crate::sample::Sample;
use crate::sample::tests::Fixture;

fn process() -> ProcessInfo {
    ProcessInfo {
        pid: 4242,
        start_time_ticks: 1,
        program: "feed-handler".to_owned(),
        library_version: "0.1.0".to_owned(),
        layout_major: 1,
        layout_minor: 5,
    }
}

struct Sockets(Vec<SocketSlot>);

impl Sockets {
    fn new(fixture: &Fixture) -> Self {
        let socket = |fd: i32, local: &str, peer: Option<&str>| {
            let socket = fixture.segment.claim_socket();
            socket.fd.set(fd);
            socket.protocol.set(PROTOCOL_UDP);
            socket.local.set(local.parse().unwrap());
            if let Some(peer) = peer {
                socket.peer.set(peer.parse().unwrap());
            }
            socket.rx_queue_bytes_limit.set(212_992);
            socket
        };
        let fast = socket(14, "10.1.2.3:4791", Some("10.1.2.9:5000"));
        fast.set_offloaded();
        fast.nonblocking.set(true);
        fast.inode.set(98_765);
        fast.rx_thread.set(4243);
        let mixed = socket(15, "10.1.2.3:7001", None);
        mixed.set_offloaded();
        mixed.detail.set("groups through the kernel: 239.1.2.3");
        let slow = socket(16, "127.0.0.1:8125", None);
        slow.set_not_offloaded(4, 0);
        let fresh = socket(17, "0.0.0.0:0", None);
        fresh.set_not_offloaded(1, 0);
        Self(vec![fast, mixed, slow, fresh])
    }

    /// A second's traffic.
    fn run(&self, second: u64) {
        let wave = 200_000 + second * 7919 % 90_000;
        let [fast, mixed, slow, _] = &self.0[..] else {
            panic!("four sockets")
        };
        fast.rx_packets.add(wave);
        fast.rx_bytes.add(wave * 64);
        fast.tx_packets.add(wave / 10);
        fast.tx_bytes.add(wave * 6);
        fast.rx_poll_hit.add(wave);
        fast.rx_poll_miss.add(wave / 1000);
        (0..4).for_each(|_| fast.rx_os_reasons.count(31));
        fast.rx_os_packets.add(4);
        fast.rx_os_bytes.add(256);
        for time in [180, 220, 250, 300, 310, 420, 900, 5_000] {
            (0..40).for_each(|_| fast.rx_latency.record(time));
        }
        mixed.rx_packets.add(600);
        mixed.rx_bytes.add(600 * 1400);
        mixed.rx_os_packets.add(1400);
        mixed.rx_os_bytes.add(1400 * 1400);
        mixed.rx_queue_packets.set(37);
        mixed.rx_queue_packets_max.raise_to(512);
        mixed.rx_dropped_packets.add(second % 3 * 17);
        mixed.rx_poll_hit.add(100);
        mixed.rx_poll_miss.add(400);
        slow.tx_os_packets.add(12);
        slow.tx_os_bytes.add(12 * 90);
    }
}

fn app(colours: bool) -> App {
    let fixture = Fixture::new();
    let segment = &fixture.segment;
    let mut names = vec![""; 40];
    let mut advice = vec![""; 40];
    (names[0], names[1]) = ("offloaded", "neither bound nor connected yet");
    (names[4], advice[4]) = (
        "bound to a loopback address",
        "Use the address of a network interface: loopback traffic never reaches a device",
    );
    names[31] = "came in fragments, by another interface, or earlier";
    names[33] = "TCP over IPv6 is the kernel's for now";
    segment.reason_names(&names);
    segment.reason_advice(&advice);
    let setting = |name, value, origin| stats::Setting {
        name,
        value,
        origin,
    };
    let settings = [
        setting("VMA_TRACELEVEL", "3", "default"),
        setting("VMA_SPEC", "latency", "environment"),
        setting("VMA_RX_POLL", "-1", "preset"),
    ];
    segment.settings(settings.into_iter());
    let ring = segment.claim_ring();
    ring.ifname.set("ens1f0");
    ring.mode.set("xdp native");
    ring.queues.set(4);
    let pool = segment.claim_pool();
    pool.frames.set(16_384);
    pool.frame_bytes.set(2048);
    pool.free.set(3_900);
    let queue = segment.claim_queue();
    queue.ifname.set("ens1f0");
    queue.rx_drained_max.raise_to(64);
    let epoll = segment.claim_multiplexer();
    epoll.kind.set("epoll");
    epoll.epfd.set(9);
    epoll.thread.set(4243);
    let group = segment.claim_group();
    group.fd.set(15);
    group.group.set("239.1.2.3:0".parse().unwrap());
    let stream = segment.claim_kernel_socket();
    stream.fd.set(20);
    stream.protocol.set(PROTOCOL_TCP);
    stream.reason.set(33);
    let connection = segment.claim_tcp_connection();
    connection.fd.set(21);
    connection.state.set(1);
    connection.local.set("10.1.2.3:40112".parse().unwrap());
    connection.peer.set("10.1.2.9:443".parse().unwrap());
    connection.cwnd.set(64_240);
    connection.srtt_usec.set(420);
    segment.note(
        "ens1f0",
        "vlan",
        "tags are stripped: ethtool -K ens1f0 rxvlan off",
    );
    segment.event("device", "ens1f0", "opened, xdp native");
    segment.event("offload", "fd 14", "10.1.2.3:4791: offloaded");
    segment.event(
        "kernel",
        "fd 16",
        "127.0.0.1:8125: bound to a loopback address",
    );
    segment.event("error", "eth9", "bpf(2): Operation not permitted");
    let sockets = Sockets::new(&fixture);
    let mut app = App::new(process(), Duration::from_secs(1), Theme::new(colours));
    let mut other = Followed::new(ProcessInfo {
        pid: 4250,
        program: "gateway".to_owned(),
        ..process()
    });
    for second in 0..50 {
        sockets.run(second);
        epoll.shares[1].rx_ready.add(150_000);
        epoll.shares[2].rx_ready.add(50_000);
        epoll.shares[1].poll_hit.add(180_000);
        epoll.shares[1].poll_miss.add(2_000);
        ring.rx_packets.add(200_600);
        ring.rx_bytes.add(200_600 * 106);
        ring.tx_packets.add(20_000);
        ring.tx_kicks.add(20_000);
        let mut sample = fixture.sample();
        sample.taken = Duration::from_secs(second);
        sample.time = UNIX_EPOCH + Duration::from_secs(second);
        for event in &mut sample.statistics.events {
            event.time_nsec = (36_000 + event.order) * 1_000_000_000;
        }
        let mut others = sample.clone();
        others.statistics.sockets.retain(|socket| socket.fd == 16);
        others.statistics.kernel_sockets.clear();
        other.history.push(others);
        app.push(sample);
    }
    app.others.push(other);
    app
}

fn press(app: &mut App, key: KeyCode) -> Option<Action> {
    app.handle(&Event::Key(KeyEvent::new(key, KeyModifiers::NONE)))
}

fn screen(app: &mut App, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    terminal
}

/// With `VMA_STATS_PICTURES=dir`, what is drawn is also written there, to be looked at.
fn shown(name: &str, app: &mut App, width: u16, height: u16) -> String {
    let terminal = screen(app, width, height);
    if let Some(directory) = std::env::var_os("VMA_STATS_PICTURES") {
        let mut cells = String::new();
        let buffer = terminal.backend().buffer();
        for y in 0..height {
            for x in 0..width {
                let cell = &buffer[(x, y)];
                cells.push_str(&format!(
                    "{x}\t{y}\t{}\t{:?}\t{:?}\t{:?}\n",
                    cell.symbol(),
                    cell.fg,
                    cell.bg,
                    cell.modifier
                ));
            }
        }
        let path = std::path::Path::new(&directory).join(format!("{name}-{width}x{height}.cells"));
        std::fs::write(path, cells).unwrap();
    }
    terminal.backend().to_string()
}

#[test]
fn screens_at_three_sizes() {
    for (width, height) in [(80, 24), (120, 36), (200, 60)] {
        let mut app = app(true);
        for tab in Tab::ALL {
            app.tab = tab;
            app.selected = 0;
            let name = format!("{}-{width}x{height}", tab.name().to_lowercase());
            let text = shown(tab.name(), &mut app, width, height);
            insta::assert_snapshot!(name, text);
        }
        app.tab = Tab::Sockets;
        app.detail = true;
        let text = shown("detail", &mut app, width, height);
        insta::assert_snapshot!(format!("detail-{width}x{height}"), text);
        app.selected = 2;
        let text = shown("kernel", &mut app, width, height);
        insta::assert_snapshot!(format!("kernel-{width}x{height}"), text);
        app.detail = false;
        app.help = true;
        let text = shown("help", &mut app, width, height);
        insta::assert_snapshot!(format!("help-{width}x{height}"), text);
    }
}

/// Colours say nothing that is not said without them, and none are used where none are wanted.
#[test]
fn screens_without_colours_have_the_same_text() {
    let (mut coloured, mut plain) = (app(true), app(false));
    for tab in Tab::ALL {
        (coloured.tab, plain.tab) = (tab, tab);
        let coloured = screen(&mut coloured, 120, 36);
        let plain = screen(&mut plain, 120, 36);
        assert_eq!(coloured.backend().to_string(), plain.backend().to_string());
        let cells = plain.backend().buffer().content();
        let is_plain = |cell: &ratatui::buffer::Cell| cell.fg == ratatui::style::Color::Reset;
        assert!(cells.iter().all(is_plain), "{}", tab.name());
    }
}

/// Whatever the size, nothing is drawn outside of it.
#[test]
fn screens_of_any_size_are_drawn() {
    let mut app = app(true);
    for (width, height) in [
        (1, 1),
        (10, 3),
        (59, 30),
        (60, 12),
        (80, 13),
        (300, 20),
        (60, 100),
    ] {
        for tab in Tab::ALL {
            app.tab = tab;
            for (detail, help) in [(false, false), (true, false), (false, true)] {
                (app.detail, app.help) = (detail, help);
                screen(&mut app, width, height);
            }
        }
    }
}

/// Descriptors in the table's order.
fn fds(app: &App) -> Vec<i32> {
    let sockets = (0..).map_while(|row| app.socket_in_row(row));
    sockets.map(|shown| shown.socket.fd).collect()
}

/// The sockets of all processes are one table, with the process of each.
#[test]
fn all_processes_are_shown_together() {
    let mut app = app(true);
    press(&mut app, KeyCode::Char('a'));
    assert_eq!(
        fds(&app),
        [14, 15, 16, 17, 16],
        "by process, then by descriptor"
    );
    let text = shown("all", &mut app, 120, 36);
    insta::assert_snapshot!("all-120x36", text);
    for (filter, expected) in [("gateway", vec![16]), ("pid 4242", vec![14, 15, 16, 17])] {
        press(&mut app, KeyCode::Char('/'));
        for letter in filter.chars() {
            press(&mut app, KeyCode::Char(letter));
        }
        press(&mut app, KeyCode::Enter);
        assert_eq!(fds(&app), expected, "{filter}");
        press(&mut app, KeyCode::Esc);
    }
    press(&mut app, KeyCode::Char('s'));
    assert_eq!(fds(&app)[0], 14, "the busiest of all comes first");
    press(&mut app, KeyCode::Char('a'));
    assert_eq!(fds(&app).len(), 4);
}

#[test]
fn keys_change_what_is_shown() {
    let mut app = app(true);
    press(&mut app, KeyCode::Char('s'));
    assert_eq!(fds(&app)[0], 14, "the busiest comes first");
    press(&mut app, KeyCode::Char('r'));
    assert_ne!(fds(&app)[0], 14);
    press(&mut app, KeyCode::Char('r'));
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Enter);
    assert!(app.detail);
    press(&mut app, KeyCode::Esc);
    assert!(!app.detail);
    press(&mut app, KeyCode::Tab);
    assert_eq!(app.tab, Tab::Rings);
    press(&mut app, KeyCode::Char('8'));
    screen(&mut app, 80, 24);
    press(&mut app, KeyCode::Down);
    assert_eq!(press(&mut app, KeyCode::Enter), Some(Action::Open(4250)));
    press(&mut app, KeyCode::Char(' '));
    assert!(app.paused);
    assert_eq!(press(&mut app, KeyCode::Char('z')), None, "asks first");
    assert_eq!(press(&mut app, KeyCode::Char('x')), None);
    assert_eq!(press(&mut app, KeyCode::Char('z')), None, "asks again");
    assert_eq!(press(&mut app, KeyCode::Char('z')), Some(Action::Zero));
    press(&mut app, KeyCode::Char('?'));
    assert!(app.help);
    press(&mut app, KeyCode::Char('x'));
    assert!(!app.help, "any key closes the help");
    assert_eq!(press(&mut app, KeyCode::Char('q')), Some(Action::Quit));
}

#[test]
fn filter_finds_addresses_and_reasons() {
    let mut app = app(true);
    for (filter, expected) in [
        ("7001", vec![15]),
        ("LOOPBACK", vec![16]),
        ("kernel", vec![15, 16, 17]),
        ("fd 17", vec![17]),
        ("nothing like it", vec![]),
    ] {
        press(&mut app, KeyCode::Char('/'));
        filter
            .chars()
            .for_each(|letter| assert!(press(&mut app, KeyCode::Char(letter)).is_none()));
        press(&mut app, KeyCode::Enter);
        assert_eq!(fds(&app), expected, "{filter}");
        screen(&mut app, 80, 24);
        press(&mut app, KeyCode::Esc);
        assert_eq!(fds(&app).len(), 4);
    }
}

/// A list's rows, by the first words of each.
fn rows(app: &mut App) -> Vec<String> {
    let text = screen(app, 120, 36).backend().to_string();
    let area = app.rows_area;
    let lines = text.lines().skip(usize::from(area.y));
    let lines = lines.take(usize::from(area.height));
    let first = |line: &str| Some(line.trim_matches('"').split_whitespace().next()?.to_owned());
    lines.filter_map(first).collect()
}

#[test]
fn lists_are_filtered_and_sorted_by_any_column() {
    let mut app = app(true);
    press(&mut app, KeyCode::Char('7'));
    assert_eq!(
        rows(&mut app),
        ["VMA_SPEC", "VMA_RX_POLL", "VMA_TRACELEVEL"]
    );
    press(&mut app, KeyCode::Char('s'));
    assert_eq!(
        rows(&mut app),
        ["VMA_RX_POLL", "VMA_SPEC", "VMA_TRACELEVEL"]
    );
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(
        rows(&mut app),
        ["VMA_TRACELEVEL", "VMA_SPEC", "VMA_RX_POLL"]
    );
    press(&mut app, KeyCode::Char('/'));
    "PRESET"
        .chars()
        .for_each(|letter| assert!(press(&mut app, KeyCode::Char(letter)).is_none()));
    press(&mut app, KeyCode::Enter);
    assert_eq!(rows(&mut app), ["VMA_RX_POLL"]);
    assert_eq!(app.row_count(), 1);
    press(&mut app, KeyCode::Esc);
    assert_eq!(rows(&mut app).len(), 3);
    // Numbers by what they are worth, the largest first; the row that is chosen is the one shown.
    press(&mut app, KeyCode::Char('8'));
    assert_eq!(rows(&mut app), ["4242", "4250"]);
    for _ in 0..5 {
        press(&mut app, KeyCode::Char('s'));
    }
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(
        rows(&mut app),
        ["4250", "4242"],
        "by Rx/s, the smallest first"
    );
    assert_eq!(press(&mut app, KeyCode::Enter), Some(Action::Open(4250)));
}

#[test]
fn an_accelerated_connection_says_how_it_is() {
    let mut app = app(true);
    let mut sample = app.current.history.latest().unwrap().clone();
    sample.taken += Duration::from_secs(1);
    let connection = &sample.statistics.tcp_connections[0];
    let (fd, inode) = (connection.fd, connection.inode);
    let socket = &mut sample.statistics.sockets[0];
    (socket.fd, socket.inode, socket.protocol) = (fd, inode, PROTOCOL_TCP);
    app.push(sample);
    app.detail = true;
    app.selected = (0..4)
        .find(|row| app.socket_in_row(*row).unwrap().socket.fd == fd)
        .unwrap();
    let text = screen(&mut app, 120, 36).backend().to_string();
    assert!(
        text.contains("ESTABLISHED, cwnd 63K, rtt 420.0 us"),
        "{text}"
    );
}

#[test]
fn mouse_chooses_tabs_and_rows() {
    let mut app = app(true);
    screen(&mut app, 120, 36);
    let click = |app: &mut App, column: u16, row: u16| {
        app.handle(&Event::Mouse(MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column,
            row,
            modifiers: KeyModifiers::NONE,
        }))
    };
    let (x, y) = (app.rows_area.x + 2, app.rows_area.y + 2);
    click(&mut app, x, y);
    assert_eq!((app.selected, app.detail), (2, false));
    click(&mut app, x, y);
    assert!(app.detail, "a second click opens it");
    let events = app.tab_areas.iter().find(|(tab, _)| *tab == Tab::Events);
    let area = events.unwrap().1;
    click(&mut app, area.x + 1, area.y);
    assert_eq!(app.tab, Tab::Events);
}

#[test]
fn zeroed_counters_and_lost_sockets_do_no_harm() {
    let mut app = app(true);
    let mut sample = app.current.history.latest().unwrap().clone();
    sample.taken += Duration::from_secs(1);
    sample.statistics.sockets.truncate(1);
    sample.statistics.sockets[0].rx_packets = 5;
    app.selected = 3;
    app.detail = true;
    app.push(sample);
    assert_eq!(app.selected, 0);
    screen(&mut app, 120, 36);
    app.push(Sample {
        taken: Duration::from_secs(99),
        time: UNIX_EPOCH,
        statistics: stats::Statistics::default(),
        overflowed_sockets: 3,
    });
    let text = shown("gone", &mut app, 120, 36);
    assert!(text.contains("The socket is gone"), "{text}");
}
