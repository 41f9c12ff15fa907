//! Builders of frontend messages.

/// A parameter of Bind: its bytes, or NULL.
pub type Value<'a> = Option<&'a [u8]>;

/// Frames a body.
pub fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 5);
    out.push(tag);
    out.extend(length(body.len() + 4));
    out.extend_from_slice(body);
    out
}

/// A startup message of protocol 3.0.
pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    for (name, value) in parameters {
        cstr(&mut body, name);
        cstr(&mut body, value);
    }
    body.push(0);
    untagged(&body)
}

/// A message without a tag, as all are before authentication.
pub fn untagged(body: &[u8]) -> Vec<u8> {
    let mut out = length(body.len() + 4).to_vec();
    out.extend_from_slice(body);
    out
}

/// SSLRequest.
pub fn ssl_request() -> Vec<u8> {
    untagged(&80_877_103_u32.to_be_bytes())
}

/// GSSENCRequest.
pub fn gssenc_request() -> Vec<u8> {
    untagged(&80_877_104_u32.to_be_bytes())
}

/// CancelRequest.
pub fn cancel_request(key: [u8; 8]) -> Vec<u8> {
    let mut body = 80_877_102_u32.to_be_bytes().to_vec();
    body.extend(key);
    untagged(&body)
}

/// Query.
pub fn query(sql: &str) -> Vec<u8> {
    let mut body = Vec::with_capacity(sql.len() + 1);
    cstr(&mut body, sql);
    frame(b'Q', &body)
}

/// Parse.
pub fn parse(name: &str, sql: &str, oids: &[u32]) -> Vec<u8> {
    let mut body = Vec::new();
    cstr(&mut body, name);
    cstr(&mut body, sql);
    body.extend(count(oids.len()));
    for oid in oids {
        body.extend(oid.to_be_bytes());
    }
    frame(b'P', &body)
}

/// Bind, with parameter format codes, values and result format codes.
pub fn bind(portal: &str, statement: &str, formats: &[u16], values: &[Value<'_>], results: &[u16]) -> Vec<u8> {
    let mut body = Vec::new();
    cstr(&mut body, portal);
    cstr(&mut body, statement);
    codes(&mut body, formats);
    body.extend(count(values.len()));
    for value in values {
        match value {
            None => body.extend((-1_i32).to_be_bytes()),
            Some(bytes) => {
                body.extend(length(bytes.len()));
                body.extend_from_slice(bytes);
            }
        }
    }
    codes(&mut body, results);
    frame(b'B', &body)
}

/// Describe a statement (`S`) or a portal (`P`).
pub fn describe(kind: u8, name: &str) -> Vec<u8> {
    frame(b'D', &kind_and_name(kind, name))
}

/// Close a statement (`S`) or a portal (`P`).
pub fn close(kind: u8, name: &str) -> Vec<u8> {
    frame(b'C', &kind_and_name(kind, name))
}

/// Execute.
pub fn execute(portal: &str, rows_max: i32) -> Vec<u8> {
    let mut body = Vec::new();
    cstr(&mut body, portal);
    body.extend(rows_max.to_be_bytes());
    frame(b'E', &body)
}

/// Sync.
pub fn sync() -> Vec<u8> {
    frame(b'S', &[])
}

/// Flush.
pub fn flush() -> Vec<u8> {
    frame(b'H', &[])
}

/// Terminate.
pub fn terminate() -> Vec<u8> {
    frame(b'X', &[])
}

/// An answer to an authentication request.
pub fn authentication(body: &[u8]) -> Vec<u8> {
    frame(b'p', body)
}

/// SASLInitialResponse.
pub fn sasl_initial(mechanism: &str, data: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    cstr(&mut body, mechanism);
    body.extend(length(data.len()));
    body.extend_from_slice(data);
    authentication(&body)
}

/// CopyData.
pub fn copy_data(bytes: &[u8]) -> Vec<u8> {
    frame(b'd', bytes)
}

/// CopyDone.
pub fn copy_done() -> Vec<u8> {
    frame(b'c', &[])
}

/// CopyFail.
pub fn copy_fail(reason: &str) -> Vec<u8> {
    let mut body = Vec::new();
    cstr(&mut body, reason);
    frame(b'f', &body)
}

fn kind_and_name(kind: u8, name: &str) -> Vec<u8> {
    let mut body = vec![kind];
    cstr(&mut body, name);
    body
}

fn codes(body: &mut Vec<u8>, codes: &[u16]) {
    body.extend(count(codes.len()));
    for code in codes {
        body.extend(code.to_be_bytes());
    }
}

fn cstr(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(text.as_bytes());
    body.push(0);
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("test messages are below 4 GiB").to_be_bytes()
}

fn count(items: usize) -> [u8; 2] {
    u16::try_from(items).expect("test messages have at most 65,535 items").to_be_bytes()
}
