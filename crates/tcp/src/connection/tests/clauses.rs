//! Clauses of RFCs that no scenario of the other modules is about. A comment before each test names
//! the requirements that it holds (`requirements/`).

mod acknowledgements;
mod ecn;
mod keep_alive;
mod loss;
mod messages;
mod opening;
mod options;
mod states;
mod timestamps;
mod urgent;
mod window;
