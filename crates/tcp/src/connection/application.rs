//! What the application does with an open connection: RFC 9293 §3.10.2 and §3.10.3, with the
//! results of Linux.

use super::Connection;
use crate::send::queue::{CHUNK_MAX, CHUNK_MIN};
use crate::{Error, Instant, Payload, ReadError, SeqNumber, State, UrgentError, WriteError};

impl<P: Payload> Connection<P> {
    /// Appends to the stream; returns how many octets had room.
    ///
    /// # Errors
    /// See [`WriteError`]. Nothing was written.
    #[inline]
    pub fn write(&mut self, now: Instant, data: &[u8]) -> Result<usize, WriteError> {
        self.check_writable()?;
        let room = self.send_room();
        let taken = data.get(..room).unwrap_or(data);
        self.sender.is_refused = taken.len() < data.len();
        self.sender.is_blocked |= self.sender.is_refused;
        if taken.is_empty() && !data.is_empty() {
            return Err(WriteError::WouldBlock);
        }
        self.measure_write(now);
        self.sender.queue.push(taken);
        self.sender.is_more = false;
        self.note_send_room();
        Ok(taken.len())
    }

    /// As [`write`](Self::write), and more will follow: a segment that is not full waits for it
    /// (`MSG_MORE`).
    ///
    /// # Errors
    /// See [`WriteError`]. Nothing was written.
    pub fn write_more(&mut self, now: Instant, data: &[u8]) -> Result<usize, WriteError> {
        let count = self.write(now, data)?;
        self.sender.is_more = true;
        Ok(count)
    }

    /// How many octets a write would take now: at least one.
    ///
    /// # Errors
    /// As of a [`write`](Self::write) now.
    pub fn room_to_write(&mut self) -> Result<usize, WriteError> {
        self.check_writable()?;
        let room = self.send_room();
        if room == 0 {
            self.sender.is_refused = true;
            self.sender.is_blocked = true;
            return Err(WriteError::WouldBlock);
        }
        Ok(room)
    }

    /// As [`write_chunk`](Self::write_chunk) of all that is in `chunk`, with or without room: for
    /// what cannot stay where it came from, and is not more than there was room for a moment
    /// before.
    ///
    /// # Errors
    /// See [`WriteError`], but for [`WriteError::WouldBlock`]. Nothing was written.
    pub fn write_whole(
        &mut self,
        now: Instant,
        chunk: &mut Vec<u8>,
        is_more: bool,
    ) -> Result<usize, WriteError> {
        self.check_writable()?;
        self.measure_write(now);
        let len = chunk.len();
        if (CHUNK_MIN..=CHUNK_MAX).contains(&len) {
            self.sender.queue.push_chunk(chunk);
        } else {
            self.sender.queue.push(chunk);
        }
        self.sender.is_more = is_more;
        self.note_send_room();
        Ok(len)
    }

    /// Memory of the connection's that is not in use, or none, to be filled for
    /// [`write_chunk`](Self::write_chunk).
    pub fn take_spare_chunk(&mut self) -> Vec<u8> {
        self.sender.queue.take_spare()
    }

    /// As [`write`](Self::write) of what is in `chunk`, or [`write_more`](Self::write_more). A long
    /// one that has room becomes the connection's without being copied, and `chunk` empty memory,
    /// or none; else `chunk` stays as it is.
    ///
    /// # Errors
    /// See [`WriteError`]. Nothing was written.
    pub fn write_chunk(
        &mut self,
        now: Instant,
        chunk: &mut Vec<u8>,
        is_more: bool,
    ) -> Result<usize, WriteError> {
        let len = chunk.len();
        let count = if (CHUNK_MIN..=CHUNK_MAX).contains(&len) && len <= self.send_room() {
            self.check_writable()?;
            self.sender.is_refused = false;
            self.measure_write(now);
            self.sender.queue.push_chunk(chunk);
            self.note_send_room();
            len
        } else {
            self.write(now, chunk)?
        };
        self.sender.is_more = is_more;
        Ok(count)
    }

    /// As [`write`](Self::write), and the last octet taken is urgent (`MSG_OOB`).
    ///
    /// # Errors
    /// See [`WriteError`]. Nothing was written.
    pub fn write_urgent(&mut self, now: Instant, data: &[u8]) -> Result<usize, WriteError> {
        let count = self.write(now, data)?;
        if count > 0 {
            self.sender.mark_urgent();
        }
        Ok(count)
    }

    /// What was written so far and what will be written do not share a segment (`MSG_EOR`, with the
    /// write before this). Without effect on what is sent already.
    pub fn end_record(&mut self) {
        if self.sender.unsent() > 0 {
            self.sender.mark_record();
        }
    }

    fn check_writable(&mut self) -> Result<(), WriteError> {
        if let Some(error) = self.error.take() {
            return Err(WriteError::Failed(error));
        }
        if self.sender.is_fin_queued {
            return Err(WriteError::BrokenPipe);
        }
        match self.state {
            State::Established | State::CloseWait => Ok(()),
            State::SynSent | State::SynReceived => self.check_early_write(),
            State::Closed
            | State::FinWait1
            | State::FinWait2
            | State::Closing
            | State::LastAck
            | State::TimeWait => Err(WriteError::BrokenPipe),
        }
    }

    /// Moves received octets into `buffer`; returns how many, 0 at the end of the stream (and for
    /// an empty `buffer`).
    ///
    /// Stops before urgent data, as Linux does.
    ///
    /// # Errors
    /// See [`ReadError`]. Nothing was read.
    #[inline]
    pub fn read(&mut self, now: Instant, buffer: &mut [u8]) -> Result<usize, ReadError> {
        if buffer.is_empty() {
            return Ok(0);
        }
        self.skip_urgent_octet();
        let most = self.len_to_mark();
        let limited = match buffer.get_mut(..most) {
            Some(limited) => limited,
            None => buffer,
        };
        let count = self.receiver.queue.read(limited);
        if count == 0 {
            return self.nothing_to_read().map(|()| 0);
        }
        self.after_read(now);
        Ok(count)
    }

    /// Takes the next received data as it is in the device's memory; `None` at the end of the
    /// stream.
    ///
    /// Urgent data is not looked for: with `SO_OOBINLINE` off and an urgent octet about, use
    /// [`read`](Self::read).
    ///
    /// # Errors
    /// See [`ReadError`]. Nothing was read.
    pub fn read_payload(&mut self, now: Instant) -> Result<Option<P>, ReadError> {
        match self.receiver.queue.pop() {
            Some(payload) => {
                self.after_read(now);
                Ok(Some(payload))
            }
            None => self.nothing_to_read().map(|()| None),
        }
    }

    /// Forgets up to `count` received octets, which were used by way of [`peek`](Self::peek)
    /// (`MSG_TRUNC`); returns how many.
    pub fn skip(&mut self, now: Instant, count: usize) -> usize {
        self.skip_urgent_octet();
        let count = count.min(self.receiver.queue.len()).min(self.len_to_mark());
        self.receiver.queue.skip(count);
        if count > 0 {
            self.after_read(now);
        }
        count
    }

    /// What one [`read`](Self::read) could give, in pieces; nothing is taken.
    pub fn peek(&self) -> impl Iterator<Item = &[u8]> {
        let mut skipped = usize::from(self.is_at_urgent_octet());
        let mut left = self.len_to_mark();
        self.receiver.queue.iter().filter_map(move |piece| {
            let rest = piece.get(skipped..).unwrap_or_default();
            skipped = skipped.saturating_sub(piece.len());
            let part = rest.get(..left).unwrap_or(rest);
            left = left.saturating_sub(part.len());
            (!part.is_empty()).then_some(part)
        })
    }

    /// `tcp_recvmsg_locked` with an empty queue: the peer's FIN, the error, other ends of the
    /// stream.
    pub(super) fn nothing_to_read(&mut self) -> Result<(), ReadError> {
        if self.receiver.has_received_fin() {
            return Ok(());
        }
        if let Some(error) = self.error.take() {
            return Err(ReadError::Failed(error));
        }
        if self.is_at_end() {
            Ok(())
        } else {
            Err(ReadError::WouldBlock)
        }
    }

    /// Nothing will be read any more, beside what is queued.
    fn is_at_end(&self) -> bool {
        self.receiver.has_received_fin() || self.is_read_shut || self.state == State::Closed
    }

    /// Auto-tuning, and an acknowledgement if the peer should hear of the room
    /// (`tcp_cleanup_rbuf`).
    #[inline]
    pub(super) fn after_read(&mut self, now: Instant) {
        let read_nxt = self.receiver.read_nxt();
        self.receiver.urgent.on_read(read_nxt);
        if !self.state.can_receive() {
            return;
        }
        self.receiver.on_read(now, read_nxt, &self.config);
        let unacknowledged = self.receiver.window.unacknowledged(self.receiver.rcv_nxt);
        let is_empty = self.receiver.queue.len() == 0;
        if self
            .receiver
            .acks
            .wants_ack_after_read(unacknowledged, is_empty)
            || self.receiver.should_update_window()
        {
            self.receiver.acks.owe_one();
        }
    }

    /// Takes the urgent octet (`MSG_OOB`).
    ///
    /// # Errors
    /// See [`UrgentError`].
    pub fn read_urgent(&mut self) -> Result<u8, UrgentError> {
        let octet = self.peek_urgent()?;
        self.receiver.urgent.take();
        Ok(octet)
    }

    /// The urgent octet, which stays there (`MSG_OOB` with `MSG_PEEK`).
    ///
    /// # Errors
    /// See [`UrgentError`].
    pub fn peek_urgent(&self) -> Result<u8, UrgentError> {
        if self.cold.options.is_oob_inline {
            return Err(UrgentError::None);
        }
        match self.receiver.urgent.octet() {
            Err(UrgentError::NotReceived)
                if self.receiver.has_received_fin() || self.is_read_shut =>
            {
                Err(UrgentError::End)
            }
            octet => octet,
        }
    }

    /// Whether the next octet to read is the urgent mark (`SIOCATMARK`).
    pub fn is_at_mark(&self) -> bool {
        self.receiver.urgent.mark() == Some(self.receiver.read_nxt())
    }

    /// An urgent octet has arrived and was not read (`POLLPRI`).
    pub fn has_urgent(&self) -> bool {
        self.receiver.urgent.is_received()
    }

    /// Out of the stream: at the mark, reading goes on behind it.
    fn skip_urgent_octet(&mut self) {
        if self.is_at_urgent_octet() && self.receiver.queue.len() > 0 {
            self.receiver.queue.skip(1);
            self.receiver.urgent.on_read(self.receiver.read_nxt());
        }
    }

    /// The next octet is the urgent one, which a read leaves out.
    #[inline]
    pub(super) fn is_at_urgent_octet(&self) -> bool {
        self.is_at_mark() && !self.cold.options.is_oob_inline
    }

    /// A new urgent octet was announced: the old one, if the application is there, does not become
    /// part of the stream (`tcp_check_urg`).
    pub(super) fn forget_urgent_octet(&mut self) {
        if self.receiver.queue.len() > 0 {
            self.receiver.queue.skip(1);
        }
    }

    /// Octets before the urgent one: a read stops there, so that the application notices. [`usize::MAX`]: none is ahead.
    #[inline]
    pub fn len_to_mark(&self) -> usize {
        let distance = self
            .receiver
            .urgent
            .mark()
            .map(|mark| mark.distance_from(self.receiver.read_nxt()));
        match distance {
            // At the mark with `SO_OOBINLINE`: the octet is read as any other.
            Some(distance @ 1..) => usize::try_from(distance).unwrap_or(usize::MAX),
            Some(_) | None => usize::MAX,
        }
    }

    /// A read would not block (`POLLIN`): `SO_RCVLOWAT` octets beside an urgent one, the end of the
    /// stream, or an error.
    #[inline]
    pub fn is_readable(&self) -> bool {
        self.has_readable() || self.is_at_end()
    }

    /// `tcp_epollin_ready`: enough was received, or there is no room for more.
    #[inline]
    pub(super) fn has_readable(&self) -> bool {
        let receiver = &self.receiver;
        let least = receiver.queue.low_water.max(1) as usize;
        let queued = receiver.queue.len();
        if receiver.urgent.mark().is_none() && least == 1 {
            return queued > 0;
        }
        let queued = queued.saturating_sub(usize::from(self.is_at_urgent_octet()));
        queued >= least || queued > 0 && receiver.is_full()
    }

    /// A write is worth while (`POLLOUT`), by Linux's measure: a third of the buffer is free, and
    /// fewer than half of `TCP_NOTSENT_LOWAT` octets wait. A write may have room earlier. True as
    /// well if it would fail at once.
    #[inline]
    pub fn is_writable(&self) -> bool {
        match self.state {
            State::SynSent | State::SynReceived => self.is_early_writable(),
            State::Established | State::CloseWait if !self.sender.is_fin_queued => {
                self.has_send_room()
            }
            _ => true,
        }
    }

    /// Room may be less than before: who waits for it, without having been refused any (`POLLOUT`),
    /// is told when it comes.
    pub(super) fn note_send_room(&mut self) {
        self.sender.is_blocked |= !self.has_send_room();
    }

    /// `__sk_stream_is_writeable` with `wake`
    #[inline]
    pub(super) fn has_send_room(&self) -> bool {
        let queued = self.sender.queue.len();
        let limit = self.cold.options.send_buffer as usize;
        limit.saturating_sub(queued) >= queued / 2
            && self.sender.unsent().saturating_mul(2) < self.cold.options.not_sent_low_water
    }

    #[inline]
    fn send_room(&self) -> usize {
        if self.sender.unsent() >= self.cold.options.not_sent_low_water {
            return 0;
        }
        (self.cold.options.send_buffer as usize).saturating_sub(self.sender.queue.len())
    }

    /// The buffer of an application that did not choose one follows the congestion window
    /// (`tcp_sndbuf_expand`): twice of it, since as much is acknowledged while the next is sent.
    ///
    /// Linux has that window in segments, whatever their length, and makes room for whole ones
    /// (three times of it with BBR). Services that drop messages when a socket takes no more (MQTT)
    /// count on it. `in_flight`: segments, before the acknowledgement.
    pub(super) fn grow_send_buffer(&mut self, in_flight: u32) {
        if self.cold.options.is_send_buffer_locked {
            return;
        }
        let wanted = self
            .cold
            .recovery
            .congestion
            .cwnd()
            .saturating_mul(4)
            .max(in_flight.saturating_mul(3 * ROOM_OF_SEGMENT))
            .min(self.config.send_buffer_max);
        self.cold.options.send_buffer = self.cold.options.send_buffer.max(wanted);
    }

    /// Octets that can be read before an urgent one (`SIOCINQ`).
    pub fn readable_len(&self) -> usize {
        let queued = self.receiver.queue.len();
        if self.is_at_urgent_octet() {
            0
        } else if self.cold.options.is_oob_inline {
            queued
        } else {
            queued.min(self.len_to_mark())
        }
    }

    /// The sequence number of the next octet that is to be read.
    pub fn read_next(&self) -> SeqNumber {
        self.receiver.read_nxt()
    }

    /// What `TCP_INQ` tells: octets received and not read, urgent ones too, and one more if the
    /// peer's FIN has come (`tcp_inq_hint`).
    pub fn unread_len(&self) -> usize {
        let fin = usize::from(self.receiver.has_received_fin());
        self.receiver.queue.len().saturating_add(fin)
    }

    /// Octets written but not acknowledged (`SIOCOUTQ`).
    pub fn unacknowledged_len(&self) -> usize {
        self.sender.queue.len()
    }

    /// Octets written but never sent (`SIOCOUTQNSD`).
    pub fn unsent_len(&self) -> usize {
        self.sender.unsent() as usize
    }

    /// Fetches and clears the error (`SO_ERROR`).
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take().or_else(|| self.cold.soft_error.take())
    }

    /// Whether there is an error to fetch (`POLLERR`).
    pub fn has_error(&self) -> bool {
        self.error.is_some()
    }
}

/// What Linux reserves for a segment on Ethernet: the next power of two, and its `sk_buff`.
const ROOM_OF_SEGMENT: u32 = 2048 + 256;
