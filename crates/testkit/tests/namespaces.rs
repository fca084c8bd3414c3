//! Namespaces, programs inside them, and raw frames, on the kernel of this machine.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::{Namespaces, Pair, RawLink, Running, or_skip};

const SOON: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

#[test]
fn datagrams_cross_the_pair() {
    let pair = or_skip!(Namespaces::pair());
    let receiver = pair
        .b
        .enter(|| UdpSocket::bind((Pair::ADDRESS_B, 7000)))
        .unwrap();
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    receiver.set_read_timeout(Some(SOON)).unwrap();
    sender
        .send_to(b"over the wire", (Pair::ADDRESS_B, 7000))
        .unwrap();
    let mut buffer = [0; 64];
    let (length, from) = receiver.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"over the wire");
    assert_eq!(from, sender.local_addr().unwrap());
}

#[test]
fn loopback_is_up_and_private_to_a_namespace() {
    let pair = or_skip!(Namespaces::pair());
    let address = SocketAddr::from(([127, 0, 0, 1], 7001));
    let listener = pair.a.enter(|| TcpListener::bind(address)).unwrap();
    let mut client = pair
        .a
        .enter(|| TcpStream::connect_timeout(&address, SOON))
        .unwrap();
    client.write_all(b"x").unwrap();
    let mut byte = [0];
    listener.accept().unwrap().0.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"x");
    pair.b
        .enter(|| TcpStream::connect_timeout(&address, SOON))
        .unwrap_err();
}

#[test]
fn options_reach_both_links() {
    let options = Namespaces::new().mtu(3000).queues(2).second_subnet().ipv6();
    let pair = or_skip!(options.create());
    for (namespace, link, last) in [(&pair.a, "va", 1), (&pair.b, "vb", 2)] {
        let link_text = namespace.ip(&["-details", "link", "show", link]).unwrap();
        for expected in ["mtu 3000", "numtxqueues 2", "numrxqueues 2", "LOWER_UP"] {
            assert!(link_text.contains(expected), "{expected}: {link_text}");
        }
        let addresses = namespace.ip(&["address", "show", link]).unwrap();
        for expected in [
            format!("10.77.0.{last}/24"),
            format!("10.78.0.{last}/24"),
            format!("fd77::{last}/64"),
        ] {
            assert!(addresses.contains(&expected), "{expected}: {addresses}");
        }
        assert!(!addresses.contains("tentative"), "{addresses}");
    }
    let receiver = pair
        .b
        .enter(|| UdpSocket::bind((Pair::IPV6_ADDRESS_B, 7002)))
        .unwrap();
    receiver.set_read_timeout(Some(SOON)).unwrap();
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Pair::IPV6_ADDRESS_A, 0)))
        .unwrap();
    sender
        .send_to(b"six", (Pair::IPV6_ADDRESS_B, 7002))
        .unwrap();
    let mut buffer = [0; 8];
    assert_eq!(receiver.recv_from(&mut buffer).unwrap().0, 3);
}

#[test]
fn the_plain_pair_has_no_ipv6_address() {
    let pair = or_skip!(Namespaces::pair());
    let addresses = pair.a.ip(&["address", "show", "va"]).unwrap();
    assert!(addresses.contains("10.77.0.1/24"), "{addresses}");
    assert!(!addresses.contains("inet6"), "{addresses}");
}

#[test]
fn a_command_runs_inside_and_sees_its_own_sysfs() {
    let pair = or_skip!(Namespaces::pair());
    let mut list = pair.a.command("ls");
    list.arg("/sys/class/net");
    let finished = Running::start(list).unwrap().wait(SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
    let mut names: Vec<_> = finished.stdout.split_whitespace().collect();
    // bonding_masters is a control file, not an interface.
    names.retain(|name| *name != "bonding_masters");
    assert!(names.contains(&"va") && names.contains(&"lo"), "{names:?}");
    assert!(!names.contains(&"vb"), "{names:?}");
    assert!(
        !Path::new("/sys/class/net/va").exists(),
        "the test's own sysfs is left alone"
    );
}

#[test]
fn the_child_is_the_program_itself_with_the_library_preloaded() {
    let pair = or_skip!(Namespaces::pair());
    let library = testkit::libvma_path().unwrap();
    let mut child = Running::start_interactive(pair.a.preload("cat", &library)).unwrap();
    // An echo shows that the dynamic linker has done its work.
    let mut stdin = child.stdin().unwrap();
    stdin.write_all(b"ready").unwrap();
    assert!(child.wait_for_output("ready", SOON));
    let process = Path::new("/proc").join(child.pid().to_string());
    let maps = fs::read_to_string(process.join("maps")).unwrap();
    assert!(maps.contains("libvma.so"), "{maps}");
    assert_eq!(fs::read_to_string(process.join("comm")).unwrap(), "cat\n");
    assert_eq!(pair.a.pids(), [child.pid().cast_signed()]);
    assert_eq!(pair.b.pids(), []);
}

#[test]
fn the_thread_that_enters_leaves_the_caller_where_it_was() {
    let pair = or_skip!(Namespaces::pair());
    let here = || fs::read_link("/proc/thread-self/ns/net").unwrap();
    let before = here();
    assert_ne!(pair.a.enter(here), before);
    assert_ne!(pair.a.enter(here), pair.b.enter(here));
    assert_eq!(here(), before);
}

#[test]
fn a_panic_inside_is_the_callers() {
    let pair = or_skip!(Namespaces::pair());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pair.a.enter(|| panic!("from inside"));
    }));
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"from inside"));
}

#[test]
fn dropping_kills_what_runs_inside_and_removes_the_namespaces() {
    let pair = or_skip!(Namespaces::pair());
    let names = [pair.a.name().to_owned(), pair.b.name().to_owned()];
    let mut command = pair.a.command("sleep");
    let mut child = command.arg("60").spawn().unwrap();
    drop(pair);
    let deadline = Instant::now() + SOON;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(
            Instant::now() < deadline,
            "the child outlived its namespace"
        );
    };
    assert!(!status.success());
    for name in names {
        assert!(!Path::new("/var/run/netns").join(name).exists());
    }
}

#[test]
fn namespaces_of_dead_processes_are_swept() {
    // The sweep runs before a process makes its first namespace, so another process has to do it.
    const CHILD: &str = "TESTKIT_SWEEPING_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let _pair = or_skip!(Namespaces::pair());
        return;
    }
    let pair = or_skip!(Namespaces::pair());
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let stale = format!("vmat-{}-0-a", dead.id());
    let added = Command::new("ip")
        .args(["netns", "add", &stale])
        .status()
        .unwrap();
    assert!(added.success());

    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "namespaces_of_dead_processes_are_swept"])
        .env(CHILD, "1");
    let finished = Running::start(child).unwrap().wait(SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
    assert!(
        !Path::new("/var/run/netns").join(&stale).exists(),
        "{stale} was not swept"
    );
    assert!(
        Path::new("/var/run/netns").join(pair.a.name()).exists(),
        "a living owner keeps its own"
    );
}

#[test]
fn raw_frames_cross_the_pair_unchanged() {
    let pair = or_skip!(Namespaces::pair());
    let near = RawLink::open(&pair.a, "va").unwrap();
    let far = RawLink::open(&pair.b, "vb").unwrap();
    assert_ne!(near.mac(), far.mac());

    // An experimental ethertype (88b5), and an IPv4 header that ends after its first byte.
    for (ethertype, payload) in [
        ([0x88, 0xb5], b"experiment".as_slice()),
        ([0x08, 0x00], b"\x45"),
    ] {
        let frame = [&far.mac(), &near.mac(), ethertype.as_slice(), payload].concat();
        near.send(&frame).unwrap();
        let received = far
            .receive_matching(SOON, |frame| frame[12..14] == ethertype)
            .unwrap();
        assert_eq!(received.as_deref(), Some(frame.as_slice()));
    }
    assert_eq!(
        near.receive(SHORT).unwrap(),
        None,
        "a link does not hear itself"
    );
    near.send(&[0; 13]).unwrap_err();
}

#[test]
fn what_the_kernel_sends_is_seen_on_the_wire() {
    let pair = or_skip!(Namespaces::pair());
    let tap = RawLink::open(&pair.b, "vb").unwrap();
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    sender
        .send_to(b"look at me", (Pair::ADDRESS_B, 7003))
        .unwrap();
    let seen = tap
        .receive_matching(SOON, |frame| frame.ends_with(b"look at me"))
        .unwrap();
    let frame = seen.expect("the datagram crosses the link");
    assert_eq!(frame[..6], tap.mac());
    assert_eq!(frame[12..14], [0x08, 0x00]);
}
