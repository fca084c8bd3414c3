//! The handshake, by either side.

use std::time::Duration;

use packetdrill::script::{TcpOption, flags};
use packetdrill::{Call, Segment};

use super::{Generator, Profile};
use crate::plan::Action;
use crate::play::Player;

impl Generator {
    pub(super) fn passive(&mut self, player: &mut Player<'_>) {
        let now = Duration::ZERO;
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        self.step(player, now, Action::Call(Call::Socket { kind }));
        self.step(player, now, Action::Call(Call::Bind { fd: 3 }));
        if self.rng.chance(200_000) {
            self.fd = 3;
            let action = self.option();
            self.step(player, now, action);
            self.fd = 4;
        }
        self.step(
            player,
            now,
            Action::Call(Call::Listen { fd: 3, backlog: 5 }),
        );
        let ece = if self.ecn { flags::ECE | flags::CWR } else { 0 };
        let mut syn = Segment {
            flags: flags::SYN | ece,
            window: self.window,
            options: self.our_syn_options(),
            ..Segment::default()
        };
        if self.rng.chance(50_000) {
            syn.payload = vec![0; 100];
        }
        self.step(
            player,
            Duration::from_millis(5),
            Action::Inject(syn.clone()),
        );
        self.uses_timestamps = self.has_timestamps && self.sysctl("tcp_timestamps") == "1";
        self.uses_sack = self.has_sack && self.sysctl("tcp_sack") == "1";
        self.ecn &= self.sysctl("tcp_ecn") != "0";
        self.scale_or_none();
        if self.profile == Profile::Hostile {
            self.hostile_handshake(player);
        }
        let mut ack = self.segment(flags::ACK);
        ack.ack = 1;
        ack.seq = 1;
        let gap = self.rng.pick(&[5, 20, 50]);
        if self.rng.chance(100_000) {
            ack.payload = vec![0; 50];
        }
        self.step(player, Duration::from_millis(gap), Action::Inject(ack));
        self.step(
            player,
            Duration::from_millis(1),
            Action::Call(Call::Accept {
                fd: 3,
                flags: libc::SOCK_NONBLOCK,
            }),
        );
    }

    pub(super) fn active(&mut self, player: &mut Player<'_>) {
        let now = Duration::ZERO;
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        self.step(player, now, Action::Call(Call::Socket { kind }));
        if self.rng.chance(200_000) {
            let action = self.option();
            self.step(player, now, action);
        }
        // The ACK of the SYN-ACK can be held back (options/quick-ack-off-before-connect.pkt); with
        // Linux it then depends on its header prediction which segments set it free.
        let quick_ack = self.set(libc::SOL_TCP, libc::TCP_QUICKACK, 1);
        self.step(player, now, quick_ack);
        self.step(player, now, Action::Call(Call::Connect { fd: 3 }));
        if self.profile == Profile::Hostile {
            self.hostile_handshake(player);
        }
        self.has_timestamps &= self.sysctl("tcp_timestamps") == "1";
        self.has_sack &= self.sysctl("tcp_sack") == "1";
        self.ecn &= self.sysctl("tcp_ecn") == "1";
        self.scale_or_none();
        let ece = if self.ecn { flags::ECE } else { 0 };
        let syn_ack = Segment {
            flags: flags::SYN | flags::ACK | ece,
            ack: 1,
            window: self.window,
            options: self.our_syn_options(),
            ..Segment::default()
        };
        let gap = self.rng.pick(&[5, 20, 50]);
        self.step(player, Duration::from_millis(gap), Action::Inject(syn_ack));
        self.uses_timestamps = self.has_timestamps;
        self.uses_sack = self.has_sack;
        if self.rng.chance(200_000) {
            self.step(
                player,
                Duration::from_millis(1),
                Action::Call(Call::Connect { fd: 3 }),
            );
        }
    }

    pub(super) fn our_syn_options(&mut self) -> Vec<TcpOption> {
        let mut options = vec![TcpOption::Mss(self.mss)];
        if self.has_sack {
            options.push(TcpOption::SackPermitted);
        }
        if self.has_timestamps {
            options.push(TcpOption::Timestamp {
                val: self.clock,
                ecr: 0,
            });
        }
        if let Some(scale) = self.scale {
            options.push(TcpOption::Nop);
            options.push(TcpOption::WindowScale(scale));
        }
        options
    }

    pub(super) fn scale_or_none(&mut self) {
        if self.sysctl("tcp_window_scaling") == "0" {
            self.scale = None;
        }
    }
}
