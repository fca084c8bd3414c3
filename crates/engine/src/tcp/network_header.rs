//! The headers of what a connection sends.

use wire::tcp::Template;

use crate::sockets::stack::Stack;
use crate::tcp::socket::{Role, TcpSocket};

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;

impl<S: Stack> TcpSocket<S> {
    /// Those of Ethernet and IP: what TCP writes differs from segment to segment. `None`: there is
    /// no connection here, or no way to its peer at present.
    pub(crate) fn network_header(&self) -> Option<Vec<u8>> {
        let role = self.role.lock();
        let Role::Stream(stream) = &*role else {
            return None;
        };
        let mut headers = [0; Template::MAX_HEADERS_LEN];
        let template = &stream.egress.as_ref()?.template;
        template.emit_headers(&mut headers, 0, 0, &wire::tcp::Header::default(), 0)?;
        let ip = if stream.peer.is_ipv4() { IPV4 } else { IPV6 };
        Some(headers.get(..ETHERNET + ip)?.to_vec())
    }
}
