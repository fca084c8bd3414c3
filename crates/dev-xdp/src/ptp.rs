//! The clock of a device (`linux/ptp_clock.h`), compared with the system's.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use descriptors::OwnDescriptor;
use dev_core::ClockSample;

/// How often it is read for one comparison: the reading that took least time counts.
const READINGS: usize = 5;
/// `PTP_MAX_SAMPLES`
const READINGS_MAX: usize = 25;

/// `struct ptp_clock_time`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Time {
    seconds: i64,
    nsec: u32,
    reserved: u32,
}

/// `struct ptp_sys_offset_extended`: of each reading the system's clock, the device's, and the
/// system's again.
#[repr(C)]
struct Extended {
    readings: u32,
    reserved: [u32; 3],
    times: [[Time; 3]; READINGS_MAX],
}

/// `struct ptp_sys_offset`: the system's clock, the device's, the system's, and so on.
#[repr(C)]
struct Plain {
    readings: u32,
    reserved: [u32; 3],
    times: [Time; 2 * READINGS_MAX + 1],
}

const PTP_SYS_OFFSET: u32 = libc::_IOW::<Plain>(b'=' as u32, 5) as u32;
const PTP_SYS_OFFSET_EXTENDED: u32 = libc::_IOWR::<Extended>(b'=' as u32, 9) as u32;
const _: () = assert!(PTP_SYS_OFFSET == 0x4340_3d05 && PTP_SYS_OFFSET_EXTENDED == 0xc4c0_3d09);

/// An open clock.
#[derive(Debug)]
pub(crate) struct PtpClock(OwnDescriptor);

impl PtpClock {
    /// `/dev/ptpN`
    pub(crate) fn open(number: u32) -> io::Result<Self> {
        let file = File::open(format!("/dev/ptp{number}"))?;
        Ok(Self(OwnDescriptor::new(file.into())))
    }

    /// What it and the system's clock show now.
    pub(crate) fn sample(&self) -> io::Result<ClockSample> {
        let readings = extended(&self.0).or_else(|_| plain(&self.0))?;
        best(&readings).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn extended(clock: &OwnDescriptor) -> io::Result<Vec<[Time; 3]>> {
    let mut asked = Extended {
        readings: READINGS as u32,
        reserved: [0; 3],
        times: [[Time::default(); 3]; READINGS_MAX],
    };
    // SAFETY: the struct is the request's, and lives until the call returns.
    match unsafe {
        libc::ioctl(
            clock.as_raw_fd(),
            PTP_SYS_OFFSET_EXTENDED as _,
            &raw mut asked,
        )
    } {
        0 => Ok(asked.times[..READINGS].to_vec()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn plain(clock: &OwnDescriptor) -> io::Result<Vec<[Time; 3]>> {
    let mut asked = Plain {
        readings: READINGS as u32,
        reserved: [0; 3],
        times: [Time::default(); 2 * READINGS_MAX + 1],
    };
    // SAFETY: as above.
    match unsafe { libc::ioctl(clock.as_raw_fd(), PTP_SYS_OFFSET as _, &raw mut asked) } {
        0 => {
            let starts = (0..2 * READINGS).step_by(2);
            let reading = |at: usize| [asked.times[at], asked.times[at + 1], asked.times[at + 2]];
            Ok(starts.map(reading).collect())
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// The reading during which the system's clock went on least.
fn best(readings: &[[Time; 3]]) -> Option<ClockSample> {
    let known = readings.iter().filter_map(|[before, device, after]| {
        let (before, after) = (nsec(*before)?, nsec(*after)?);
        let took = after.checked_sub(before)?;
        let sample = ClockSample {
            device_nsec: nsec(*device)?,
            system_nsec: before + took / 2,
        };
        Some((took, sample))
    });
    known
        .min_by_key(|(took, _)| *took)
        .map(|(_, sample)| sample)
}

/// `None`: before 1970, or later than there are numbers.
fn nsec(time: Time) -> Option<u64> {
    let seconds = u64::try_from(time.seconds).ok()?;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(time.nsec.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nsec: i64) -> Time {
        Time {
            seconds: nsec / 1_000_000_000,
            nsec: (nsec % 1_000_000_000) as u32,
            reserved: 0,
        }
    }

    #[test]
    fn the_quickest_reading_counts_and_what_is_no_reading_does_not() {
        let readings = [
            [at(5_000_000_000), at(100), at(5_000_000_900)],
            [at(5_000_001_000), at(2_000_000_300), at(5_000_001_200)],
            // The system's clock was set back.
            [at(5_000_002_000), at(500), at(4_000_000_000)],
        ];
        let expected = ClockSample {
            device_nsec: 2_000_000_300,
            system_nsec: 5_000_001_100,
        };
        assert_eq!(best(&readings), Some(expected));
        let broken = Time {
            seconds: -1,
            ..at(0)
        };
        assert_eq!(best(&[[at(1), broken, at(2)]]), None);
        let late = Time {
            seconds: i64::MAX,
            ..at(0)
        };
        assert_eq!(best(&[[late, at(1), late], [at(2), at(3), at(1)]]), None);
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn a_clock_that_is_not_there_is_an_error() {
        assert!(PtpClock::open(987_654).is_err());
    }
}
