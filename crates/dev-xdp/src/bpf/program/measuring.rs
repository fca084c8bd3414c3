//! Programs for measurements: next to nothing between a frame and its AF_XDP socket.

use std::io;

use super::super::asm::Assembler;
use super::super::error::BpfError;
use super::super::insn::Condition::{Greater, NotEqual};
use super::super::insn::Helper;
use super::super::insn::Register::{R0, R1, R2, R3, R4, R6};
use super::super::insn::Width::{U16, U32};
use super::super::syscall::{self, ProgramKind};
use super::layout::{FLOOR_NAME, arp, context, frame};
use super::{FlowMaps, Program, Verdict};

impl Program {
    /// Loads a program that redirects every frame: the least that any program can do for AF_XDP.
    pub(crate) fn load_catch_all(maps: &FlowMaps) -> Result<Self, BpfError> {
        let mut a = Assembler::default();
        redirect(&mut a, maps);
        Self::load_floor(a, "load the XDP program that redirects everything")
    }

    /// Loads a program that redirects answers to ARP probes, and leaves all else to the kernel.
    pub(crate) fn load_for_arp_probes(maps: &FlowMaps) -> Result<Self, BpfError> {
        let mut a = Assembler::default();
        let pass = a.label();
        a.load(R2, U32, R1, context::DATA);
        a.load(R3, U32, R1, context::DATA_END);
        a.mov(R4, R2);
        a.add(R4, arp::LEN);
        a.jump_if(R4, Greater, R3, pass);
        for (offset, width, value) in [
            (frame::ETHER_TYPE, U16, i32::from(arp::ETHER_TYPE.to_be())),
            (arp::OPERATION, U16, i32::from(arp::REPLY.to_be())),
            // That of the probe's sender, which has none yet.
            (arp::TARGET_ADDRESS, U32, 0),
        ] {
            a.load(R6, width, R2, offset);
            a.jump_if(R6, NotEqual, value, pass);
        }
        redirect(&mut a, maps);
        a.place(pass);
        a.mov(R0, Verdict::Pass as i32);
        a.exit();
        Self::load_floor(a, "load the XDP program for ARP probes")
    }

    fn load_floor(a: Assembler, attempt: &'static str) -> Result<Self, BpfError> {
        let instructions = a
            .finish()
            .map_err(|bad_jump| BpfError::new(attempt, io::Error::other(bad_jump)))?;
        let fd = syscall::load(
            ProgramKind::Xdp,
            None,
            &instructions,
            FLOOR_NAME,
            c"Dual MIT/GPL",
            attempt,
        )?;
        Ok(Self { fd })
    }
}

/// To the socket of the frame's queue, or to the kernel if there is none.
fn redirect(a: &mut Assembler, maps: &FlowMaps) {
    a.load(R2, U32, R1, context::RX_QUEUE_INDEX);
    a.load_map(R1, maps.xsks_fd());
    a.mov(R3, Verdict::Pass as i32);
    a.call(Helper::RedirectMap);
    a.exit();
}
