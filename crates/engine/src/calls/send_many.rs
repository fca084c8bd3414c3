//! `sendmmsg(2)`, message by message.

use libc::{c_int, c_uint};
use links::doorbell::Follows;
use sys::Errno;

/// More messages the kernel takes of no call (`UIO_MAXIOV`).
pub const MESSAGES_MAX: c_uint = 1024;

/// A `sendmmsg(2)` on its way. An error behind the first message ends it without being told.
#[derive(Debug)]
pub struct SendMany {
    count: c_uint,
    sent: c_uint,
    error: Option<Errno>,
}

impl SendMany {
    /// Of `count` messages, or as many as the kernel would take.
    #[inline]
    pub fn begin(count: c_uint) -> Self {
        Self {
            count: count.min(MESSAGES_MAX),
            sent: 0,
            error: None,
        }
    }

    /// The number of the next message to send, and what follows it.
    #[inline]
    pub fn next(&self) -> Option<(usize, Follows)> {
        if self.sent == self.count || self.error.is_some() {
            return None;
        }
        let follows = match self.sent + 1 < self.count {
            true => Follows::Message,
            false => Follows::Unknown,
        };
        Some((self.sent as usize, follows))
    }

    /// The message is sent.
    #[inline]
    pub fn sent(&mut self) {
        self.sent += 1;
    }

    /// Sending the message has failed.
    #[cold]
    pub fn failed(&mut self, error: Errno) {
        self.error = Some(error);
    }

    /// The call's result.
    #[inline]
    pub fn end(self) -> Result<c_int, Errno> {
        match self.error {
            Some(error) if self.sent == 0 => Err(error),
            _ => Ok(self.sent as c_int),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends until the message of number `bad`.
    fn run(count: c_uint, bad: usize) -> (Vec<Follows>, Result<c_int, Errno>) {
        let mut many = SendMany::begin(count);
        let mut follows = Vec::new();
        while let Some((index, next)) = many.next() {
            assert_eq!(index, follows.len());
            follows.push(next);
            match index == bad {
                true => many.failed(Errno(libc::EMSGSIZE)),
                false => many.sent(),
            }
        }
        (follows, many.end())
    }

    #[test]
    fn each_message_is_told_what_follows_it() {
        let (follows, result) = run(3, usize::MAX);
        assert_eq!(
            follows,
            [Follows::Message, Follows::Message, Follows::Unknown]
        );
        assert_eq!(result, Ok(3));
        assert_eq!(run(1, usize::MAX), (vec![Follows::Unknown], Ok(1)));
        assert_eq!(run(0, usize::MAX), (Vec::new(), Ok(0)));
    }

    #[test]
    fn an_error_is_told_of_the_first_message_only() {
        assert_eq!(run(3, 0).1, Err(Errno(libc::EMSGSIZE)));
        let (follows, result) = run(3, 1);
        assert_eq!((follows.len(), result), (2, Ok(1)));
    }

    #[test]
    fn a_call_takes_no_more_than_the_kernel_would() {
        let (follows, result) = run(5000, usize::MAX);
        assert_eq!((follows.len(), result), (1024, Ok(1024)));
        assert_eq!(follows.last(), Some(&Follows::Unknown));
    }
}
