//! What a connection speaks over: a socket, or TLS over one.
//!
//! The loop in `connection` is generic over [`Stream`] and compiled once for each of them, so that a plain connection
//! pays nothing for there being another kind.

use std::future::Future;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A connection's bytes, in both directions. What was written may be kept until it is flushed.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {
    /// Waits until something can be read or the peer has hung up. Whether the peer is known to have hung up.
    fn has_hung_up(&self) -> impl Future<Output = io::Result<bool>> + Send;
}

impl Stream for TcpStream {
    /// With a request waiting, it cannot be seen whether there is an end behind it.
    async fn has_hung_up(&self) -> io::Result<bool> {
        Ok(self.peek(&mut [0; 1]).await? == 0)
    }
}

impl Stream for TlsStream<TcpStream> {
    /// A peer says goodbye before it hangs up, and only reading would tell that from a request. The kernel knows.
    async fn has_hung_up(&self) -> io::Result<bool> {
        Ok(self.get_ref().0.ready(Interest::READABLE).await?.is_read_closed())
    }
}
