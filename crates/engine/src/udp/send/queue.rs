//! A message written into a ring: as one datagram, or as several.

use links::interface::datagrams::datagrams;
use links::interface::sending::{Sender, Transmitted};
use links::reason::Reason;
use wire::UdpTemplate;

use crate::udp::destination::{Destination, Way};
use crate::udp::send_options::SendControl;
use crate::udp::socket::UdpStack;

/// What became of a message on its way to the device.
pub(super) enum Queued<S: UdpStack> {
    /// By this sender, as so many datagrams.
    By(Sender<S>, usize, Transmitted),
    /// It needs fragmentation, or is one that the kernel has to judge.
    TooLarge,
    /// Its way is the kernel's.
    Kernel(Reason),
}

impl<S: UdpStack> Destination<S> {
    /// Writes a payload of so many bytes into a ring.
    #[inline(always)]
    pub(super) fn queue<'payload>(
        &self,
        identification: u16,
        (len, parts): (usize, impl Iterator<Item = &'payload [u8]>),
        control: Option<SendControl>,
    ) -> Queued<S> {
        let (sender, template, payload_len_max) = match &self.way {
            Way::Link {
                sender,
                template,
                payload_len_max,
                ..
            } => (sender, template, *payload_len_max),
            Way::Kernel(reason) => return Queued::Kernel(*reason),
        };
        if len <= payload_len_max && control.is_none() {
            let sent = sender.transmit(template, identification, len, parts);
            return Queued::By(**sender, 1, sent);
        }
        let large = Large {
            len,
            segment_len: control.and_then(|control| control.segment_len),
            identification,
        };
        match large.transmit(&self.way, parts) {
            Some((sent, datagrams)) => Queued::By(**sender, datagrams, sent),
            None => {
                self.expire();
                Queued::TooLarge
            }
        }
    }
}

/// A message that is larger than a datagram may be, or has control data.
#[derive(Clone, Copy, Debug)]
struct Large {
    len: usize,
    /// What its control data says of that.
    segment_len: Option<u16>,
    identification: u16,
}

/// As many datagrams as every kernel with `UDP_SEGMENT` makes of a message; later ones make twice
/// as many.
const SEGMENTS_MAX: usize = 64;

impl Large {
    /// Sends it, as how many datagrams. `None`: it needs fragmentation, or is one that the kernel
    /// has to judge.
    #[cold]
    fn transmit<'payload, S: UdpStack>(
        self,
        way: &Way<S>,
        parts: impl Iterator<Item = &'payload [u8]>,
    ) -> Option<(Transmitted, usize)> {
        let Way::Link {
            sender,
            template,
            packet_payload_max,
            segment_len: of_socket,
            may_fragment_large,
            ..
        } = way
        else {
            return None;
        };
        let Self {
            len,
            segment_len,
            identification,
        } = self;
        let segment_len = usize::from(segment_len.unwrap_or(*of_socket));
        let segment_len = match segment_len {
            0 => len,
            segment_len => segment_len.min(len),
        };
        let is_good = segment_len <= *packet_payload_max
            && len <= segment_len * SEGMENTS_MAX
            && len <= template.max_payload_len();
        if !is_good {
            return None;
        }
        let fragmentable;
        let mut template: &UdpTemplate = template;
        if *may_fragment_large && len > *packet_payload_max {
            fragmentable = template.without_dont_fragment();
            template = &fragmentable;
        }
        let sent = sender.transmit_segments(template, identification, len, segment_len, parts);
        Some((sent, datagrams(len, segment_len)))
    }
}
