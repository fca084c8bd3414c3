//! System calls as a stack carries them out.

mod values;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::script::{Expression, Syscall};
use crate::symbols::evaluate;
use values::*;

/// A system call. Descriptors are the stack's, not the script's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// `socket`, with the type's flags.
    Socket {
        /// `SOCK_STREAM` and flags.
        kind: i32,
    },
    /// `bind` to the script's local address and port.
    Bind {
        /// The socket.
        fd: i32,
    },
    /// `listen`.
    Listen {
        /// The socket.
        fd: i32,
        /// The longest queue.
        backlog: i32,
    },
    /// `accept` or `accept4`.
    Accept {
        /// The listening socket.
        fd: i32,
        /// `SOCK_NONBLOCK`, `SOCK_CLOEXEC`.
        flags: i32,
    },
    /// `connect` to the script's remote address and port.
    Connect {
        /// The socket.
        fd: i32,
    },
    /// `write`, `send`, `sendto`, `writev`, `sendmsg`: the next octets of the connection's stream.
    Write {
        /// The socket.
        fd: i32,
        /// Octets.
        len: usize,
        /// `MSG_*`.
        flags: i32,
    },
    /// `sendto` or `sendmsg` with `MSG_FASTOPEN`, which connects to the script's remote address
    /// first.
    FastOpen {
        /// The socket.
        fd: i32,
        /// Octets.
        len: usize,
        /// `MSG_*`.
        flags: i32,
        /// Whether the address is one; else it is of the family `AF_UNSPEC`.
        has_address: bool,
    },
    /// `read`, `recv`, `recvfrom`, `recvmsg`.
    Read {
        /// The socket.
        fd: i32,
        /// Octets at most.
        len: usize,
        /// `MSG_*`.
        flags: i32,
    },
    /// `shutdown`.
    Shutdown {
        /// The socket.
        fd: i32,
        /// `SHUT_*`.
        how: i32,
    },
    /// `close`.
    Close {
        /// The descriptor.
        fd: i32,
    },
    /// `setsockopt`.
    SetOption {
        /// The socket.
        fd: i32,
        /// `SOL_*`.
        level: i32,
        /// Of that level.
        name: i32,
        /// What to set.
        value: OptionValue,
    },
    /// `getsockopt`.
    GetOption {
        /// The socket.
        fd: i32,
        /// `SOL_*`.
        level: i32,
        /// Of that level.
        name: i32,
    },
    /// `fcntl(F_SETFL)`.
    SetFlags {
        /// The descriptor.
        fd: i32,
        /// `O_*`.
        flags: i32,
    },
    /// `fcntl(F_GETFL)`.
    GetFlags {
        /// The descriptor.
        fd: i32,
    },
    /// `ioctl` that gives a number.
    Ioctl {
        /// The descriptor.
        fd: i32,
        /// `SIOC*`.
        request: i64,
    },
    /// `poll`.
    Poll {
        /// Descriptors and what is waited for.
        entries: Vec<(i32, i32)>,
        /// `None` for ever.
        timeout: Option<Duration>,
    },
    /// `epoll_create`.
    EpollCreate,
    /// `epoll_ctl`.
    EpollControl {
        /// The set.
        set: i32,
        /// `EPOLL_CTL_*`.
        operation: i32,
        /// The descriptor it is about.
        fd: i32,
        /// `EPOLL*`.
        events: i64,
    },
    /// `epoll_wait`.
    EpollWait {
        /// The set.
        set: i32,
        /// Room for so many events.
        room: usize,
        /// `None` for ever.
        timeout: Option<Duration>,
    },
}

/// The value of a socket option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OptionValue {
    /// An `int`.
    Integer(i64),
    /// A `struct linger`.
    Linger {
        /// Whether to linger.
        on: bool,
        /// For how long.
        seconds: i64,
    },
    /// A name.
    Text(String),
    /// Any octets.
    Octets(Vec<u8>),
}

/// What a system call gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Its result, or `Err(errno)`.
    pub result: Option<Result<i64, i32>>,
    /// What it wrote into the program's memory: an option's value, the events of poll's entries in
    /// their order, descriptor and events of each of `epoll_wait`'s.
    pub output: Vec<i64>,
    /// The first octet read that is not the stream's.
    pub wrong_octet: Option<usize>,
}

impl Outcome {
    /// A plain result.
    pub fn ok(result: i64) -> Self {
        Ok(result).into()
    }

    /// A failure.
    pub fn error(errno: i32) -> Self {
        Err(errno).into()
    }

    /// A result with output.
    pub fn with(result: i64, output: Vec<i64>) -> Self {
        Self {
            output,
            ..Self::ok(result)
        }
    }
}

impl From<Result<i64, i32>> for Outcome {
    fn from(result: Result<i64, i32>) -> Self {
        Self {
            result: Some(result),
            ..Self::default()
        }
    }
}

/// Makes the calls of a script into those of a stack. The error says what is not known here.
pub(crate) struct Translator<'fds> {
    /// From the script's descriptor to the stack's.
    pub(crate) live_fd: &'fds dyn Fn(i64) -> i32,
}

impl Translator<'_> {
    pub(crate) fn call(&self, syscall: &Syscall) -> Result<Call, String> {
        let arguments = Arguments {
            syscall,
            live_fd: self.live_fd,
        };
        let fd = || arguments.fd(0);
        Ok(match syscall.name.as_str() {
            "socket" => Call::Socket {
                kind: arguments.int(1)?,
            },
            "bind" => Call::Bind { fd: fd()? },
            "listen" => Call::Listen {
                fd: fd()?,
                backlog: arguments.int(1)?,
            },
            "accept" => Call::Accept {
                fd: fd()?,
                flags: 0,
            },
            "accept4" => Call::Accept {
                fd: fd()?,
                flags: arguments.int(3)?,
            },
            "connect" => Call::Connect { fd: fd()? },
            "write" | "send" | "sendto" | "writev" | "sendmsg" => arguments.write()?,
            "read" | "recv" | "recvfrom" | "recvmsg" => arguments.read()?,
            "shutdown" => Call::Shutdown {
                fd: fd()?,
                how: arguments.int(1)?,
            },
            "close" => Call::Close { fd: fd()? },
            "setsockopt" => arguments.set_option()?,
            "getsockopt" => Call::GetOption {
                fd: fd()?,
                level: arguments.int(1)?,
                name: arguments.int(2)?,
            },
            "fcntl" => arguments.fcntl()?,
            "ioctl" => Call::Ioctl {
                fd: fd()?,
                request: arguments.number(1)?,
            },
            "poll" => arguments.poll()?,
            "epoll_create" | "epoll_create1" => Call::EpollCreate,
            "epoll_ctl" => arguments.epoll_control()?,
            "epoll_wait" => Call::EpollWait {
                set: fd()?,
                room: arguments.size(2)?,
                timeout: timeout(arguments.number(3)?),
            },
            other => return Err(format!("system call {other}")),
        })
    }
}

/// The arguments of one call.
struct Arguments<'call> {
    syscall: &'call Syscall,
    live_fd: &'call dyn Fn(i64) -> i32,
}

impl Arguments<'_> {
    fn at(&self, index: usize) -> Result<&Expression, String> {
        let name = &self.syscall.name;
        let argument = self.syscall.arguments.get(index);
        argument.ok_or_else(|| format!("{name} with fewer than {} arguments", index + 1))
    }

    fn number(&self, index: usize) -> Result<i64, String> {
        let argument = self.at(index)?;
        let name = &self.syscall.name;
        evaluate(argument).ok_or_else(|| format!("argument {} of {name}: {argument:?}", index + 1))
    }

    fn int(&self, index: usize) -> Result<i32, String> {
        let number = self.number(index)?;
        int(number)
    }

    fn size(&self, index: usize) -> Result<usize, String> {
        let number = self.number(index)?;
        usize::try_from(number).map_err(|_| format!("size {number}"))
    }

    fn fd(&self, index: usize) -> Result<i32, String> {
        self.number(index).map(self.live_fd)
    }

    fn write(&self) -> Result<Call, String> {
        let fd = self.fd(0)?;
        let (len, flags) = match self.syscall.name.as_str() {
            "write" => (self.size(2)?, 0),
            "writev" => (vector_len(self.at(1)?)?, 0),
            "sendmsg" => (message_len(self.at(1)?)?, self.int(2)?),
            _ => (self.size(2)?, self.int(3)?),
        };
        if matches!(self.at(1)?, Expression::Word(_)) {
            return Err("a write from no memory".to_owned());
        }
        if flags & FAST_OPEN != 0 {
            let family = self.syscall.arguments.get(4).and_then(evaluate);
            return Ok(Call::FastOpen {
                fd,
                len,
                flags,
                has_address: family != Some(i64::from(libc::AF_UNSPEC)),
            });
        }
        Ok(Call::Write { fd, len, flags })
    }

    fn read(&self) -> Result<Call, String> {
        let fd = self.fd(0)?;
        let (len, flags) = match self.syscall.name.as_str() {
            "read" => (self.size(2)?, 0),
            "recvmsg" => {
                let message = self.at(1)?;
                if message.field("msg_control").is_some() {
                    return Err("recvmsg with control messages".to_owned());
                }
                (message_len(message)?, self.int(2)?)
            }
            _ => (self.size(2)?, self.int(3)?),
        };
        Ok(Call::Read { fd, len, flags })
    }

    fn set_option(&self) -> Result<Call, String> {
        let value = match self.at(3)? {
            Expression::List(values) if values.len() == 1 && values[0].field("onoff").is_some() => {
                linger(&values[0])?
            }
            linger_value @ Expression::Struct(_) => linger(linger_value)?,
            Expression::Text(text) if self.int(2)? == libc::TCP_FASTOPEN_KEY => {
                let mut octets = unescaped(text)?;
                octets.resize(self.size(4)?, 0);
                OptionValue::Octets(octets)
            }
            Expression::Text(text) => OptionValue::Text(text.clone()),
            _ => OptionValue::Integer(self.number(3)?),
        };
        Ok(Call::SetOption {
            fd: self.fd(0)?,
            level: self.int(1)?,
            name: self.int(2)?,
            value,
        })
    }

    fn fcntl(&self) -> Result<Call, String> {
        let fd = self.fd(0)?;
        match self.int(1)? {
            libc::F_GETFL => Ok(Call::GetFlags { fd }),
            libc::F_SETFL => Ok(Call::SetFlags {
                fd,
                flags: self.int(2)?,
            }),
            command => Err(format!("fcntl command {command}")),
        }
    }

    fn poll(&self) -> Result<Call, String> {
        let Expression::List(entries) = self.at(0)? else {
            return Err("poll without a list".to_owned());
        };
        let field = |entry: &Expression, name: &str| {
            let value = entry.field(name).and_then(evaluate);
            value.ok_or_else(|| format!("poll entry without {name}"))
        };
        let entries: Result<_, String> = entries
            .iter()
            .map(|entry| {
                let fd = (self.live_fd)(field(entry, "fd")?);
                Ok((fd, int(field(entry, "events")?)?))
            })
            .collect();
        Ok(Call::Poll {
            entries: entries?,
            timeout: timeout(self.number(2)?),
        })
    }

    fn epoll_control(&self) -> Result<Call, String> {
        let events = match self.at(3)? {
            event @ Expression::Struct(_) => event.field("events").and_then(evaluate),
            _ => Some(0),
        };
        Ok(Call::EpollControl {
            set: self.fd(0)?,
            operation: self.int(1)?,
            fd: self.fd(2)?,
            events: events.ok_or("epoll_ctl without events")?,
        })
    }
}

/// `MSG_FASTOPEN`.
const FAST_OPEN: i32 = 0x2000_0000;
