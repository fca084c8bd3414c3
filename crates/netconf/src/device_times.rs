//! Whether a driver shows the time at which its device has received a packet to XDP programs
//! (`linux/netdev.h`, Documentation/netlink/specs/netdev.yaml).

use std::ops::ControlFlow;

use netlink_packet_core::NLM_F_ACK;
use rustix::net::netlink;

use crate::connection::Connection;
use crate::error::Error;
use crate::framing::attributes;

/// Asks in the calling thread's network namespace. `false` also before Linux 6.8.
///
/// # Errors
///
/// What netlink answers: ENOENT if the kernel does not know such questions, ENODEV if there is no
/// such interface.
pub fn shows_device_times(ifindex: u32) -> Result<bool, Error> {
    let mut connection = Connection::open_protocol(Some(netlink::GENERIC))?;
    let mut family = None;
    let request = payload(CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, b"netdev\0");
    connection.ask_raw(
        "find the family netdev",
        (GENL_ID_CTRL, NLM_F_ACK),
        &request,
        |message| {
            let mut all = attributes(behind_header(message.payload));
            let id = all.find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID);
            family = id.and_then(|(_, value)| value.first_chunk().copied());
            ControlFlow::Break(())
        },
    )?;
    let Some(family) = family.map(u16::from_ne_bytes) else {
        return Ok(false);
    };
    let mut features = 0;
    let request = payload(
        NETDEV_CMD_DEV_GET,
        NETDEV_A_DEV_IFINDEX,
        &ifindex.to_ne_bytes(),
    );
    connection.ask_raw(
        "tell of a driver's XDP",
        (family, NLM_F_ACK),
        &request,
        |message| {
            features = shown(behind_header(message.payload));
            ControlFlow::Break(())
        },
    )?;
    Ok(features & NETDEV_XDP_RX_METADATA_TIMESTAMP != 0)
}

/// What programs are shown, of the attributes of an interface.
fn shown(of_interface: &[u8]) -> u64 {
    let mut all = attributes(of_interface);
    let found = all.find(|(kind, _)| *kind == NETDEV_A_DEV_XDP_RX_METADATA_FEATURES);
    let value = found.and_then(|(_, value)| value.first_chunk().copied());
    value.map_or(0, u64::from_ne_bytes)
}

fn behind_header(payload: &[u8]) -> &[u8] {
    payload.get(GENERIC_HEADER_BYTES..).unwrap_or(&[])
}

/// `struct genlmsghdr`, and one attribute.
fn payload(command: u8, kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![command, VERSION, 0, 0];
    let length = u16::try_from(ATTRIBUTE_HEADER_BYTES + value.len()).unwrap_or(u16::MAX);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

const GENERIC_HEADER_BYTES: usize = 4;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const VERSION: u8 = 1;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;
const NETDEV_XDP_RX_METADATA_TIMESTAMP: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_a_header_and_an_attribute() {
        let (len, kind) = (11_u16.to_ne_bytes(), 2_u16.to_ne_bytes());
        let expected = [&[3, 1, 0, 0][..], &len, &kind, b"netdev\0\0"].concat();
        assert_eq!(payload(3, 2, b"netdev\0"), expected);
    }

    #[test]
    fn what_is_shown_is_found_and_damage_is_nothing() {
        let pieces = [
            payload(0, 1, &7_u32.to_ne_bytes()),
            payload(0, 5, &5_u64.to_ne_bytes()),
        ];
        let all: Vec<u8> = pieces
            .iter()
            .flat_map(|it| behind_header(it).to_vec())
            .collect();
        assert_eq!(shown(&all), 5);
        assert_eq!(shown(&all[..all.len() - 1]), 0);
        assert_eq!(shown(behind_header(&[1, 2])), 0);
    }

    #[test]
    fn loopback_shows_nothing_and_what_is_not_there_is_an_error() {
        // Without the family (before Linux 6.3) either is an error.
        if let Ok(shows) = shows_device_times(1) {
            assert!(!shows);
            assert!(shows_device_times(0x7fff_0000).is_err());
        }
    }
}
