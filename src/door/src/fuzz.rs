//! What decodes the bytes of strangers, as functions of bytes, for the fuzzers of `test/fuzz`. A function returns when all is well, and
//! panics when it is not.

use crate::crowd::Crowd;
use crate::entrance::Port;
use crate::http::{Door, Ported};
use crate::intake;
use crate::messages::{Messages, decoded};
use crate::place::options_of;
use crate::scram::{self, Challenge};
use crate::server::{Server, Threads};
use crate::shown::Shown;
use arrow_ipc::reader::StreamDecoder;
use catalog::verifier::{MockSecret, Verifier};
use pgrepr::options::EncodeOptions;
use repr::PgType;
use std::sync::{Arc, LazyLock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// SCRAM: a verifier as text, the client's first message, and its last; separated by NUL.
pub fn scram(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |&byte| byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (text, first, last) = (part(), part(), part());
    if let Some(verifier) = std::str::from_utf8(text).ok().and_then(Verifier::parse) {
        let again = Verifier::parse(&verifier.to_string());
        assert!(again.is_some_and(|again| again == verifier), "a verifier is not read back");
    }
    let nobody = Verifier::mock(&MockSecret::default(), "");
    let plain = Challenge::new(scram::PLAIN, b"n,,n=,r=abc", &nobody, None, "def").expect("well-formed");
    let here = Some(&b"here"[..]);
    let bound = Challenge::new(scram::PLUS, b"p=tls-server-end-point,,n=,r=abc", &nobody, here, "def");
    let given = [(scram::PLAIN, None), (scram::PLAIN, here), (scram::PLUS, here)];
    let given = given.into_iter().filter_map(|(mechanism, end_point)| {
        let challenge = Challenge::new(mechanism, first, &nobody, end_point, "def").ok()?;
        assert!(challenge.message().starts_with("r="), "a challenge without a nonce");
        Some(challenge)
    });
    for challenge in given.chain([plain, bound.expect("well-formed")]) {
        let answer = challenge.verify(last, &nobody);
        assert!(!matches!(answer, Ok(Some(_))), "nobody has logged in");
    }
}

/// The largest message of an Arrow stream here.
const BYTES_MAX: usize = 1 << 16;

/// An Arrow stream that arrives whole, and in pieces whose sizes its first byte decides; and the values in it.
pub fn arrow(bytes: &[u8]) {
    let Some((&size, stream)) = bytes.split_first() else { return };
    let whole = messages(stream, stream.len().max(1));
    let pieces = messages(stream, usize::from(size).max(1));
    assert_eq!(whole, pieces, "pieces of {size} bytes differ from the whole");
    let mut decoder = StreamDecoder::new();
    for message in whole.unwrap_or_default() {
        let (back, batch) = decoded(decoder, message);
        decoder = back;
        let Ok(batch) = batch else { return };
        let Some(batch) = batch else { continue };
        for row in 0..batch.num_rows().min(64) {
            let texts = vec![PgType::Text; batch.num_columns()];
            let _values = intake::values(&EncodeOptions::default(), &batch, row, &texts);
        }
    }
}

/// The messages of a stream.
fn messages(stream: &[u8], piece_bytes: usize) -> Result<Vec<Vec<u8>>, String> {
    let (mut messages, mut found) = (Messages::new(BYTES_MAX), Vec::new());
    for piece in stream.chunks(piece_bytes) {
        found.extend(messages.push(piece).map_err(|error| error.to_string())?);
    }
    assert!(found.iter().all(|message| message.len() <= BYTES_MAX), "a message is longer than any may be");
    Ok(found)
}

/// The header `Authorization`, and the parameters of a session; separated by NUL.
pub fn shown(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (value, options) = text.split_once('\0').unwrap_or((text, ""));
    if let Ok(Shown::Password(user, _)) = Shown::parse(value) {
        assert!(!user.contains(':'), "a name has no colon");
    }
    let _options = options_of(Some(options));
}

/// A connection of HTTP whose client sends these bytes and no more: it is answered, or not, and ends.
pub fn port<D: Door>(door: &D, bytes: &[u8]) {
    static SERVER: LazyLock<(Server, Threads)> = LazyLock::new(|| Server::start(1).expect("a thread"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let (mut client, stream) = tokio::io::duplex(1 << 16);
        let (entrance, crowd) = (Arc::default(), Arc::new(Crowd::new(0)));
        let ported = Ported::new(door.clone(), Port::External, &SERVER.0, &entrance, &crowd);
        let asks = async {
            // Who is refused may hang up before it has said all.
            let _hung_up = client.write_all(bytes).await;
            let _hung_up = client.shutdown().await;
            let mut answer = Vec::new();
            let _broken = client.read_to_end(&mut answer).await;
        };
        tokio::join!(ported.converse_with(stream), asks);
    });
}
