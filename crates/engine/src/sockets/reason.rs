//! Why a socket, or a message, stays with the kernel. Every socket that is not accelerated carries one of these; they are
//! logged at DEBUG, kept in the socket's statistics and counted.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $text:literal;)+) => {
        /// Why traffic stays with the kernel. The codes are part of the statistics segment: they are never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name = $code,)+
        }

        impl Reason {
            /// All reasons, in the order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The reason in words, for an operator.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

reasons! {
    /// Not a reason: the socket is accelerated.
    Offloaded = 0, "offloaded";
    /// The socket is neither bound nor connected and has sent nothing.
    NotBound = 1, "neither bound nor connected yet";
    /// `VMA_OFFLOADED_SOCKETS=0`.
    Disabled = 2, "VMA_OFFLOADED_SOCKETS is 0";
    /// The bound address is not one of this host's.
    AddressNotLocal = 3, "bound to an address that no interface has";
    /// The bound address belongs to the loopback interface.
    Loopback = 4, "bound to a loopback address";
    /// No interface is up, Ethernet and of a kind that the back-end takes.
    NoInterface = 5, "no interface can be accelerated";
    /// The back-end could not open the interface; the log has its words.
    OpenFailed = 6, "the interface could not be opened";
    /// Several sockets share the port; only the kernel can choose between them.
    PortShared = 7, "the port is shared by several sockets";
    /// `SO_REUSEPORT`: sockets of other processes may share the port.
    ReusePort = 8, "SO_REUSEPORT is set";
    /// An option whose effect the accelerated path does not have.
    Option = 9, "a socket option needs the kernel";
    /// The packet steering table refused the flow.
    SteeringFailed = 10, "the packet steering refused the flow";
    /// The interface went away or its device failed.
    DeviceLost = 11, "the device was lost";
    /// The process has forked since, and parent and child share the socket.
    Forked = 12, "shared with a child since fork";
    /// A panic inside the library was contained; this socket is left alone since.
    Poisoned = 13, "an internal error was contained";
    /// The epoll set of the socket was put into another set or polled.
    NestedEpoll = 14, "its epoll set is nested in another";
    /// The route leads to an interface that is not accelerated, to this host, or nowhere.
    Route = 15, "the route does not leave through an accelerated interface";
    /// The next hop's hardware address is not known; the kernel asks for it.
    Neighbour = 16, "the next hop's hardware address is not known yet";
    /// Broadcast, or no address at all.
    NotUnicast = 17, "broadcast goes through the kernel";
    /// The datagram needs fragmentation.
    TooLarge = 18, "larger than the MTU allows in one packet";
    /// Control data or flags that only the kernel handles.
    Message = 19, "flags or control data need the kernel";
    /// No free frame or ring entry.
    RingFull = 20, "the sending ring is full";
    /// `shutdown(2)`
    ShutDown = 21, "the socket was shut down";
    /// Another process has a descriptor of the socket.
    Passed = 22, "its descriptor was passed to another process";
    /// A rule of `libvma.conf` for a destination, a peer or the whole program says `os`.
    Rule = 23, "a rule leaves it to the kernel";
    /// A rule of `libvma.conf` for `udp_receiver` says `os`. Sending is another matter.
    ReceiverRule = 24, "a rule leaves what it receives to the kernel";
    /// `splice(2)`, `sendfile(2)`
    InKernel = 25, "splice or sendfile moves its data in the kernel";
    /// Streams (`fdopen(3)`) and asynchronous reads, which no hook sees.
    InLibc = 26, "the C library itself reads it (stdio, aio)";
    /// `unshare(2)` or `setns(2)` came between: the library serves the namespace in which the first socket was made.
    Namespace = 27, "made in another network namespace";
    /// `ip xfrm policy` shows some: what leaves past the kernel would leave in clear.
    Ipsec = 28, "IPsec policies are in force";
    /// Another thread is just opening the interface.
    Opening = 29, "the interface is being opened";
    /// `SO_REUSEADDR`, where the kernel does not say who else has the port (`CONFIG_INET_UDP_DIAG`).
    ReuseAddress = 30, "SO_REUSEADDR is set, others may have the port";
    /// Received by the kernel's half of an accelerated socket.
    AnotherWay = 31, "came in fragments, by another interface, or earlier";
    /// Bound to a group, or sent to one.
    Multicast = 32, "multicast goes through the kernel";
    /// Streams. Listed in the statistics, nothing more.
    Tcp = 33, "TCP is the kernel's for now";
    /// Datagram sockets of `AF_INET6`, also when they carry IPv4. Listed in the statistics, nothing more.
    Ipv6 = 34, "IPv6 is the kernel's for now";
    /// Another process has it; when that ends, the interface is taken over.
    Held = 35, "another process holds the interface";
    /// The MTU is larger than any frame of AF_XDP (4 KiB), or has grown since the frames were made.
    LargerThanFrame = 36, "larger than the library's frames: see the note on the MTU";
}

/// The statistics count each by itself.
#[cfg(not(loom))]
const _: () = assert!(Reason::ALL.len() < stats::REASON_CODES as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_count_up_from_zero() {
        for (index, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
            assert!(reason.text().is_ascii() && reason.text().len() < 64);
        }
    }
}
