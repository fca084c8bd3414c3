//! The attachment of an XDP program to an interface.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use descriptors::OwnDescriptor;

use super::error::BpfError;
use super::program::Program;
use super::syscall;

/// An attached XDP program. Dropping it, or the end of the process however it comes about, detaches
/// the program and gives the interface back to the kernel.
#[derive(Debug)]
pub struct XdpLink {
    fd: OwnDescriptor,
}

/// Where in the receive path the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, before the kernel has made a packet buffer. Not every driver can.
    Native,
    /// In the kernel's generic receive path: works with every driver.
    ///
    /// Packets may be several in one here, to be cut later (`UDP_SEGMENT` of a veth peer): the
    /// program needs [`SkbNotes`](super::skb_notes::SkbNotes) to see that.
    Generic,
}

impl AttachMode {
    /// Its name as in `VMA_XDP_MODE`.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }

    /// `XDP_FLAGS_*`
    pub(crate) const fn flags(self) -> u32 {
        match self {
            Self::Native => XDP_FLAGS_DRV_MODE,
            Self::Generic => XDP_FLAGS_SKB_MODE,
        }
    }
}

/// Why a program could not be attached.
#[derive(Debug)]
pub enum AttachError {
    /// The process may not (`EPERM`, `EACCES`).
    NotPermitted(BpfError),
    /// The interface has an XDP program, attached in this mode or the other (`EBUSY`, `EEXIST`).
    Busy(BpfError),
    /// The kernel, older than 5.9, does not know links for XDP, or the driver this mode; or there
    /// is no such interface (`EINVAL`, `ENOSYS`, `EOPNOTSUPP`).
    Unsupported(BpfError),
    /// The driver refuses in the interface's present configuration, such as an MTU that does not
    /// leave a packet in one buffer, or for want of resources.
    Refused(BpfError),
}

impl XdpLink {
    /// Attaches `program` to the interface with index `ifindex`, in the network namespace of the
    /// thread.
    pub fn attach(program: &Program, ifindex: u32, mode: AttachMode) -> Result<Self, AttachError> {
        let made = Self::make(program.as_fd(), ifindex, mode.flags());
        Self::made(made.map(OwnDescriptor::new), mode)
    }

    /// The system call alone.
    pub(crate) fn make(program: BorrowedFd<'_>, ifindex: u32, flags: u32) -> io::Result<OwnedFd> {
        syscall::create_xdp_link(program, ifindex, flags)
    }

    /// What came of it.
    pub(crate) fn made(
        made: io::Result<OwnDescriptor>,
        mode: AttachMode,
    ) -> Result<Self, AttachError> {
        let attempt = match mode {
            AttachMode::Native => "attach the XDP program in native mode",
            AttachMode::Generic => "attach the XDP program in generic mode",
        };
        match made {
            Ok(fd) => Ok(Self { fd }),
            Err(cause) => Err(AttachError::from(BpfError::new(attempt, cause))),
        }
    }

    /// Attaches `program` after [`XdpLink::detach`].
    pub(crate) fn attach_again(
        &self,
        program: &Program,
        ifindex: u32,
        mode: AttachMode,
    ) -> Result<(), AttachError> {
        let again = Self::attach(program, ifindex, mode)?;
        self.fd.become_copy_of(&again.fd);
        Ok(())
    }

    /// Puts another program in the place of the attached one.
    pub fn update(&self, program: &Program) -> Result<(), BpfError> {
        syscall::update_link(self.fd.as_fd(), program.as_fd())
            .map_err(|cause| BpfError::new("replace the XDP program", cause))
    }

    /// Whether the program is on no interface any more, as somebody else's doing. Not if that
    /// cannot be asked.
    pub(crate) fn is_detached(&self) -> bool {
        syscall::objects::xdp_link_ifindex(self.fd.as_fd()).is_ok_and(|index| index == 0)
    }

    /// Detaches the program without bpf(2), which may be denied by now. The descriptor becomes a
    /// copy of `stand_in`: who uses the link meanwhile must not find another file.
    pub(crate) fn detach(&self, stand_in: &OwnDescriptor) {
        self.fd.become_copy_of(stand_in);
    }
}

impl AttachError {
    /// The system's error number.
    pub fn errno(&self) -> Option<i32> {
        self.error().errno()
    }

    fn error(&self) -> &BpfError {
        match self {
            Self::NotPermitted(error)
            | Self::Busy(error)
            | Self::Unsupported(error)
            | Self::Refused(error) => error,
        }
    }
}

impl From<BpfError> for AttachError {
    fn from(error: BpfError) -> Self {
        match error.errno() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted(error),
            Some(libc::EBUSY | libc::EEXIST) => Self::Busy(error),
            Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => Self::Unsupported(error),
            _ => Self::Refused(error),
        }
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let explanation = match self {
            Self::NotPermitted(_) => "it takes CAP_NET_ADMIN and CAP_BPF",
            Self::Busy(_) => "another XDP program is attached, see `ip link`",
            Self::Unsupported(_) => {
                "the kernel (5.9 is needed) or the driver cannot, or there is no such interface"
            }
            Self::Refused(_) => {
                "the driver does not accept it in this configuration; see the kernel log, and try a \
                 smaller MTU or generic mode"
            }
        };
        write!(formatter, "{} ({explanation})", self.error())
    }
}

impl Error for AttachError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.error())
    }
}

// enum of flags in include/uapi/linux/if_link.h
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
