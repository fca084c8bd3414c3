//! Whether IPsec policies are in force (`linux/xfrm.h`, ip-xfrm(8)).

use std::ops::ControlFlow;
use std::sync::Arc;

use descriptors::OwnDescriptor;
use rustix::net::netlink;

use crate::connection::Connection;
use crate::error::Error;
use crate::framing::attributes;
use crate::socket::{BUFFER_BYTES, Received, Socket};

/// The policy database of one network namespace.
#[derive(Debug)]
pub struct IpsecPolicies {
    connection: Connection,
    /// Receives notifications.
    events: Socket,
    buffer: Box<[u8]>,
    any: bool,
}

impl IpsecPolicies {
    /// Subscribes to notifications in the calling thread's network namespace and looks whether
    /// there are policies.
    ///
    /// # Errors
    ///
    /// EPROTONOSUPPORT if the kernel has no IPsec, EPERM without CAP_NET_ADMIN; what else netlink
    /// answers.
    pub fn open() -> Result<Self, Error> {
        let protocol = Some(netlink::XFRM);
        // In this order: a change between the two is seen twice rather than not at all.
        let events = Socket::open(protocol, 1 << (XFRMNLGRP_POLICY - 1))?;
        let mut policies = Self {
            connection: Connection::open_protocol(protocol)?,
            events,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            any: false,
        };
        policies.any = policies.read()?;
        Ok(policies)
    }

    /// Whether there are policies, or packets without one are blocked.
    pub fn any(&self) -> bool {
        self.any
    }

    /// Takes in the notifications that have arrived, without waiting. True if
    /// [`IpsecPolicies::any`] has changed.
    ///
    /// # Errors
    ///
    /// If the sockets fail.
    pub fn process_events(&mut self) -> Result<bool, Error> {
        let mut changed = false;
        for _ in 0..EVENTS_PER_CALL {
            match self.events.receive_now(&mut self.buffer)? {
                Received::Nothing => break,
                Received::Datagram(_) | Received::Overrun => changed = true,
            }
        }
        if !changed {
            return Ok(false);
        }
        let before = self.any;
        self.any = self.read()?;
        Ok(self.any != before)
    }

    /// Readable when [`IpsecPolicies::process_events`] has something to do.
    pub fn events_descriptor(&self) -> &Arc<OwnDescriptor> {
        self.events.descriptor()
    }

    fn read(&mut self) -> Result<bool, Error> {
        let mut any = false;
        let count = "count IPsec policies";
        // Both headers are 32 bits of flags, of which there are none.
        self.connection
            .ask_raw(count, (XFRM_MSG_GETSPDINFO, 0), &[0; 4], |message| {
                any = counts_policies(message.payload);
                ControlFlow::Break(())
            })?;
        let request = "read what IPsec does by default";
        // Linux 5.14; older kernels know no default but to accept.
        let _ = self
            .connection
            .ask_raw(request, (XFRM_MSG_GETDEFAULT, 0), &[0; 4], |message| {
                any |= blocks_by_default(message.payload);
                ControlFlow::Break(())
            });
        Ok(any)
    }
}

/// Of XFRM_MSG_NEWSPDINFO. Policies of single sockets do not count.
fn counts_policies(payload: &[u8]) -> bool {
    let info = attributes(payload.get(4..).unwrap_or(&[]))
        .find_map(|(kind, value)| (kind == XFRMA_SPD_INFO).then_some(value));
    let counts = info.and_then(|info| info.get(..DIRECTIONS_BYTES));
    counts.is_some_and(|counts| counts.iter().any(|byte| *byte != 0))
}

/// Of XFRM_MSG_GETDEFAULT: `struct xfrm_userpolicy_default`, a byte for each direction.
fn blocks_by_default(payload: &[u8]) -> bool {
    let defaults = payload.get(..3).unwrap_or(&[]);
    defaults.contains(&XFRM_USERPOLICY_BLOCK)
}

/// Notifications that are taken in at once.
const EVENTS_PER_CALL: usize = 16 * 1024;

const XFRMNLGRP_POLICY: u32 = 4;
const XFRM_MSG_GETSPDINFO: u16 = 0x25;
const XFRM_MSG_GETDEFAULT: u16 = 0x28;
const XFRMA_SPD_INFO: u16 = 1;
const XFRM_USERPOLICY_BLOCK: u8 = 1;
/// `struct xfrmu_spdinfo` begins with three numbers of 32 bits: policies for incoming, outgoing and
/// forwarded packets.
const DIRECTIONS_BYTES: usize = 12;
