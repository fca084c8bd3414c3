//! What several of these tests need.

use dev_core::LinkSpec;
use testkit::Pair;

/// The interface that the tests open.
pub(crate) fn link(pair: &Pair) -> LinkSpec {
    let listing = pair.b.ip(&["-o", "link", "show", "dev", "vb"]).unwrap();
    let index = listing.split(':').next().unwrap().trim().parse().unwrap();
    let (_, mac) = listing.split_once("link/ether ").unwrap();
    let mac: Vec<u8> = mac[..17]
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    LinkSpec {
        index,
        name: "vb".to_owned(),
        mac: mac.try_into().unwrap(),
        mtu: 1500,
        upper: None,
    }
}
