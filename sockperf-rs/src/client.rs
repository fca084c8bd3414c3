//! A client: what it sends, what comes back, and whether that was a success.

pub mod dummies;
pub mod flight;
pub mod pacer;
pub mod payload;
pub mod ping_pong;
pub mod rates;
pub mod replies;
pub mod run;
pub mod sender;
pub mod stamps;
pub mod threads;
pub mod time_line;
pub mod under_load;
pub mod verdict;
