use super::*;
use crate::report::tests::{complaint, interface, ready, report, without};
use crate::report::{PERFMON, Weight};

/// A machine with a good interface and this one.
fn with(interface_beside: Interface) -> Facts {
    Facts {
        interfaces: Some(vec![interface(), interface_beside]),
        ..ready()
    }
}

fn other() -> Interface {
    Interface {
        name: "eth1".to_owned(),
        ..interface()
    }
}

#[test]
fn whoever_holds_an_interface_is_named() {
    let held = Interface {
        xdp_program: Some(77),
        holder: Some("process 12 (feed)".to_owned()),
        ..other()
    };
    let (weight, text) = complaint(&with(held));
    assert_eq!(weight, Weight::Worse);
    let expected = "held by process 12 (feed): XDP program 77 is attached";
    assert!(
        text.starts_with("eth1: ice, 4 queues") && text.contains(expected),
        "{text}"
    );
    let resting = Interface {
        opened: Some(Opened::Busy),
        holder: Some("process 12 (feed)".to_owned()),
        ..other()
    };
    let (_, text) = complaint(&with(resting));
    assert!(
        text.contains("held by process 12 (feed): its queue is in use"),
        "{text}"
    );
    let shared = Interface {
        xdp_program: Some(77),
        holder: Some("process 12 (vmad)".to_owned()),
        ..other()
    };
    let facts = Facts {
        interfaces: Some(vec![shared]),
        ..ready()
    };
    assert!(report(&facts).is_ready());
    let text = report(&facts).to_string();
    assert!(text.contains("process 12 (vmad) shares it"), "{text}");
    let foreign = Interface {
        xdp_program: Some(77),
        ..other()
    };
    let (_, text) = complaint(&with(foreign));
    assert!(text.contains("xdp-loader unload eth1 --all"), "{text}");
}

#[test]
fn a_socket_that_does_not_open_is_told_with_its_step() {
    let refused = |step| Interface {
        opened: Some(Opened::No {
            step,
            error: "Operation not permitted".to_owned(),
        }),
        ..other()
    };
    let (weight, text) = complaint(&with(refused("socket(AF_XDP)")));
    assert_eq!(weight, Weight::Worse);
    assert!(
        text.contains("socket(AF_XDP): Operation not permitted")
            && text.contains("CONFIG_XDP_SOCKETS"),
        "{text}"
    );
    // The only one.
    let facts = Facts {
        interfaces: Some(vec![refused("bind")]),
        ..ready()
    };
    assert!(!report(&facts).is_ready());
    let opens = Interface {
        opened: Some(Opened::Yes),
        ..other()
    };
    let text = report(&with(opens)).to_string();
    assert!(text.contains("an AF_XDP socket opens\n"), "{text}");
}

#[test]
fn no_mode_is_promised_that_there_is_not() {
    let veth = |facts| Facts {
        interfaces: Some(vec![Interface {
            is_veth: true,
            ..interface()
        }]),
        ..facts
    };
    assert!(report(&veth(ready())).to_string().contains("generic XDP\n"));
    let no_btf = Facts {
        has_btf: false,
        ..ready()
    };
    for facts in [no_btf, without(&[PERFMON])] {
        let text = report(&veth(facts.clone())).to_string();
        assert!(
            text.contains("no generic mode") && text.contains(", native XDP\n"),
            "{text}"
        );
        let text = report(&facts).to_string();
        assert!(text.contains("if the driver has it, else none\n"), "{text}");
    }
}

#[test]
fn an_mtu_beyond_the_driver_s_is_told_with_the_command() {
    let large = |driver: &str, mtu| Interface {
        driver: Some(driver.to_owned()),
        mtu,
        ..other()
    };
    let (_, text) = complaint(&with(large("ena", 9001)));
    assert!(text.contains("ip link set dev eth1 mtu 3498"), "{text}");
    let (_, text) = complaint(&with(large("ice", 9000)));
    assert!(text.contains("beyond 3826 bytes"), "{text}");
    assert!(report(&with(large("ena", 1500))).is_ready());
}

#[test]
fn the_table_of_drivers_is_that_of_the_documents() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/troubleshooting.md");
    let text = std::fs::read_to_string(path).unwrap();
    for (driver, mtu) in DRIVERS {
        assert!(
            text.contains(&format!("| `{driver}` | {mtu} |")),
            "{driver}"
        );
    }
    assert!(text.contains(&format!("beyond {LARGEST_MTU} bytes")));
}

#[test]
fn addresses_of_either_family_do() {
    let bare = Interface {
        has_address: false,
        ..other()
    };
    let (_, text) = complaint(&with(bare));
    assert!(text.contains("no address"), "{text}");
}

#[test]
fn what_modes_took_is_told_and_why_nothing_was_measured() {
    let measured = |measured| Interface {
        measured: Some(measured),
        ..other()
    };
    let modes = |native, not_kept| Measured::Modes {
        asked: [192, 0, 2, 1].into(),
        native,
        generic: Ok(7_900),
        not_kept,
    };
    let text = report(&with(measured(modes(Ok(9_100), None)))).to_string();
    let expected = "; an ARP round trip with 192.0.2.1: native 9.1 us, generic 7.9 us\n";
    assert!(text.contains(expected), "{text}");
    let text = report(&with(measured(modes(Err("no".to_owned()), None)))).to_string();
    assert!(text.contains("native - (no), generic 7.9 us\n"), "{text}");
    let not_kept = Some("read-only".to_owned());
    let (_, text) = complaint(&with(measured(modes(Ok(1), not_kept))));
    assert!(
        text.contains("not kept for VMA_XDP_MODE=auto: read-only"),
        "{text}"
    );
    let (_, text) = complaint(&with(measured(Measured::NobodyToAsk)));
    assert!(text.contains("no neighbour"), "{text}");
    let known = Interface {
        measured_mode: Some(AttachMode::Generic),
        ..other()
    };
    let text = report(&with(known)).to_string();
    assert!(
        text.contains("MTU 1500, generic XDP, as measured"),
        "{text}"
    );
}
