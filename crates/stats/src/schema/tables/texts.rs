//! What is said in words: reasons, parameters, rules, notes and events.

use crate::cache_line::CACHE_LINE_BYTES;
use crate::counter::Counter;
use crate::field::scalar::LargeNumber;
use crate::schema::entry::{Text16, Text64, Text128, Text192, Text256, entry};

entry! {
    /// How often sockets were left to the kernel for one reason.
    ReasonStats,
    /// A [`ReasonStats`] at one moment.
    ReasonSnapshot by code,
    {
        name: Text64, "", "the reason in words";
        count: Counter, "sockets", "sockets that were left to the kernel for this reason";
    }
    texts {
        advice: Text192, "", "what to change to have such sockets accelerated; may be empty";
    }
}

entry! {
    /// The value of one parameter of the library.
    SettingStats,
    /// A [`SettingStats`].
    SettingSnapshot by place,
    {
        origin: Text16, "", "what gave it the value: default, preset, environment or adjusted";
    }
    texts {
        value: Text128, "", "its value, as one would write it into the environment";
        name: Text64, "", "name of the variable";
    }
}

entry! {
    /// One rule by which sockets are left to the kernel or not.
    RuleStats,
    /// A [`RuleStats`].
    RuleSnapshot by place,
    {}
    texts {
        origin: Text128, "", "where it stands, for example /etc/libvma.conf:12";
        rule: Text128, "", "the rule in the words of libvma.conf";
    }
}

entry! {
    /// Something that a reader should know about an interface or the process, in words.
    NoteStats,
    /// A [`NoteStats`].
    NoteSnapshot by slot,
    {
        subject: Text16, "", "name of the interface; empty for the whole process";
        topic: Text16, "", "what it is about, in a word: a subject has one note for each topic";
    }
    texts {
        text: Text256, "", "the note";
    }
}

entry! {
    /// Something that happened, outside of the data path.
    EventStats,
    /// An [`EventStats`].
    EventSnapshot by slot,
    {
        order: LargeNumber, "", "how many events there were up to this one";
        time_nsec: LargeNumber, "nanoseconds", "when, since 1970";
        kind: Text16, "", "offload, kernel, device, control or error";
        subject: Text16, "", "what it happened to: fd 7, or the name of an interface";
    }
    texts {
        text: Text128, "", "what happened";
    }
}

// The file format of this major version: sizes, and the first field of every cache line.
const _: () = assert!(size_of::<ReasonStats>() == 5 * CACHE_LINE_BYTES);
const _: () = assert!(size_of::<SettingStats>() == 4 * CACHE_LINE_BYTES);
const _: () = assert!(size_of::<RuleStats>() == 5 * CACHE_LINE_BYTES);
const _: () = assert!(size_of::<NoteStats>() == 5 * CACHE_LINE_BYTES);
