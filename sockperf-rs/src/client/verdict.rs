//! Whether a test that ran to its end succeeded.

use crate::client::replies::Replies;
use crate::client::run::{End, Run, Sending};
use crate::error::Error;

/// Of any test.
fn of_sending(run: &Sending) -> Result<(), Error> {
    match run.sent {
        0 => Err(Error::NoResult("No messages were sent".to_owned())),
        _ => Ok(()),
    }
}

/// Of a test that only sends, or has back what it sends.
pub(crate) fn of_throughput(run: &Sending, returned: Option<&Replies>) -> Result<(), Error> {
    of_sending(run)?;
    if returned.is_some_and(|returned| returned.received == 0) {
        return Err(no_reply());
    }
    Ok(())
}

fn no_reply() -> Error {
    Error::NoResult("No messages were received from the server. Is the server down?".to_owned())
}

/// Of a test that measures latency.
pub(crate) fn of_latency(run: &Run) -> Result<(), Error> {
    of_sending(&run.sending)?;
    if run.replies.received == 0 {
        return Err(no_reply());
    }
    if run.sending.end == End::PacketTimeout {
        return Err(Error::Incomplete(
            "the requested number of packets was not reached in time".to_owned(),
        ));
    }
    if run.valid.round_trips.count == 0 {
        return Err(Error::NoResult(
            "No valid observations found. Try tune parameters: \
             --time/--number-of-packets/--mps/--reply-every"
                .to_owned(),
        ));
    }
    Ok(())
}
