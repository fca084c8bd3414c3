//! The sections of a segment, declared once.
//!
//! A row of the table below gives a section its number in the file, its name, its entries, how many
//! there are, and how it is read. From it follow the layout of new segments, the writer's and the
//! reader's side, [`Statistics`](crate::Statistics) with its JSON, [`SECTIONS`] for everything that
//! treats all sections alike, and the documentation.

use crate::schema::FieldInfo;

/// Applies a macro to the table. Columns: number of the section in the file (never used again),
/// name, entries, how an entry comes to be, how many there are, which of them a reader gets, their
/// order, and what they are.
///
/// `claimed`: in use as its generation says. With `by`, [`Segment`](crate::Segment) has a function
/// of this name that hands one out, and what it hands out has this type. Without, the segment
/// itself writes them. `described`: written once.
macro_rules! with_sections {
    ($then:ident) => {
        $then! {
            Sockets = 1, sockets: SocketStats => SocketSnapshot, claimed by claim_socket -> SocketSlot,
                |asked| asked.sockets, |_| true, |it| u64::from(it.slot),
                "what each socket is and what it did";
            Rings = 2, rings: RingStats => RingSnapshot, claimed by claim_ring -> RingSlot,
                |asked| asked.rings, |_| true, |it| u64::from(it.slot),
                "open interfaces";
            Pools = 3, pools: PoolStats => PoolSnapshot, claimed by claim_pool -> PoolSlot,
                |asked| asked.pools, |_| true, |it| u64::from(it.slot),
                "buffer pools";
            Reasons = 4, reasons: ReasonStats => ReasonSnapshot, described,
                |asked| asked.reasons, |it| !it.name.is_empty() || it.count > 0, |it| u64::from(it.code),
                "why sockets were left to the kernel, and how many";
            Settings = 5, settings: SettingStats => SettingSnapshot, described,
                |asked| asked.settings, |it| !it.name.is_empty(), |it| u64::from(it.place),
                "the library's parameters";
            Rules = 6, rules: RuleStats => RuleSnapshot, described,
                |asked| asked.rules, |it| !it.rule.is_empty(), |it| u64::from(it.place),
                "rules of libvma.conf; a socket's rule is the place here, plus 1";
            ClosedSockets = 7, closed_sockets: SocketStats => SocketSnapshot, claimed,
                |_| crate::layout::CLOSED_SOCKETS, |_| true, |it| it.closed,
                "the sockets that were closed last, oldest first";
            KernelSockets = 8, kernel_sockets: KernelSocketStats => KernelSocketSnapshot, claimed by claim_kernel_socket -> KernelSocketSlot,
                |_| crate::layout::KERNEL_SOCKETS, |it| it.fd >= 0, |it| u64::from(it.slot),
                "sockets of kinds that are never accelerated";
            Notes = 9, notes: NoteStats => NoteSnapshot, claimed,
                |_| crate::layout::NOTES, |it| !it.text.is_empty(), |it| u64::from(it.slot),
                "what a reader should know of interfaces and the process, in words";
            TcpConnections = 10, tcp_connections: TcpStats => TcpSnapshot, claimed by claim_tcp_connection -> TcpSlot,
                |asked| asked.connections, |it| it.fd >= 0, |it| u64::from(it.slot),
                "TCP connections in user space";
            Multiplexers = 11, multiplexers: MultiplexerStats => MultiplexerSnapshot, claimed by claim_multiplexer -> MultiplexerSlot,
                |_| crate::layout::MULTIPLEXERS, |it| !it.kind.is_empty(), |it| u64::from(it.slot),
                "poll, select and each epoll set with accelerated sockets in it";
            Queues = 12, queues: QueueStats => QueueSnapshot, claimed by claim_queue -> QueueSlot,
                |_| crate::layout::QUEUES, |_| true, |it| u64::from(it.slot),
                "receive queues of the interfaces (CQ)";
            Groups = 13, groups: GroupStats => GroupSnapshot, claimed by claim_group -> GroupSlot,
                |_| crate::layout::GROUPS, |it| it.group.is_some(), |it| u64::from(it.slot),
                "memberships in multicast groups";
            Events = 14, events: EventStats => EventSnapshot, claimed,
                |_| crate::layout::EVENTS, |_| true, |it| it.order,
                "the last events outside of the data path, oldest first";
        }
    };
}
pub(crate) use with_sections;

/// A section, for everything that treats all of them alike.
#[derive(Clone, Copy, Debug)]
pub struct SectionInfo {
    pub kind: SectionKind,
    /// Its name in JSON.
    pub name: &'static str,
    pub help: &'static str,
    pub fields: &'static [FieldInfo],
}

/// Counters and sections that nothing fills yet, and what they wait for. A field's name is empty
/// where the whole section waits.
pub const PLANNED: &[(&str, &str, &str)] = &[
    ("queues", "buffers", "back-ends that know their fill ring"),
    (
        "queues",
        "rx_waiting",
        "queues that are drained without delivery",
    ),
];

macro_rules! declare {
    ($( $kind:ident = $number:literal, $name:ident: $stats:ident => $snapshot:ident,
        $mode:ident $( by $claim:ident -> $slot:ident )?,
        $entries:expr, $told:expr, $order:expr, $help:literal; )*) => {
        /// What the entries of a section are. The value is the `kind` in the section table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum SectionKind {
            $( #[doc = $help] $kind = $number, )*
        }

        /// Every section, in the order of the file.
        pub const SECTIONS: &[SectionInfo] = &[
            $( SectionInfo {
                kind: SectionKind::$kind,
                name: stringify!($name),
                help: $help,
                fields: crate::schema::$stats::FIELDS,
            }, )*
        ];
    };
}

with_sections!(declare);

impl SectionKind {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        let mut sections = SECTIONS.iter();
        sections
            .find(|section| section.kind == self)
            .map_or("", |section| section.name)
    }
}
