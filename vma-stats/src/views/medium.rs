//! View 2: as view 1, with the receive queue's length.

use crate::views::columns::{self, Sockets, View};

const VIEW: &View = &View {
    titles: [
        [
            "----------------------- total offloaded -------------------------",
            "--------- total os ----------",
        ],
        [
            "-------------------------- offloaded ----------------------------",
            "---------- os ---------",
        ],
    ],
    queue_title: "---- queue pkt -----",
    columns: columns::MEDIUM,
};

pub(crate) const fn view() -> Sockets {
    Sockets {
        view: VIEW,
        explained: false,
    }
}
