//! Segments of a stream as one packet, which the card cuts.

use std::sync::Arc;

use dev_core::{Frame, FramePool, Segmented, Segmenter};

use crate::mlx5::{HEADERS_MAX, PARTS_MAX};
use crate::send::{SendQueue, queue_of};
use crate::tag::TAG_BYTES;
use crate::work::Place;

/// Sends by the queue pairs of the first ring.
#[derive(Debug)]
pub struct VerbsSegmenter {
    queues: Arc<[SendQueue]>,
    pool: &'static FramePool,
}

impl VerbsSegmenter {
    /// `None`: a device does not cut.
    pub(crate) fn new(queues: &Arc<[SendQueue]>, pool: &'static FramePool) -> Option<Self> {
        let cut = queues.iter().all(SendQueue::cuts);
        cut.then(|| Self {
            queues: Arc::clone(queues),
            pool,
        })
    }

    /// Copies a payload into frames. Gives them all back if there are too few, or it is too long.
    fn fill<'a>(
        &self,
        queue: &SendQueue,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Frames, Segmented> {
        let mut frames = Frames {
            frames: [const { None }; PARTS_MAX],
            count: 0,
            len: 0,
        };
        let room = usize::from(self.pool.frame_bytes());
        let mut used = room;
        for mut part in parts {
            while !part.is_empty() {
                if used == room {
                    let frame = match frames.count < PARTS_MAX {
                        true => queue.free_frame(self.pool).ok_or(Segmented::Full),
                        false => Err(Segmented::Refused(libc::EMSGSIZE)),
                    };
                    match frame {
                        Ok(frame) => frames.push(frame),
                        Err(outcome) => {
                            frames.give_back(self.pool);
                            return Err(outcome);
                        }
                    }
                    used = 0;
                }
                let (now, later) = part.split_at(part.len().min(room - used));
                used = frames.append(self.pool, used, now);
                part = later;
            }
        }
        Ok(frames)
    }
}

/// Frames with a payload, in its order.
#[derive(Debug)]
struct Frames {
    frames: [Option<Frame>; PARTS_MAX],
    count: usize,
    len: usize,
}

impl Frames {
    fn push(&mut self, frame: Frame) {
        self.frames[self.count] = Some(frame);
        self.count += 1;
    }

    /// Writes behind the first `used` octets of the last frame. Returns how many it has then.
    fn append(&mut self, pool: &FramePool, used: usize, octets: &[u8]) -> usize {
        let end = used + octets.len();
        if let Some(frame) = self.frames[..self.count]
            .last_mut()
            .and_then(Option::as_mut)
        {
            pool.chunk_mut(frame)[used..end].copy_from_slice(octets);
            pool.set_len(frame, end);
            self.len += octets.len();
        }
        end
    }

    fn give_back(self, pool: &FramePool) {
        let frames = self.frames.into_iter().flatten();
        frames.for_each(|frame| pool.give(frame));
    }

    fn release(self, pool: &FramePool) -> ([Place; PARTS_MAX], usize) {
        let mut places = [Place { offset: 0, len: 0 }; PARTS_MAX];
        for (place, frame) in places.iter_mut().zip(self.frames.into_iter().flatten()) {
            place.len = frame.len() as u32;
            place.offset = pool.release_to_device(frame);
        }
        (places, self.count)
    }
}

impl Segmenter for VerbsSegmenter {
    fn send<'a>(
        &self,
        headers: &[u8],
        parts: impl Iterator<Item = &'a [u8]>,
        segment_len: u16,
    ) -> Segmented {
        if headers.len() + TAG_BYTES > HEADERS_MAX {
            return Segmented::Refused(libc::EMSGSIZE);
        }
        let queue = queue_of(&self.queues, headers);
        if !queue.make_room_for_whole() {
            return Segmented::Full;
        }
        let frames = match self.fill(queue, parts) {
            Ok(frames) => frames,
            Err(outcome) => return outcome,
        };
        let segment_len = (frames.len > usize::from(segment_len)).then_some(segment_len);
        let (places, count) = frames.release(self.pool);
        if queue.send_whole(headers, &places[..count], segment_len) {
            return Segmented::Sent;
        }
        for place in &places[..count] {
            if let Some(frame) = self.pool.reclaim(place.offset, 0) {
                self.pool.give(frame);
            }
        }
        Segmented::Full
    }
}
