//! What WebSockets have in common, whatever is said in them: how much is taken and held, what a message is, and how one is closed.

use crate::outlet::PIECE_BYTES;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use futures::StreamExt;
use futures::stream::SplitStream;

/// What an idle socket holds for reading.
const BUFFER_BYTES: usize = 4 << 10;
/// Bytes of a reason to close, of which the protocol has 123.
const REASON_BYTES_MAX: usize = 120;

/// A socket that takes messages of at most so many bytes: one is in memory before it is known who sends it.
pub(crate) fn sized(upgrade: WebSocketUpgrade, message_bytes_max: usize) -> WebSocketUpgrade {
    upgrade
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(PIECE_BYTES)
        .max_message_size(message_bytes_max)
        .max_frame_size(message_bytes_max)
}

/// The next message. Errors: the client has hung up; and why, if it was no goodbye.
///
/// # Cancellation
/// Safe to drop: no message is lost.
pub(crate) async fn receive(stream: &mut SplitStream<WebSocket>) -> Result<Vec<u8>, Option<axum::Error>> {
    loop {
        match stream.next().await.ok_or(None)? {
            Ok(Message::Text(text)) => return Ok(text.as_bytes().to_vec()),
            Ok(Message::Binary(bytes)) => return Ok(bytes.to_vec()),
            // Pings are answered below us.
            Ok(Message::Ping(_) | Message::Pong(_)) => {}
            Ok(Message::Close(_)) => return Err(None),
            Err(error) => {
                tracing::debug!(%error, "a WebSocket ended");
                return Err(Some(error));
            }
        }
    }
}

/// The message that ends a socket.
pub(crate) fn closing(code: u16, reason: &str) -> Message {
    let end = reason.floor_char_boundary(REASON_BYTES_MAX);
    Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::from(reason[..end].to_owned()) }))
}
