//! Whose an interface is: one process at a time, and the kernel's again as soon as that ends,
//! however it ends.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{Accelerated, Namespace, Namespaces, Pair, SOON, eventually, or_skip, preloaded};

fn echo_program() -> PathBuf {
    testkit::c_program("echo")
}

fn start_echo(namespace: &Namespace, ip: Ipv4Addr, port: u16) -> Accelerated {
    let mut command = preloaded(namespace, &echo_program()).unwrap();
    command.args([ip.to_string(), port.to_string()]);
    let mut echo = Accelerated::start(command).unwrap();
    assert!(
        echo.process().wait_for_output("ready", SOON),
        "{}",
        echo.process().stderr()
    );
    echo
}

fn client(pair: &Pair) -> UdpSocket {
    let socket = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket
}

/// Sends a number to a port and expects it back.
fn ping(client: &UdpSocket, port: u16, number: u32) -> io::Result<()> {
    client.send_to(&number.to_be_bytes(), (Pair::ADDRESS_B, port))?;
    let mut buffer = [0; 64];
    let len = client.recv(&mut buffer)?;
    assert_eq!(buffer[..len], number.to_be_bytes());
    Ok(())
}

fn has_xdp(pair: &Pair) -> bool {
    let text = pair.b.ip(&["-details", "link", "show", "vb"]).unwrap();
    text.contains("xdp")
}

/// Receives one datagram on a kernel socket of `b` and says whether it came.
fn kernel_receives(pair: &Pair, client: &UdpSocket, port: u16) -> bool {
    let socket = pair
        .b
        .enter(|| UdpSocket::bind((Pair::ADDRESS_B, port)))
        .unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    client
        .send_to(b"for the kernel", (Pair::ADDRESS_B, port))
        .unwrap();
    let mut buffer = [0; 64];
    socket.recv(&mut buffer).is_ok_and(|len| len == 14)
}

#[test]
fn a_killed_process_leaves_the_interface_to_the_kernel() {
    let pair = or_skip!(Namespaces::pair());
    let client = client(&pair);
    // Several times: what the first run leaves behind would harm the second.
    for round in 0..3 {
        let echo = start_echo(&pair.b, Pair::ADDRESS_B, 7300);
        assert!(has_xdp(&pair), "the device is open");
        for number in 0..100 {
            ping(&client, 7300, number).unwrap();
        }
        assert!(echo.packets() > 150, "round {round}: {:?}", echo.sockets());
        // Packets are on their way while it dies.
        for _ in 0..1000 {
            client.send_to(b"late", (Pair::ADDRESS_B, 7300)).unwrap();
        }
        let finished = echo.into_process().stop(libc::SIGKILL, SOON).unwrap();
        assert!(!finished.status.success());
        assert!(!has_xdp(&pair), "round {round}: the program is attached");
        client.set_nonblocking(true).unwrap();
        let mut buffer = [0; 64];
        while eventually(Duration::from_millis(50), || {
            client.recv(&mut buffer).is_ok()
        }) {}
        client.set_nonblocking(false).unwrap();
        assert!(kernel_receives(&pair, &client, 7300), "round {round}");
    }
}

#[test]
fn a_process_that_ends_by_itself_leaves_the_interface_to_the_kernel() {
    let pair = or_skip!(Namespaces::pair());
    let client = client(&pair);
    let mut echo = start_echo(&pair.b, Pair::ADDRESS_B, 7301);
    ping(&client, 7301, 1).unwrap();
    assert!(has_xdp(&pair));
    let reader_of_the_living = echo.reader();
    drop(echo.process().stdin());
    assert_eq!(reader_of_the_living.sockets().unwrap().len(), 1);
    let process = echo.into_process();
    let pid = process.pid();
    let finished = process.wait(SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
    assert!(!has_xdp(&pair));
    assert!(kernel_receives(&pair, &client, 7301));
    let directory = std::env::temp_dir().join(format!("vmat-stats-{}", std::process::id()));
    let left: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .contains(&pid.to_string())
        })
        .collect();
    assert!(left.is_empty(), "its statistics remain: {left:?}");
}

#[test]
fn a_second_process_falls_back_and_does_not_disturb_the_first() {
    let pair = or_skip!(Namespaces::pair());
    let client = client(&pair);
    let first = start_echo(&pair.b, Pair::ADDRESS_B, 7302);
    for number in 0..20 {
        ping(&client, 7302, number).unwrap();
    }
    let before = first.packets();

    let mut second = start_echo(&pair.b, Pair::ADDRESS_B, 7303);
    let log = second.process().stderr();
    assert!(
        log.contains("WARNING") && log.contains("vb is not accelerated"),
        "the reason is logged: {log}"
    );
    for number in 0..200 {
        ping(&client, 7303, number).unwrap();
        ping(&client, 7302, number).unwrap();
    }
    assert_eq!(second.packets(), 0, "{:?}", second.sockets());
    assert!(second.kernel_packets() >= 400, "{:?}", second.sockets());
    assert!(
        first.packets() >= before + 400,
        "the first is accelerated as before: {:?}",
        first.sockets()
    );

    // The second ends: nothing changes for the first.
    drop(second);
    assert!(has_xdp(&pair));
    for number in 0..100 {
        ping(&client, 7302, number).unwrap();
    }
    assert!(first.packets() >= before + 600);

    // The first ends: the next process has the interface.
    let third = start_echo(&pair.b, Pair::ADDRESS_B, 7304);
    drop(first);
    for number in 0..20 {
        ping(&client, 7304, number).unwrap();
    }
    drop(third);
    let fourth = start_echo(&pair.b, Pair::ADDRESS_B, 7302);
    for number in 0..20 {
        ping(&client, 7302, number).unwrap();
    }
    assert!(fourth.packets() >= 30, "{:?}", fourth.sockets());
}

/// What the library says and the program does without the right to open the device.
#[test]
fn without_capabilities_the_kernel_does_it_all() {
    let pair = or_skip!(Namespaces::pair());
    let client = client(&pair);
    let mut command = preloaded(&pair.b, Path::new("setpriv")).unwrap();
    command
        .args(["--reuid", "65534", "--clear-groups"])
        .args([&echo_program(), Path::new(&Pair::ADDRESS_B.to_string())])
        .arg("7305");
    let mut echo = Accelerated::start(command).unwrap();
    assert!(
        echo.process().wait_for_output("ready", SOON),
        "{}{}",
        echo.process().stdout(),
        echo.process().stderr()
    );
    for number in 0..50 {
        ping(&client, 7305, number).unwrap();
    }
    let log = echo.process().stderr();
    assert!(log.contains("vb is not accelerated"), "{log}");
    assert!(
        log.contains("CAP_"),
        "the remedy names the capability: {log}"
    );
    assert!(!has_xdp(&pair));
}
