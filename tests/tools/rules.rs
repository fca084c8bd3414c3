//! Rules of `libvma.conf`: who carries the datagrams of a preloaded program, what its statistics
//! say of it, and what a file with errors does.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use stats::SocketSnapshot;
use testkit::{Accelerated, Namespaces, Pair, SOON, or_skip, preloaded};

const FIRST_PORT: u16 = 7600;
const SECOND_PORT: u16 = 7601;

/// A preloaded program that echoes on two ports of `b`, and a client on the kernel in `a`.
struct Echoes {
    program: Accelerated,
    client: UdpSocket,
    file: PathBuf,
    _pair: Pair,
}

impl Echoes {
    /// With a file of this text.
    fn start(pair: Pair, name: &str, text: &str, environment: &[(&str, &str)]) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = testkit::c_program("two_echoes");
        let file = directory.join(format!("{name}-{}.conf", std::process::id()));
        fs::write(&file, text).unwrap();
        let mut command = preloaded(&pair.b, &program).unwrap();
        command
            .args([Pair::ADDRESS_B.to_string()])
            .args([FIRST_PORT, SECOND_PORT].map(|port| port.to_string()))
            .env("VMA_CONFIG_FILE", &file)
            .envs(environment.iter().copied());
        let mut program = Accelerated::start(command).unwrap();
        let ready = program.process().wait_for_output("ready", SOON);
        assert!(ready, "{}", program.process().stderr());
        let client = pair
            .a
            .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
            .unwrap();
        client.set_read_timeout(Some(SOON)).unwrap();
        Self {
            program,
            client,
            file,
            _pair: pair,
        }
    }

    /// Exchanges datagrams with a port, and says what the socket on it has done by then.
    fn exchange(&self, port: u16) -> SocketSnapshot {
        for number in 0..50_u32 {
            let sent = number.to_be_bytes();
            self.client.send_to(&sent, (Pair::ADDRESS_B, port)).unwrap();
            let mut buffer = [0; 16];
            let len = self.client.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..len], sent);
        }
        let sockets = self.program.sockets();
        let of_port = |socket: &SocketSnapshot| socket.local.is_some_and(|it| it.port() == port);
        sockets.into_iter().find(of_port).unwrap()
    }

    fn log(&mut self) -> String {
        self.program.process().stderr()
    }

    /// The reason of a socket, its rule, and where that stands in the file.
    fn reason(&self, socket: &SocketSnapshot) -> (String, String, String) {
        let reader = self.program.reader();
        let reasons = reader.reasons().unwrap();
        let reason = reasons
            .iter()
            .find(|reason| reason.code == socket.reason)
            .unwrap();
        let rules = reader.rules().unwrap();
        let rule = rules
            .iter()
            .find(|rule| rule.place + 1 == socket.rule)
            .unwrap();
        let place = rule.origin.strip_prefix(self.file.to_str().unwrap());
        (
            reason.name.clone(),
            rule.rule.clone(),
            place.unwrap().to_owned(),
        )
    }
}

impl Drop for Echoes {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

#[test]
fn a_port_that_a_rule_names_is_the_kernels_and_the_other_is_not() {
    let pair = or_skip!(Namespaces::pair());
    let rules = "application-id t?o_echo* *\n\n  use os udp_receiver *:7600 # why not\n";
    let echoes = Echoes::start(pair, "ports", rules, &[]);
    let ruled = echoes.exchange(FIRST_PORT);
    let free = echoes.exchange(SECOND_PORT);
    assert!(!ruled.offloaded && free.offloaded, "{ruled:?} {free:?}");
    assert_eq!((ruled.rx_packets, ruled.rx_os_packets), (0, 50));
    assert_eq!((free.rx_packets, free.rx_os_packets), (50, 0));
    assert_eq!(
        echoes.reason(&ruled),
        (
            "a rule leaves what it receives to the kernel".to_owned(),
            "use os udp_receiver *:7600".to_owned(),
            ":3".to_owned()
        )
    );
    let settings = echoes.program.reader().settings().unwrap();
    let file = settings.iter().find(|it| it.name == "VMA_CONFIG_FILE");
    let file = file.map(|it| (it.value.as_str(), it.origin.as_str()));
    assert_eq!(file, Some((echoes.file.to_str().unwrap(), "environment")));
    let polls = settings.iter().find(|it| it.name == "VMA_RX_POLL");
    let polls = polls.map(|it| (it.value.as_str(), it.origin.as_str()));
    assert_eq!(polls, Some(("100000", "default")));
    // The rule is for what is received: answers go past the kernel once the peer's hardware address
    // is known, which may take the time of several exchanges.
    let mut last = ruled;
    let goes_past = (0..20).any(|_| {
        let os_before = last.tx_os_packets;
        last = echoes.exchange(FIRST_PORT);
        last.tx_os_packets == os_before
    });
    assert!(goes_past, "{last:?}");
}

#[test]
fn answers_to_a_destination_that_a_rule_names_go_through_the_kernel() {
    let pair = or_skip!(Namespaces::pair());
    let rules = format!("use os udp_sender {}/32:*", Pair::ADDRESS_A);
    let debug = [("VMA_TRACELEVEL", "debug")];
    let mut echoes = Echoes::start(pair, "sender", &rules, &debug);
    let socket = echoes.exchange(FIRST_PORT);
    assert!(socket.offloaded);
    assert_eq!((socket.rx_packets, socket.tx_packets), (50, 0));
    assert!(
        socket.tx_os_packets >= 49,
        "the last may not be counted yet"
    );
    let log = echoes.log();
    // Once, and again when the network has changed: a neighbour has been asked.
    let decisions = log.matches("go through the kernel: a rule").count();
    assert!((1..10).contains(&decisions), "{log}");
    let rule = format!("\"use os udp_sender {}:*\"", Pair::ADDRESS_A);
    assert!(log.contains(&rule), "{log}");
}

#[test]
fn rules_for_others_are_for_others() {
    let pair = or_skip!(Namespaces::pair());
    let rules = "application-id two_echoes feed\n\
                 use os udp_receiver *:*\n\
                 application-id one_echo *\n\
                 use os udp_receiver *:*\n\
                 application-id * mine\n\
                 use os udp_receiver *:7601\n";
    let mine = [("VMA_APPLICATION_ID", "mine")];
    let echoes = Echoes::start(pair, "others", rules, &mine);
    assert!(echoes.exchange(FIRST_PORT).offloaded);
    let ruled = echoes.exchange(SECOND_PORT);
    assert_eq!(echoes.reason(&ruled).2, ":6");
}

#[test]
fn a_program_can_be_left_to_the_kernel_altogether() {
    let pair = or_skip!(Namespaces::pair());
    let rules = "use os udp_receiver *:*\nuse os udp_sender *:*";
    let echoes = Echoes::start(pair, "program", rules, &[]);
    let socket = echoes.exchange(FIRST_PORT);
    assert_eq!((socket.rx_os_packets, socket.tx_packets), (50, 0));
    assert_eq!(echoes.reason(&socket).0, "a rule leaves it to the kernel");
    assert!(echoes.program.reader().rings().unwrap().is_empty());
}

#[test]
fn errors_are_said_and_the_other_lines_count() {
    let pair = or_skip!(Namespaces::pair());
    let rules = "use os udp_receiver *:7600\nuse os udp_reciever *:7601\n";
    let mut echoes = Echoes::start(pair, "errors", rules, &[]);
    assert!(!echoes.exchange(FIRST_PORT).offloaded);
    assert!(echoes.exchange(SECOND_PORT).offloaded);
    let said = format!(
        "{}:2:8: expected a role (tcp_server, tcp_client, udp_sender, udp_receiver or udp_connect), \
         found \"udp_reciever\"; the line is ignored",
        echoes.file.display()
    );
    let log = echoes.log();
    assert_eq!(log.matches(&said).count(), 1, "{log}");
}

#[test]
fn a_file_that_a_variable_names_must_be_there() {
    let pair = or_skip!(Namespaces::pair());
    let missing = [("VMA_CONFIG_FILE", "/nonexistent/libvma.conf")];
    let mut echoes = Echoes::start(pair, "missing", "", &missing);
    assert!(echoes.exchange(FIRST_PORT).offloaded);
    let said = "no rules: cannot read /nonexistent/libvma.conf: No such file";
    let log = echoes.log();
    assert_eq!(log.matches(said).count(), 1, "{log}");
}
