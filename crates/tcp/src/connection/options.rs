//! Options of a live connection.

use core::time::Duration;

use super::Connection;
use crate::timers::Timer;
use crate::{Event, Instant, OptionError, Options, Payload, SocketOption};

impl<P: Payload> Connection<P> {
    /// Changes an option.
    ///
    /// # Errors
    /// The value is outside the option's range.
    pub fn set_option(&mut self, now: Instant, option: SocketOption) -> Result<(), OptionError> {
        let had_keep_alive = self.cold.options.is_keep_alive;
        self.cold.options.set(option)?;
        match option {
            // tcp(7): "setting this option forces an explicit flush of pending output, even if
            // TCP_CORK is currently set".
            SocketOption::NoDelay(true) => self.sender.flush(),
            SocketOption::Cork(false) => self.sender.is_more = false,
            SocketOption::QuickAck(on) => self.receiver.acks.set_quick(on, &self.config),
            SocketOption::KeepAlive(true) if had_keep_alive => {}
            SocketOption::KeepAlive(_) => self.restart_keep_alive(now),
            // What has passed counts (Linux's `tcp_sock_set_keepidle_locked`).
            SocketOption::KeepIdle(_) => self.restart_keep_alive(self.last_ack_at),
            SocketOption::WindowClamp(_) => {
                self.receiver.window.follow_user_clamp(&self.cold.options);
            }
            SocketOption::ReceiveBuffer(_) => {
                self.receiver.window.lock_buffer(&self.cold.options);
            }
            SocketOption::ReceiveLowWater(_) => {
                self.receiver.queue.low_water = self.cold.options.receive_low_water;
                if self.has_readable() {
                    self.events.raise(Event::Readable);
                }
            }
            SocketOption::Congestion(algorithm)
                if algorithm != self.cold.recovery.congestion.algorithm() =>
            {
                self.cold.recovery.set_algorithm(algorithm);
                self.start_pacing();
            }
            SocketOption::MaxPacingRate(_) => {
                self.start_pacing();
                self.timers.stop(Timer::Pacing);
            }
            SocketOption::SendBuffer(_) | SocketOption::NotSentLowWater(_) => {
                self.note_send_room();
            }
            SocketOption::Congestion(_)
            | SocketOption::NoDelay(false)
            | SocketOption::Cork(true)
            | SocketOption::KeepInterval(_)
            | SocketOption::KeepCount(_)
            | SocketOption::UserTimeout(_)
            | SocketOption::MaxSegment(_)
            | SocketOption::SynCount(_)
            | SocketOption::Linger2(_)
            | SocketOption::OobInline(false)
            | SocketOption::ReportErrors(_)
            | SocketOption::ReportErrorsOfIpv6(_) => {}
            // The urgent octet may be all that there is.
            SocketOption::OobInline(true) => {
                if self.has_readable() {
                    self.events.raise(Event::Readable);
                }
            }
        }
        Ok(())
    }

    /// The options as they are.
    pub fn options(&self) -> &Options {
        &self.cold.options
    }

    /// The receive buffer in use, in octets.
    pub fn receive_buffer(&self) -> u32 {
        self.receiver.window.buffer()
    }

    /// `TCP_USER_TIMEOUT`, if set.
    pub(super) fn user_timeout(&self) -> Option<Duration> {
        match self.cold.options.user_timeout_ms {
            0 => None,
            millis => Some(Duration::from_millis(u64::from(millis))),
        }
    }
}
