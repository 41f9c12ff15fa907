//! Where what is printed goes: a body, or the messages of a WebSocket.

use adapter::error::AdapterError;

/// Bytes that are gathered before they are sent.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// See the module.
pub(crate) trait Outlet: Send {
    /// What has not gone yet.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// Sends what is in the buffer, and waits for whoever reads. Errors: 08006 if nobody does.
    fn flush(&mut self) -> impl Future<Output = Result<(), AdapterError>> + Send;
}
