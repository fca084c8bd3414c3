//! The part of the XDP program that decides by a packet's flow and port.

use super::group;
use super::owner::Owners;
use super::{
    ACK_OR_RST, AnyBitOf, Assembler, EXEMPT, Equal, Greater, Label, NotEqual, R0, R1, R2, R6, R7,
    R8, SYN, TCP_FLAGS, U8, U32, WITH_EXEMPTIONS, context,
};

/// The port in R0 is redirected: jumps to `matched`, unless it has exemptions, as those have that
/// jump to `with_exemptions`. Then R8 becomes 1, and the flows, at the label that this returns,
/// decide.
pub(super) fn flows_of_port(a: &mut Assembler, matched: Label, with_exemptions: Label) -> Label {
    let flows = a.label();
    a.load(R1, U32, R0, 0);
    a.jump_if(R1, NotEqual, WITH_EXEMPTIONS as i32, matched);
    a.place(with_exemptions);
    a.mov(R8, 1);
    a.jump_if(R8, Equal, 1, flows);
    flows
}

/// Jumps to `matched` with a packet that is ours, to `pass` with one that is exempt, and goes on
/// with one of no flow whose port is not redirected. R0 is the packet's flow or 0, R8 whether its
/// port is redirected. The frame is in R7.
pub(super) fn decide(
    a: &mut Assembler,
    owners: Owners<'_>,
    version: group::Version,
    matched: Label,
    pass: Label,
) {
    let ports = version.ports;
    let is_no_flow = a.label();
    let is_unknown = a.label();
    let is_exempt = a.label();
    a.jump_if(R0, Equal, 0, is_no_flow);
    a.load(R1, U32, R0, 0);
    a.jump_if(R1, Equal, EXEMPT as i32, is_exempt);
    owners.note_flow(a);
    a.jump_if(R0, NotEqual, 0, matched);
    a.place(is_exempt);
    // The kernel's, unless it begins another connection, which is for the listener at the port.
    a.jump_if(R8, Equal, 0, pass);
    a.mov(R1, R7);
    a.add(R1, i32::from(ports + TCP_FLAGS) + 1);
    a.load(R2, U32, R6, context::DATA_END);
    a.jump_if(R1, Greater, R2, pass);
    a.load(R1, U8, R7, ports + TCP_FLAGS);
    a.jump_if(R1, AnyBitOf, ACK_OR_RST, pass);
    a.jump_if(R1, AnyBitOf, SYN, matched);
    a.jump_if(R0, NotEqual, 0, pass);
    a.place(is_no_flow);
    a.jump_if(R8, Equal, 0, is_unknown);
    group::choose(a, owners, version, matched, pass);
    a.jump_if(R8, NotEqual, 0, matched);
    a.place(is_unknown);
}
