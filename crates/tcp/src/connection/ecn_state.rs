//! What a connection knows of ECN.

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnState {
    /// Both sides agreed.
    pub(super) is_on: bool,
    /// The peer's network marked a packet: ECE on acknowledgements until CWR comes.
    pub(super) is_echoing: bool,
    /// We reduced the window: CWR on the next new data. Of no effect if ECN is off.
    pub(super) owes_cwr: bool,
    /// A codepoint was seen (`TCPI_OPT_ECN_SEEN`).
    pub(super) is_seen: bool,
}
