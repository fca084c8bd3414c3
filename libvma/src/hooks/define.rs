//! The form of a hook.

/// A hook: the function of the C library's name that the table of interposed functions exports.
macro_rules! hook {
    ($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty $body:block) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// That of the C library's function of this name.
        #[inline]
        pub(super) unsafe fn $name($($argument: $type),*) -> $result $body
    };
}
pub(super) use hook;
