//! The exported functions. Each finds out whether the descriptor is ours; if not, it is a jump to the C library.

mod descriptor;
mod header;
mod multiplex;
mod passed;
mod receive;
mod send;
mod signal;
mod stream;

/// Exports a function under its C name.
macro_rules! hook {
    ($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty $body:block) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// That of the C library's function of this name.
        #[unsafe(no_mangle)]
        #[allow(unreachable_pub, reason = "exported by its C name")]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result $body
    };
}
use hook;
