//! What a device notes of the frames that it receives, and its clock.

use crate::pool::{Frame, FramePool, IN_FRONT};

/// What is noted of each frame when it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Noted {
    /// Nothing.
    #[default]
    Nothing,
    /// The time.
    Time,
    /// That, and the time by the device's own clock.
    DeviceTime,
}

/// So many bytes in front of a frame hold at most what is noted of it: the time by the device's
/// clock, the time, and a mark that tells both from other bytes.
pub const NOTED_BYTES: u16 = 24;
const _: () = assert!(IN_FRONT == 16, "the time and the mark");

/// The time is in front of this.
pub const MARK: i32 = 0x7651_4d41;
/// The same, and the time by the device's clock is in front of that.
pub const MARK_WITH_DEVICE_TIME: i32 = 0x7651_4d42;

/// What is noted of a frame, in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedTimes {
    /// When it came, in nanoseconds of `CLOCK_MONOTONIC`.
    pub arrived_nsec: u64,
    /// The same by the device's clock, if that knows.
    pub device_nsec: Option<u64>,
}

impl NotedTimes {
    /// `bytes`: those just in front of a packet, at most [`NOTED_BYTES`] of them. `None`: they are
    /// something else.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (rest, mark) = bytes.split_last_chunk::<8>()?;
        let (rest, arrived) = rest.split_last_chunk::<8>()?;
        let device = match i64::from_ne_bytes(*mark) {
            it if it == i64::from(MARK) => None,
            it if it == i64::from(MARK_WITH_DEVICE_TIME) => rest.last_chunk::<8>(),
            _ => return None,
        };
        Some(Self {
            arrived_nsec: u64::from_ne_bytes(*arrived),
            device_nsec: device
                .map(|it| u64::from_ne_bytes(*it))
                .filter(|it| *it != 0),
        })
    }

    /// What is noted of a frame. `None`: nothing, or a part that had no room.
    pub fn of(pool: &FramePool, frame: &Frame) -> Option<Self> {
        let whole = pool.in_front::<{ NOTED_BYTES as usize }>(frame);
        match whole {
            Some(bytes) => Self::read(&bytes),
            None => Self::read(&pool.in_front::<{ IN_FRONT as usize }>(frame)?),
        }
    }

    /// Notes both times, if there is room in front of the frame.
    pub fn write(pool: &FramePool, frame: &mut Frame, arrived_nsec: u64, device_nsec: u64) {
        let mut bytes = [0; NOTED_BYTES as usize];
        let mark = i64::from(MARK_WITH_DEVICE_TIME).cast_unsigned();
        let words = [device_nsec, arrived_nsec, mark];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        pool.set_in_front(frame, bytes);
    }
}

/// What two clocks show at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSample {
    /// The device's, in nanoseconds.
    pub device_nsec: u64,
    /// The system's, in nanoseconds since 1970.
    pub system_nsec: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::ThreadMode;

    const WHOLE: usize = NOTED_BYTES as usize;

    fn front(device: u64, arrived: u64, mark: i32) -> [u8; WHOLE] {
        let words = [device, arrived, i64::from(mark).cast_unsigned()];
        let mut bytes = [0; WHOLE];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn times_are_told_from_other_bytes() {
        let known = |device_nsec| {
            Some(NotedTimes {
                arrived_nsec: 7,
                device_nsec,
            })
        };
        for (bytes, expected) in [
            (front(5, 7, MARK), known(None)),
            (front(5, 7, MARK_WITH_DEVICE_TIME), known(Some(5))),
            (front(0, 7, MARK_WITH_DEVICE_TIME), known(None)),
            (front(5, 7, 0), None),
        ] {
            assert_eq!(NotedTimes::read(&bytes), expected);
        }
        let short = &front(5, 7, MARK_WITH_DEVICE_TIME)[8..];
        assert_eq!(NotedTimes::read(short), known(None), "there was no room");
        assert_eq!(NotedTimes::read(&short[1..]), None);
    }

    #[test]
    fn what_is_written_is_read_and_needs_room() {
        let pool = FramePool::new(16, 2048, ThreadMode::SpinLock).unwrap();
        let address = pool.release_to_device(pool.take().unwrap());
        let mut frame = pool.reclaim(address + 64, 100).unwrap();
        NotedTimes::write(&pool, &mut frame, 7, 5);
        let expected = NotedTimes {
            arrived_nsec: 7,
            device_nsec: Some(5),
        };
        assert_eq!(NotedTimes::of(&pool, &frame), Some(expected));
        let mut first = pool.reclaim(address, 100).unwrap();
        NotedTimes::write(&pool, &mut first, 7, 5);
        assert_eq!(NotedTimes::of(&pool, &first), None);
    }
}
