//! The part of the XDP program that finds out to which of an interface's processes a packet goes.
//! Where one has it alone, there is nothing of it.

use super::super::maps::{
    self, FIRST_GROUP, FlowMaps, OWNER_SHIFT, QUEUE_BITS, SHARED_QUEUES_MAX, V4Tables,
};
use super::{
    Assembler, Equal, Greater, Label, NotEqual, OWNED_PORT, OWNER, PROTOCOL_UDP, R0, R1, R2, R9,
    R10, Register, SLOT_INDEX, U8, U16, U32, look_up,
};

/// No flow has said whose it is: the values of flows are not 0.
const UNKNOWN: i32 = 0;

/// Whether the program is one that tells processes apart, and does its part of that.
#[derive(Clone, Copy)]
pub(super) struct Owners<'a> {
    pub(super) maps: Option<&'a maps::Owners>,
}

impl<'a> Owners<'a> {
    pub(super) fn of(maps: &'a FlowMaps) -> Self {
        Self {
            maps: maps.owners(),
        }
    }

    /// Remembers the port in a register, in the packet's order.
    pub(super) fn note_port(self, a: &mut Assembler, port: Register) {
        if self.maps.is_some() {
            a.store(U32, R10, OWNER, UNKNOWN);
            a.store(U16, R10, OWNED_PORT, port);
        }
    }

    /// Remembers whose the flow is that has the value in R1.
    pub(super) fn note_flow(self, a: &mut Assembler) {
        if self.maps.is_some() {
            a.store(U32, R10, OWNER, R1);
        }
    }

    /// R1 becomes the octet of the noted port. R9 is the protocol; R0 to R2 are lost.
    pub(super) fn look_up_port(self, a: &mut Assembler, pass: Label) {
        let Some(owners) = self.maps else {
            return;
        };
        let is_udp = a.label();
        a.load(R1, U8, R10, OWNED_PORT);
        a.jump_if(R9, Equal, PROTOCOL_UDP, is_udp);
        a.add(R1, V4Tables::FIRST_OF_TCP.cast_signed());
        a.place(is_udp);
        a.store(U32, R10, SLOT_INDEX, R1);
        look_up(a, owners.ports_fd(), SLOT_INDEX);
        a.jump_if(R0, Equal, 0, pass);
        a.load(R1, U8, R10, OWNED_PORT + 1);
        a.add(R0, R1);
        a.load(R1, U8, R0, 0);
    }

    /// Puts the number of the packet's owner in its place on the stack: the flow's, or the port's.
    /// R9 is the protocol; R0 to R2 are lost.
    pub(super) fn find(self, a: &mut Assembler, pass: Label) {
        if self.maps.is_none() {
            return;
        }
        let is_known = a.label();
        a.load(R1, U32, R10, OWNER);
        a.jump_if(R1, NotEqual, UNKNOWN, is_known);
        self.look_up_port(a, pass);
        // What comes to a group has an owner by now, or none.
        a.jump_if(R1, Greater, i32::from(FIRST_GROUP) - 1, pass);
        a.shift_left(R1, OWNER_SHIFT);
        a.place(is_known);
        a.shift_right(R1, OWNER_SHIFT);
        a.store(U32, R10, OWNER, R1);
    }

    /// R2, the queue, becomes the number of the owner's socket for it.
    pub(super) fn choose_socket(self, a: &mut Assembler, pass: Label) {
        if self.maps.is_some() {
            a.jump_if(R2, Greater, SHARED_QUEUES_MAX.cast_signed() - 1, pass);
            a.load(R1, U32, R10, OWNER);
            a.shift_left(R1, QUEUE_BITS);
            a.or(R2, R1);
        }
    }
}
