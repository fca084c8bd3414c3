//! Why a socket, or a message, stays with the kernel. Every socket that is not accelerated carries
//! one of these; they are logged at DEBUG, kept in the socket's statistics and counted.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $text:literal, $advice:literal;)+) => {
        /// Why traffic stays with the kernel. The codes are part of the statistics segment: they
        /// are never reused.
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

            /// What an operator can change about it.
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$name => $advice,)+ }
            }
        }
    };
}

reasons! {
    /// Not a reason: the socket is accelerated.
    Offloaded = 0, "offloaded",
        "";
    /// The socket is neither bound nor connected and has sent nothing.
    NotBound = 1, "neither bound nor connected yet",
        "Nothing: it is decided when the socket is bound, connected or first used to send";
    /// `VMA_OFFLOADED_SOCKETS=0`.
    Disabled = 2, "VMA_OFFLOADED_SOCKETS is 0",
        "Unset VMA_OFFLOADED_SOCKETS, or set it to 1; or name the sockets in libvma.conf";
    /// The bound address is not one of this host's.
    AddressNotLocal = 3, "bound to an address that no interface has",
        "Bind to an address of an interface of this host (ip addr), or to 0.0.0.0";
    /// The bound address belongs to the loopback interface.
    Loopback = 4, "bound to a loopback address",
        "Use the address of a network interface: loopback traffic never reaches a device";
    /// No interface is up, Ethernet and of a kind that the back-end takes.
    NoInterface = 5, "no interface can be accelerated",
        "Bring up an Ethernet interface whose driver has XDP (ip link); bridges and parts of bonds are not taken";
    /// The back-end could not open the interface; the log has its words.
    OpenFailed = 6, "the interface could not be opened",
        "Look for the cause and the remedy in the log (VMA_TRACELEVEL=3): privileges, queues, locked memory, driver";
    /// Several sockets share the port; only the kernel can choose between them.
    PortShared = 7, "the port is shared by several sockets",
        "Give each socket a port of its own, or do without the option that is named (haproxy: noreuseport), if the program can";
    /// `SO_REUSEPORT` of a listener, with `SO_INCOMING_CPU`, or where `net.ipv4.tcp_migrate_req` is
    /// on.
    ReusePort = 8, "only the kernel chooses among its SO_REUSEPORT listeners",
        "Do without SO_INCOMING_CPU, and set net.ipv4.tcp_migrate_req to 0";
    /// An option whose effect the accelerated path does not have.
    Option = 9, "a socket option needs the kernel",
        "Do without the option that is named, if the program can: it has an effect only in the kernel";
    /// The packet steering table refused the flow.
    SteeringFailed = 10, "the packet steering refused the flow",
        "See the log: the table of flows is full, or bpf(2) is denied to the process";
    /// The interface went away or its device failed.
    DeviceLost = 11, "the device was lost",
        "Bring the interface back: the socket follows when it is there again";
    /// The process has forked since, and parent and child share the socket.
    Forked = 12, "shared with a child since fork",
        "Open the socket after the fork, set FD_CLOEXEC, or let only one of the processes use it";
    /// A panic inside the library was contained; this socket is left alone since.
    Poisoned = 13, "an internal error was contained",
        "This is a fault of the library: please report it with the log (VMA_TRACELEVEL=4)";
    /// The epoll set of the socket was put into another set or polled.
    NestedEpoll = 14, "its epoll set is nested in another",
        "Register the socket in the outermost epoll set itself";
    /// The route leads to an interface that is not accelerated, to this host, or nowhere.
    Route = 15, "the route does not leave through an accelerated interface",
        "Route the destination through an accelerated interface (ip route get ADDRESS)";
    /// The next hop's hardware address is not known; the kernel asks for it.
    Neighbour = 16, "the next hop's hardware address is not known yet",
        "Nothing: the datagrams after it go past the kernel once the next hop has answered";
    /// Broadcast, or no address at all.
    NotUnicast = 17, "broadcast goes through the kernel",
        "Nothing: broadcast goes through the kernel";
    /// The datagram needs fragmentation.
    TooLarge = 18, "larger than the MTU allows in one packet",
        "Send less at once, or raise the MTU of the path";
    /// Control data or flags that only the kernel handles.
    Message = 19, "flags or control data need the kernel",
        "Do without the flag or control message, if the program can";
    /// No free frame or ring entry.
    RingFull = 20, "the sending ring is full",
        "Send in smaller bursts: the device could not take more at that moment";
    /// `shutdown(2)`
    ShutDown = 21, "the socket was shut down",
        "Nothing: the program has shut it down";
    /// Another process has a descriptor of the socket.
    Passed = 22, "its descriptor was passed to another process",
        "Let one process use the socket, or open it in the process that uses it";
    /// A rule of `libvma.conf` for a destination, a peer or the whole program says `os`.
    Rule = 23, "a rule leaves it to the kernel",
        "Change the rule of libvma.conf that is named";
    /// A rule of `libvma.conf` for `udp_receiver` says `os`. Sending is another matter.
    ReceiverRule = 24, "a rule leaves what it receives to the kernel",
        "Change the udp_receiver rule of libvma.conf that is named";
    /// `splice(2)`, `sendfile(2)`
    InKernel = 25, "splice or sendfile moves its data in the kernel",
        "Use recv and send instead of splice or sendfile";
    /// Streams (`fdopen(3)`) and asynchronous reads, which no hook sees.
    InLibc = 26, "the C library itself reads it (stdio, aio)",
        "Use recv and send instead of stdio streams or aio";
    /// `unshare(2)` or `setns(2)` came between: the library serves the namespace in which the first
    /// socket was made.
    Namespace = 27, "made in another network namespace",
        "Start the program in the namespace of its sockets (ip netns exec)";
    /// `ip xfrm policy` shows some: what leaves past the kernel would leave in clear.
    Ipsec = 28, "IPsec policies are in force",
        "Remove the IPsec policies (ip xfrm policy), or leave the traffic to the kernel";
    /// Another thread is just opening the interface.
    Opening = 29, "the interface is being opened",
        "Nothing: it is decided as soon as the interface is open";
    /// `SO_REUSEADDR` or `SO_REUSEPORT`, where the kernel does not say who else has the port
    /// (`CONFIG_INET_UDP_DIAG`, for listeners `CONFIG_INET_TCP_DIAG`).
    ReuseAddress = 30, "SO_REUSEADDR is set, others may have the port",
        "Do not set SO_REUSEADDR, or load the modules inet_diag, udp_diag and tcp_diag, so that the library can ask";
    /// Received by the kernel socket of an accelerated socket.
    AnotherWay = 31, "came in fragments, by another interface, or earlier",
        "Nothing, if it is rare; else send packets that need no fragments, and through the interface of the address";
    /// Bound to a group that it cannot receive past the kernel, or sent to one of which nobody
    /// knows who is a member.
    Multicast = 32, "multicast goes through the kernel",
        "To receive: join the group before the first receive call, and share its port with no other process. \
         To send: IP_MULTICAST_LOOP 0, or Linux 6.15, or /proc";
    /// `hoplimit`, and for a connection also `advmss`, `initcwnd`, `rto_min` and what else
    /// `ip-route(8)` has of TCP.
    RouteMetric = 33, "the route has metrics that only the kernel heeds",
        "Take the metrics from the route (ip route get ADDRESS); an MTU is heeded, and for datagrams only hoplimit counts";
    /// Packets that are longer than their header can say, which only the kernel cuts.
    BigTcp = 34, "the interface has BIG TCP, which is the kernel's",
        "Lower gso_max_size and gro_max_size of the interface to 65536 (ip link set dev DEV ...), or use IPv4";
    /// Another process has it; when that ends, the interface is taken over.
    Held = 35, "another process holds the interface",
        "End the process that holds the interface, or give this one an interface of its own";
    /// The MTU is larger than any frame of AF_XDP (4 KiB), or has grown since the frames were made.
    LargerThanFrame = 36, "larger than the library's frames: see the note on the MTU",
        "Lower the MTU of the interface, or send smaller datagrams: see the note on the MTU";
    /// Without `CAP_NET_ADMIN` the kernel's socket cannot be connected without a packet.
    Repair = 37, "TCP_REPAIR is not allowed to the process",
        "Give the program CAP_NET_ADMIN";
    /// Before Linux 6.6, in generic mode.
    Merged = 38, "merged segments do not fit into the library's frames",
        "Use Linux 6.6 or later, or VMA_XDP_MODE=native: a connection must not be split between two stacks";
    /// `IP_MULTICAST_LOOP` is on, as it is by default, and sockets of this host are members of the
    /// group.
    Looped = 39, "sockets of this host are to get it, too",
        "Set IP_MULTICAST_LOOP to 0, or VMA_TX_MC_LOOPBACK=0, if nothing on this host is to receive it";
    /// The process has become another user (`setuid(2)`), or has given up `CAP_NET_ADMIN`, without
    /// which no connection can return to the kernel.
    RightsGone = 40, "the process has given up its rights",
        "Let the service keep CAP_NET_ADMIN, and start it as its user (User= and AmbientCapabilities= of systemd): \
         then it has nothing to give up";
    /// `io_uring(7)`: of some rings the library sees what they do, of others only that they are
    /// there.
    IoUring = 41, "the program uses io_uring, past the library",
        "Have the program wait with epoll and use recv and send (as with UV_USE_IO_URING=0), if it can";
    /// Nothing of the library is left in the process.
    Filtered = 42, "a filter of system calls forbids what it takes",
        "Allow the calls that vma(7) lists, or install the filter without the one that is named; or run the program without a filter";
    /// `unshare(2)` and `setns(2)` of a user namespace take a process of one thread, and leave it
    /// no rights where its interfaces are.
    UserNamespace = 43, "the process has left its user namespace",
        "Open the sockets in the user namespace that has the interfaces, or do without unshare";
    /// A server that forks for each connection, for example, which the kernel serves faster from
    /// the start.
    Returning = 44, "most of its connections return to the kernel",
        "Nothing: it is faster so. Connections return for the reasons that the others have: a child of fork, stdio, an option";
    /// `epoll_wait(2)`, `poll(2)`, `recv(2)` and their like by instructions of the program's own,
    /// which no hook sees: Rust's rustix, and Go.
    PassedBy = 45, "the program waits past the library, by instructions of its own",
        "Have the program wait through the C library (Rust's rustix with its feature use-libc), if it can";
    /// A send call that the kernel refuses, or with which it tells of an error that has come
    /// before.
    Answered = 46, "the kernel answers the call: an error, or no address",
        "Nothing: the call fails as it does without the library";
    /// The interface is left to the broker's next run, in which its sockets go past the kernel
    /// again.
    BrokerEnded = 47, "the broker that opened the interface has ended",
        "Start the broker again (systemctl start vma-broker): sockets that receive go past the kernel again then";
    /// A connection within this host, with `VMA_SHM=1`: its peer is looked for.
    SameHost = 48, "a peer on this host is looked for",
        "Nothing: it is decided after some calls whether the peer shares memory";
    /// A connection within this host whose peer has no library, other rights, or no `VMA_SHM=1`.
    NoSharedMemory = 49, "its peer on this host shares no memory with it",
        "Start both programs with the library, as one user, in one network namespace and with VMA_SHM=1";
}

/// The statistics count each by itself.
#[cfg(not(loom))]
const _: () = assert!(Reason::ALL.len() < stats::REASON_CODES as usize);

impl Reason {
    /// Whether it passes when an interface is free, or open, or a peer is found: what is the
    /// kernel's for it may go over at any moment.
    pub fn passes(self) -> bool {
        matches!(
            self,
            Self::Held | Self::Opening | Self::BrokerEnded | Self::SameHost
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_count_up_from_zero() {
        for (index, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
            assert!(reason.text().is_ascii() && reason.text().len() < 64);
            assert!(reason.advice().is_ascii() && reason.advice().len() < 192);
            assert_eq!(reason.advice().is_empty(), *reason == Reason::Offloaded);
        }
    }
}
