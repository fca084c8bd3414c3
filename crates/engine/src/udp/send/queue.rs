//! A message written into a ring: as one datagram, or as several.

use std::borrow::Cow;

use links::interface::datagrams::{datagrams, packets};
use links::interface::sending::{Sender, Transmitted};
use links::reason::Reason;
use wire::UdpTemplate;

use crate::udp::destination::{Destination, Link, Way};
use crate::udp::send_options::SendControl;
use crate::udp::socket::UdpStack;

/// What became of a message on its way to the device.
pub(super) enum Queued<S: UdpStack> {
    /// By this sender, as so many datagrams.
    By(Sender<S>, usize, Transmitted),
    /// By this sender at its time, which the message may say: these packets.
    Paced(Sender<S>, Vec<Vec<u8>>, Option<u64>),
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
        let link = match &self.way {
            Way::Link(link) => link,
            Way::Paced(link) => return self.pace(link, identification, (len, parts), control),
            Way::Kernel(reason) => return Queued::Kernel(*reason),
        };
        let sender = *link.sender;
        if len <= link.payload_len_max && control.is_none() {
            let sent = sender.transmit(&link.template, identification, len, parts);
            return Queued::By(sender, 1, sent);
        }
        let large = Large {
            len,
            segment_len: control.and_then(|control| control.segment_len),
            identification,
        };
        if control.is_some_and(|control| control.at.is_some()) {
            // It has not said by which clock.
            return Queued::Kernel(Reason::Message);
        }
        match large.transmit(link, parts) {
            Some((sent, datagrams)) => Queued::By(sender, datagrams, sent),
            None => self.too_large(),
        }
    }

    /// Builds the packets of a message that has to wait for its time, perhaps.
    #[cold]
    fn pace<'payload>(
        &self,
        link: &Link<S>,
        identification: u16,
        (len, parts): (usize, impl Iterator<Item = &'payload [u8]>),
        control: Option<SendControl>,
    ) -> Queued<S> {
        let large = Large {
            len,
            segment_len: control.and_then(|control| control.segment_len),
            identification,
        };
        let Some((template, segment_len)) = large.shape(link) else {
            return self.too_large();
        };
        match packets(&template, identification, len, segment_len, parts) {
            Some(packets) => Queued::Paced(
                *link.sender,
                packets,
                control.and_then(|control| control.at),
            ),
            None => Queued::TooLarge,
        }
    }

    #[cold]
    fn too_large(&self) -> Queued<S> {
        self.expire();
        Queued::TooLarge
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
        link: &Link<S>,
        parts: impl Iterator<Item = &'payload [u8]>,
    ) -> Option<(Transmitted, usize)> {
        let (len, identification) = (self.len, self.identification);
        let (template, segment_len) = self.shape(link)?;
        let sender = &link.sender;
        let sent = sender.transmit_segments(&template, identification, len, segment_len, parts);
        Some((sent, datagrams(len, segment_len)))
    }

    /// Its headers, and how many bytes each datagram has of it.
    fn shape<S: UdpStack>(self, link: &Link<S>) -> Option<(Cow<'_, UdpTemplate>, usize)> {
        let Link {
            template,
            packet_payload_max,
            segment_len: of_socket,
            may_fragment_large,
            ..
        } = link;
        let Self {
            len, segment_len, ..
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
        let template = match *may_fragment_large && len > *packet_payload_max {
            true => Cow::Owned(template.without_dont_fragment()),
            false => Cow::Borrowed(&**template),
        };
        Some((template, segment_len))
    }
}
