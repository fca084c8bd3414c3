//! What a server saw.

use serde::Serialize;

use super::sessions::SessionSummary;

/// What a server saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Messages of clients, without warm-up messages.
    pub handled: u64,
    /// Of these the ones that were handled before they were received (`--rxfiltercb`).
    #[serde(skip_serializing_if = "is_none")]
    pub handled_in_callback: u64,
    /// Their bytes.
    pub handled_bytes: u64,
    /// Replies sent.
    pub replies: u64,
    /// Datagrams that are not, or do not end with, a whole message.
    pub malformed_datagrams: u64,
    /// Connections closed because what they sent cannot be a message.
    pub malformed_streams: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Warm-up messages and messages that no client sent.
    pub ignored: u64,
    /// Replies that the system refused to send.
    pub failed_replies: u64,
    /// Why, for the last of them.
    pub last_reply_error: Option<String>,
    /// What was received of each client.
    pub sessions: Vec<SessionSummary>,
    /// Messages of clients beyond the number that is followed.
    pub untracked_messages: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Totals {
    /// Adds what another thread saw.
    pub fn add(&mut self, other: Self) {
        let Self {
            handled,
            handled_in_callback,
            handled_bytes,
            replies,
            malformed_datagrams,
            malformed_streams,
            connections,
            ignored,
            failed_replies,
            last_reply_error,
            sessions,
            untracked_messages,
        } = other;
        self.handled += handled;
        self.handled_in_callback += handled_in_callback;
        self.handled_bytes += handled_bytes;
        self.replies += replies;
        self.malformed_datagrams += malformed_datagrams;
        self.malformed_streams += malformed_streams;
        self.connections += connections;
        self.ignored += ignored;
        self.failed_replies += failed_replies;
        self.last_reply_error = last_reply_error.or_else(|| self.last_reply_error.take());
        self.untracked_messages += untracked_messages;
        // A server that runs for months sees more clients than anybody reads about.
        let room = SESSIONS_MAX.saturating_sub(self.sessions.len());
        self.sessions.extend(sessions.into_iter().take(room));
    }
}

/// Sessions that are reported.
const SESSIONS_MAX: usize = 65_536;
