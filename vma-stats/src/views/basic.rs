//! View 1: what every socket received and sent.

use crate::views::columns::{self, Sockets, View};

const VIEW: &View = &View {
    titles: [
        [
            "------------ total offloaded -------------",
            "--------- total os ----------",
        ],
        [
            "--------------- offloaded ----------------",
            "---------- os ---------",
        ],
    ],
    queue_title: "",
    columns: columns::BASIC,
};

pub(crate) const fn view(explained: bool) -> Sockets {
    Sockets {
        view: VIEW,
        explained,
    }
}

#[cfg(test)]
mod tests;
