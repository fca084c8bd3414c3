use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use testkit::{Namespaces, Pair, or_skip};

use super::*;

const UDP: u8 = 17;

/// What tc(8) shows of the filters at `va`.
fn shown(pair: &Pair) -> String {
    let output = pair.a.enter(|| {
        Command::new("tc")
            .args(["filter", "show", "dev", "va", "ingress"])
            .output()
            .unwrap()
    });
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_selected_goes_out_of_the_other_link() {
    let pair = or_skip!(Namespaces::pair());
    pair.a
        .ip_batch("link add sink type veth peer name drain\nlink set sink up\nlink set drain up\n")
        .unwrap();
    let netconf = pair.a.enter(crate::Netconf::open).unwrap();
    let index = |name| {
        let link = netconf.links().find(|link| link.name == name);
        link.unwrap().index
    };
    let (va, sink) = (index("va"), index("sink"));
    let mut redirections = pair.a.enter(Redirections::open).unwrap();

    let receiver = pair.a.enter(|| UdpSocket::bind("10.77.0.1:4711")).unwrap();
    receiver
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let sender = pair.b.enter(|| UdpSocket::bind("10.77.0.2:4712")).unwrap();
    let arrives = || {
        sender.send_to(b"hello", "10.77.0.1:4711").unwrap();
        receiver.recv(&mut [0; 8]).is_ok()
    };
    assert!(arrives());

    let destination = "10.77.0.1:4711".parse().unwrap();
    let source = Some("10.77.0.2:4712".parse().unwrap());
    let place = FilterPlace {
        link_index: va,
        priority: 2,
        number: 7,
    };
    redirections.add_ingress(va).unwrap();
    assert_eq!(redirections.add_ingress(va).unwrap_err().errno(), Some(17));
    redirections.add_table(va, 2, UDP).unwrap();
    for (source, redirected) in [
        (None, true),
        (source, true),
        (Some("10.77.0.2:4713".parse().unwrap()), false),
        (Some("10.77.0.3:4712".parse().unwrap()), false),
    ] {
        let selection = Selection {
            destination,
            source,
        };
        redirections.add(place, &selection, sink).unwrap();
        assert_eq!(arrives(), !redirected, "{source:?}\n{}", shown(&pair));
        redirections.remove(place, &selection).unwrap();
        assert!(arrives(), "{}", shown(&pair));
    }
    redirections.remove_table(va, 2).unwrap();
    assert_eq!(shown(&pair), "");

    let address = Some(*SocketAddrV4::ip(&destination));
    redirections.add_all(va, 1, address, sink).unwrap();
    redirections.add_all(va, 2, None, sink).unwrap();
    redirections.remove_table(va, 2).unwrap();
    assert!(!arrives());
    redirections.remove_ingress(va).unwrap();
    assert!(arrives());
}
