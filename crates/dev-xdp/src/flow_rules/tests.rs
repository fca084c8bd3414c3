//! The messages, and a card that a test plays.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::*;

pub(super) fn flow(protocol: Protocol, local: &str, peer: Option<&str>) -> Flow {
    Flow {
        protocol,
        local: local.parse().unwrap(),
        peer: peer.map(|peer| peer.parse().unwrap()),
    }
}

/// As the kernel sees a message.
fn octets(message: &Rxnfc) -> [u8; 192] {
    // SAFETY: every octet of the struct that is read below belongs to an integer; the padding is
    // not looked at.
    let octets = unsafe {
        std::ptr::from_ref(message)
            .cast::<[std::mem::MaybeUninit<u8>; 192]>()
            .read()
    };
    let padding = |at: usize| (164..168).contains(&(at - 16)) || (148..152).contains(&(at - 16));
    std::array::from_fn(|at| match at {
        16.. if at < 184 && padding(at) => 0,
        188.. => 0,
        // SAFETY: no padding.
        _ => unsafe { octets[at].assume_init() },
    })
}

#[test]
fn a_rule_for_one_peer_is_laid_out_as_the_kernel_reads_it() {
    let flow = flow(Protocol::Tcp, "192.0.2.1:80", Some("198.51.100.7:4660"));
    let message = octets(&Rxnfc::insert(&flow, 5, RX_CLS_LOC_ANY));
    assert_eq!(message[..4], 0x32u32.to_ne_bytes());
    assert_eq!(message[4..16], [0; 12]);
    // fs: flow_type, h_u.tcp_ip4_spec {ip4src, ip4dst, psrc, pdst, tos}
    assert_eq!(message[16..20], 1u32.to_ne_bytes());
    let expected = [198, 51, 100, 7, 192, 0, 2, 1, 0x12, 0x34, 0, 80, 0];
    assert_eq!(message[20..33], expected);
    // h_ext
    assert_eq!(message[72..92], [0; 20]);
    // m_u, m_ext
    assert_eq!(message[92..104], [0xff; 12]);
    assert_eq!(message[104..164], [0; 60]);
    // ring_cookie, location
    assert_eq!(message[168..176], 5u64.to_ne_bytes());
    assert_eq!(message[176..180], [0xff; 4]);
    assert_eq!(message[184..188], [0; 4]);
}

#[test]
fn what_is_anybodys_has_no_source() {
    let message = octets(&Rxnfc::insert(
        &flow(Protocol::Udp, "192.0.2.1:9", None),
        1,
        3,
    ));
    assert_eq!(message[16..20], 2u32.to_ne_bytes());
    assert_eq!(message[20..32], [0, 0, 0, 0, 192, 0, 2, 1, 0, 0, 0, 9]);
    let mask = [0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 255, 255];
    assert_eq!(message[92..104], mask);
    assert_eq!(message[176..180], 3u32.to_ne_bytes());
}

#[test]
fn addresses_of_ipv6_are_whole() {
    for (protocol, kind) in [(Protocol::Tcp, 5u32), (Protocol::Udp, 6)] {
        let flow = flow(protocol, "[fd00::1]:80", Some("[fd00::2]:81"));
        let message = octets(&Rxnfc::insert(&flow, 0, 0));
        assert_eq!(message[16..20], kind.to_ne_bytes());
        let mut expected = [0u8; 36];
        (expected[0], expected[15]) = (0xfd, 2);
        (expected[16], expected[31]) = (0xfd, 1);
        (expected[33], expected[35]) = (81, 80);
        assert_eq!(message[20..56], expected);
        assert_eq!(message[92..128], [0xff; 36]);
    }
}

/// A card with some places, of which a driver finds one by itself, or not.
pub(super) struct TestCard {
    finds_places: bool,
    size: u32,
    pub(super) rules: RefCell<BTreeMap<u32, Rxnfc>>,
    asked: Cell<u32>,
}

impl TestCard {
    pub(super) fn new(finds_places: bool, size: u32) -> Self {
        Self {
            finds_places,
            size,
            rules: RefCell::default(),
            asked: Cell::new(0),
        }
    }

    pub(super) fn queues(&self) -> Vec<(u32, u64)> {
        let rules = self.rules.borrow();
        rules
            .iter()
            .map(|(place, rule)| (*place, rule.spec.ring_cookie))
            .collect()
    }
}

impl Card for TestCard {
    fn ask(&self, message: &mut Rxnfc) -> io::Result<()> {
        self.asked.set(self.asked.get() + 1);
        let mut rules = self.rules.borrow_mut();
        match message.command {
            ETHTOOL_GRXCLSRLCNT => {
                let special = if self.finds_places {
                    RX_CLS_LOC_SPECIAL
                } else {
                    0
                };
                message.data = special | u64::from(self.size);
                message.rule_count = rules.len() as u32;
            }
            ETHTOOL_SRXCLSRLINS => {
                let place = match message.spec.location {
                    RX_CLS_LOC_ANY if self.finds_places => {
                        let free = (0..self.size).find(|place| !rules.contains_key(place));
                        free.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOSPC))?
                    }
                    place if place < self.size => place,
                    _ => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
                };
                assert!(!rules.contains_key(&place), "taken");
                message.spec.location = place;
                rules.insert(place, *message);
            }
            ETHTOOL_GRXCLSRULE => {
                let rule = rules.get(&message.spec.location);
                let rule = rule.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
                message.spec = rule.spec;
            }
            ETHTOOL_SRXCLSRLDEL => {
                let removed = rules.remove(&message.spec.location);
                removed.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
            }
            other => panic!("{other:#x}"),
        }
        Ok(())
    }

    fn places(&self) -> io::Result<(Vec<u32>, u64)> {
        let taken = self.rules.borrow().keys().copied().collect();
        Ok((taken, self.size.into()))
    }
}

#[test]
fn rules_come_change_and_go() {
    for (finds_places, places) in [(true, [0, 1]), (false, [3, 2])] {
        let card = TestCard::new(finds_places, 4);
        let mut rules = Rules::default();
        let first = flow(Protocol::Udp, "192.0.2.1:9", None);
        let second = flow(Protocol::Udp, "192.0.2.1:10", None);
        rules.bring(&card, &first, 1).unwrap();
        rules.bring(&card, &second, 2).unwrap();
        let mut expected = [(places[0], 1), (places[1], 2)];
        expected.sort_unstable();
        assert_eq!(card.queues(), expected);
        let asked = card.asked.get();
        rules.bring(&card, &first, 1).unwrap();
        assert_eq!(card.asked.get(), asked, "nothing changes");
        rules.bring(&card, &first, 7).unwrap();
        assert!(card.queues().contains(&(places[0], 7)));
        rules.remove(&card, &second);
        rules.remove(&card, &second);
        assert_eq!(card.queues(), [(places[0], 7)]);
        rules.bring(&card, &second, 2).unwrap();
        rules.remove_all(&card);
        assert_eq!(card.queues(), []);
    }
}

#[test]
fn a_card_without_room_says_so_and_keeps_the_others() {
    for finds_places in [true, false] {
        let card = TestCard::new(finds_places, 1);
        let mut rules = Rules::default();
        let first = flow(Protocol::Tcp, "192.0.2.1:9", None);
        rules.bring(&card, &first, 1).unwrap();
        let refused = rules.bring(&card, &flow(Protocol::Tcp, "192.0.2.1:8", None), 1);
        let error = refused.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        assert!(!is_for_good(&error));
        assert_eq!(card.queues(), [(0, 1)]);
    }
}

#[test]
fn the_loopback_interface_takes_no_rule_and_is_not_asked_again() {
    let mut rules = FlowRules::of("lo", 1, None);
    let any = flow(Protocol::Udp, "127.0.0.1:9", None);
    assert!(rules.bring(&any, 0).is_err());
    assert!(rules.card.is_none());
    rules.remove(&any);
    rules.remove_all();
    assert!(FlowRules::none().bring(&any, 0).is_err());
}
