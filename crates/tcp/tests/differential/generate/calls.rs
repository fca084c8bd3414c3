//! Calls of the application.

use std::time::Duration;

use packetdrill::script::flags;
use packetdrill::{Call, OptionValue};

use super::Generator;
use crate::plan::Action;
use crate::support::engine::calls::{SIOCATMARK, SIOCINQ};

impl Generator {
    pub(super) fn write(&mut self) -> Action {
        let len = self.rng.pick(&[
            1, 100, 500, 999, 1000, 1000, 1460, 2000, 3000, 5000, 10_000, 20_000,
        ]);
        let flags = if self.rng.chance(930_000) {
            0
        } else {
            self.rng.pick(&[libc::MSG_OOB, libc::MSG_EOR])
        };
        let len = if flags == libc::MSG_OOB {
            len.min(100)
        } else {
            len
        };
        Action::Call(Call::Write {
            fd: self.fd,
            len,
            flags: flags | libc::MSG_DONTWAIT,
        })
    }

    pub(super) fn read(&mut self) -> Action {
        let fd = self.fd;
        Action::Call(match self.rng.between(0, 9) {
            0..=5 => Call::Read {
                fd,
                len: self.rng.pick(&[1, 100, 1000, 3000, 100_000]),
                flags: libc::MSG_DONTWAIT
                    | self.rng.pick(&[0, 0, 0, 0, libc::MSG_PEEK, libc::MSG_OOB]),
            },
            6 => Call::GetOption {
                fd,
                level: libc::SOL_SOCKET,
                name: libc::SO_ERROR,
            },
            7 => {
                let all = libc::POLLIN | libc::POLLOUT | libc::POLLPRI | libc::POLLRDHUP;
                Call::Poll {
                    entries: vec![(fd, all.into())],
                    timeout: Some(Duration::ZERO),
                }
            }
            _ => Call::Ioctl {
                fd,
                request: self.rng.pick(&[SIOCINQ, SIOCATMARK]),
            },
        })
    }

    pub(super) fn option(&mut self) -> Action {
        let tcp = libc::SOL_TCP;
        let socket = libc::SOL_SOCKET;
        match self.rng.between(0, 11) {
            0 | 1 => self.set(tcp, libc::TCP_NODELAY, 1),
            2 => self.set(tcp, libc::TCP_NODELAY, 0),
            3 => self.set(socket, libc::SO_KEEPALIVE, 1),
            4 => self.set(tcp, libc::TCP_CORK, 0),
            5 => self.set(tcp, libc::TCP_QUICKACK, 1),
            6 => self.set(tcp, libc::TCP_QUICKACK, 0),
            7 => {
                let value = self.rng.pick(&[50_000, 200_000]);
                self.set(socket, libc::SO_RCVBUF, value)
            }
            8 => {
                let value = self.rng.pick(&[1, 500, 3000, 100_000]);
                self.set(socket, libc::SO_RCVLOWAT, value)
            }
            9 => self.set(socket, libc::SO_OOBINLINE, 1),
            10 => {
                let value = self.rng.pick(&[1, 5, 50]);
                self.set(tcp, libc::TCP_LINGER2, value)
            }
            _ => {
                let value = self.rng.pick(&[100, 536, 700, 1200]);
                self.set(tcp, libc::TCP_MAXSEG, value)
            }
        }
    }

    pub(super) fn set(&self, level: i32, name: i32, value: i64) -> Action {
        Action::Call(Call::SetOption {
            fd: self.fd,
            level,
            name,
            value: OptionValue::Integer(value),
        })
    }

    pub(super) fn close(&mut self) -> Action {
        match self.rng.between(0, 9) {
            0..=2 => Action::Call(Call::Shutdown {
                fd: self.fd,
                how: libc::SHUT_WR,
            }),
            3 => Action::Call(Call::Shutdown {
                fd: self.fd,
                how: libc::SHUT_RD,
            }),
            4 => Action::Call(Call::Shutdown {
                fd: self.fd,
                how: libc::SHUT_RDWR,
            }),
            5 => Action::Call(Call::Close { fd: self.fd }),
            // Linux takes a FIN before data that has come.
            _ if self.view.last() != self.view.next() => self.data(),
            _ => {
                let mut fin = self.segment(flags::FIN | flags::ACK);
                fin.ack = self.view.sent_end.max(1);
                if self.rng.chance(300_000) {
                    fin.payload = vec![0; 500];
                }
                Action::Inject(fin)
            }
        }
    }
}
