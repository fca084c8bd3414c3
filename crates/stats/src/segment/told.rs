//! What the segment itself writes: reasons, parameters, rules, notes, events, and the sockets that
//! were closed.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::mapping::sys;
use crate::schema::{Entry, NoteStats, SocketStats};
use crate::segment::sections::next_of_ring;
use crate::segment::{Core, Segment};
use crate::slot::Slot;

/// The value of one parameter, as [`Segment::settings`] stores it.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Name of the variable, at most 64 bytes of it are kept.
    pub name: &'a str,
    /// As one would write it into the environment, at most 128 bytes of it are kept.
    pub value: &'a str,
    /// What gave it this value, at most 16 bytes of it are kept.
    pub origin: &'a str,
}

/// A note that readers see.
pub(super) struct Note {
    subject: String,
    topic: String,
    text: String,
    _slot: Slot<NoteStats>,
}

/// The sockets that are open; see [`Segment::tell_of_end`].
#[derive(Clone, Copy)]
pub struct OpenSockets(&'static Core);

impl OpenSockets {
    /// Tells of each of them that readers see.
    pub fn tell(self) {
        let Some(tell) = self.0.told_of_end.get() else {
            return;
        };
        if self.0.owner.is_this_process() {
            let entries = self.0.sections.sockets.entries.iter();
            let open = entries.filter(|it| it.head().is_open() && it.fd.value() >= 0);
            open.for_each(tell);
        }
    }
}

impl Segment {
    /// Takes note of something that has happened outside of the data path: its kind in a word, what
    /// it happened to, and what it is. The last [`EVENTS`](crate::EVENTS) are kept. Subjects are
    /// cut at 16 bytes, texts at 128. From any thread.
    pub fn event(&self, kind: &str, subject: &str, text: &str) {
        let core = self.core;
        if !core.owner.has_this_memory() {
            return;
        }
        let mut count = core.events.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = next_of_ring(core.sections.events.entries, *count);
        *count += 1;
        let Some(entry) = entry else {
            return;
        };
        entry.reset();
        entry.order.set(*count);
        entry.time_nsec.set(sys::now_nsec());
        entry.kind.set(kind);
        entry.subject.set(subject);
        entry.text.set(text);
        entry.head().open();
    }

    /// Keeps what a socket was and did, for readers who come after its end: the last
    /// [`CLOSED_SOCKETS`](crate::CLOSED_SOCKETS) of them. One thread at a time.
    pub fn remember_closed(&self, socket: &SocketStats) {
        let core = self.core;
        if !core.owner.has_this_memory() {
            return;
        }
        let order = core.closed_count.fetch_add(1, Ordering::Relaxed);
        let Some(entry) = next_of_ring(core.sections.closed_sockets.entries, order) else {
            return;
        };
        entry.copy_from(socket);
        entry.closed.set(order + 1);
        entry.head().open();
        if let Some(tell) = core.told_of_end.get() {
            tell(socket);
        }
    }

    /// Has `tell` called with each socket that [`remember_closed`](Self::remember_closed) gets, and
    /// with those that are still open when the result is asked for them. To be called once.
    pub fn tell_of_end(&self, tell: fn(&SocketStats)) -> OpenSockets {
        let _ = self.core.told_of_end.set(tell);
        OpenSockets(self.core)
    }

    /// Tells readers something about an interface, or about the process if `subject` is empty. A
    /// subject has one note for each topic: a later text takes the place of an earlier one, and an
    /// empty text takes the note away. Subjects and topics are cut at 16 bytes, texts at 256.
    pub fn note(&self, subject: &str, topic: &str, text: &str) {
        if !self.core.owner.has_this_memory() {
            return;
        }
        let mut noted = self
            .core
            .noted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_it = |note: &Note| note.subject == subject && note.topic == topic;
        if noted.iter().any(|note| is_it(note) && note.text == text) {
            return;
        }
        noted.retain(|note| !is_it(note));
        if text.is_empty() {
            return;
        }
        let slot = self.core.sections.notes.claim(&self.core.owner);
        if slot.is_published() {
            slot.subject.set(subject);
            slot.topic.set(topic);
            // Last: readers leave out notes without a text.
            slot.text.set(text);
            noted.push(Note {
                subject: subject.to_owned(),
                topic: topic.to_owned(),
                text: text.to_owned(),
                _slot: slot,
            });
        }
    }

    /// Stores what the reason codes mean: the text at index `n` is that of code `n`. To be called
    /// once, before sockets refer to the codes. Texts are cut at 64 bytes.
    pub fn reason_names(&self, names: &[&str]) {
        let reasons = &self.core.sections.reasons;
        if !self.core.owner.has_this_memory() {
            return;
        }
        for (entry, name) in reasons.entries.iter().zip(names) {
            entry.name.set(name);
        }
        for _ in names.iter().skip(reasons.entries.len()) {
            reasons.count_overflow();
        }
    }

    /// Stores what can be done about each reason, in the order of the codes. Texts are cut at 192
    /// bytes.
    pub fn reason_advice(&self, advice: &[&str]) {
        if self.core.owner.has_this_memory() {
            let entries = self.core.sections.reasons.entries;
            for (entry, advice) in entries.iter().zip(advice) {
                entry.advice.set(advice);
            }
        }
    }

    /// Counts one socket that is left to the kernel for the reason `code`. From any thread.
    pub fn count_reason(&self, code: u32) {
        if !self.core.owner.has_this_memory() {
            return;
        }
        match self.core.sections.reasons.entries.get(code as usize) {
            Some(entry) => entry.count.add_contended(1),
            None => self.core.sections.reasons.count_overflow(),
        }
    }

    /// Stores the value of every parameter, in the order in which readers show them. To be called
    /// once.
    pub fn settings<'a>(&self, settings: impl Iterator<Item = Setting<'a>>) {
        let section = &self.core.sections.settings;
        if !self.core.owner.has_this_memory() {
            return;
        }
        for (index, setting) in settings.enumerate() {
            match section.entries.get(index) {
                Some(entry) => {
                    entry.origin.set(setting.origin);
                    entry.value.set(setting.value);
                    // Last: readers leave out entries without a name.
                    entry.name.set(setting.name);
                }
                None => section.count_overflow(),
            }
        }
    }

    /// Stores what [`SocketStats::rule`] means: the rule `number`, counted from 1, and where it
    /// stands. Texts are cut at 128 bytes.
    pub fn describe_rule(&self, number: u32, rule: &str, origin: &str) {
        let section = &self.core.sections.rules;
        if !self.core.owner.has_this_memory() {
            return;
        }
        let index = number.checked_sub(1);
        match index.and_then(|index| section.entries.get(index as usize)) {
            Some(entry) => {
                entry.origin.set(origin);
                // Last: readers leave out entries without a rule.
                entry.rule.set(rule);
            }
            None => section.count_overflow(),
        }
    }
}
