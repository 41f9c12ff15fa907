//! What the wire is fuzzed with: conversations that are right, and the frames that no client sends.

use glimpse_test::hostile::{Attacker, CLASSES};
use glimpse_test::wire::frontend;

/// What startup packets are made of.
pub const PACKET_WORDS: &[&str] = &[
    "user\0",
    "database\0",
    "options\0",
    "-c ",
    "--",
    "=",
    "\\",
    "_pq_.x\0",
    "replication\0",
    "\0\0",
    "\u{0}",
    "true\0",
];
/// What SCRAM is made of.
pub const SCRAM_WORDS: &[&str] = &[
    "n,,",
    "y,,",
    "p=tls-server-end-point,,",
    "n=",
    "r=abc",
    "r=abcdef",
    "c=biws",
    ",p=",
    "a=",
    "m=",
    ",",
    "=",
    "$",
    ":",
];
/// What lines of COPY are made of.
pub const COPY_WORDS: &[&str] =
    &["\n", "\r\n", "\r", "\\.", "\\N", "\\", "\t", ",", "\"", "\"\"", "\\x4", "\\07", "\\.\n", "\u{ff}", "é"];

/// Well-formed messages of every type.
fn messages() -> Vec<Vec<u8>> {
    let many: Vec<Option<&[u8]>> = vec![Some(b"ab"); 20];
    vec![
        frontend::query("SELECT 1"),
        frontend::parse("s", "SELECT $1::int4", &[23]),
        frontend::parse("", "SELECT $1, $2, $3", &[0, 25, 1043]),
        frontend::bind("", "", &[], &[], &[]),
        frontend::bind("p", "s", &[1], &[Some(b"\0\0\0\x07"), None], &[0, 1]),
        frontend::bind("p", "s", &[0; 20], &many, &[1]),
        frontend::execute("p", 10),
        frontend::describe(b'S', "s"),
        frontend::close(b'P', "p"),
        frontend::copy_data(b"1\t2\n"),
        frontend::copy_done(),
        frontend::copy_fail("no"),
        frontend::sync(),
        frontend::flush(),
        frontend::terminate(),
        frontend::sasl_initial("SCRAM-SHA-256", b"n,,n=,r=abc"),
        frontend::authentication(b"password\0"),
    ]
}

/// A byte, and a stream of messages.
pub fn streams() -> Vec<Vec<u8>> {
    let mut streams = vec![[vec![3], messages().concat()].concat()];
    streams.extend(messages().windows(3).map(|some| [vec![1], some.concat()].concat()));
    let mut attacker = Attacker::new(0);
    streams.extend(CLASSES.iter().flat_map(|(class, _)| {
        (0..8).map(|size| [vec![size], attacker.attack(*class), frontend::sync()].concat()).collect::<Vec<_>>()
    }));
    streams
}

/// A type, and a body.
pub fn bodies() -> Vec<Vec<u8>> {
    messages().into_iter().map(|message| [&message[..1], &message[5..]].concat()).collect()
}

/// Startup packets without their lengths.
pub fn packets() -> Vec<Vec<u8>> {
    let options = "-c search_path=a\\ b --extra-float-digits=3 -cDateStyle=ISO";
    [
        frontend::startup(&[("user", "u"), ("database", "d"), ("options", options), ("application_name", "psql")]),
        frontend::startup(&[("user", "u"), ("replication", "false"), ("_pq_.x", "1")]),
        frontend::ssl_request(),
        frontend::gssenc_request(),
        frontend::cancel_request([0, 0, 0, 1, 0, 0, 0, 2]),
    ]
    .iter()
    .map(|packet| packet[4..].to_vec())
    .collect()
}

/// A verifier, a first message and a last one.
pub fn scram() -> Vec<Vec<u8>> {
    let verifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
        wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    ["n,,n=user,r=abc", "y,,n=,r=abc", "p=tls-server-end-point,,n=,r=abc", "n,a=x,n=,r=abc"]
        .iter()
        .map(|first| format!("{verifier}\0{first}\0c=biws,r=abcdef,p={proof}").into_bytes())
        .collect()
}

/// The size of pieces, and lines.
pub fn copy_text() -> Vec<Vec<u8>> {
    ["\u{1}1\ta\n2\t\\N\n", "\u{2}a\\tb\\nc\\\\d\te\\\nf\n\\101\\x42\\7q\n", "\u{3}x\r\ny\r\n\\.\r\nz", "\u{4}x\ry\r"]
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .collect()
}

/// The size of pieces, and lines.
pub fn copy_csv() -> Vec<Vec<u8>> {
    [
        "\u{1}h,i\n1,\"a\"\"b\"\n2,\n",
        "\u{2}\"two\nlines\",x\n",
        "\u{3}\"a\\\"b\",\"\\\\\"\n",
        "\u{4}a\"b,c\"d\r\n\\.\r\ne\r\n",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect()
}

/// The size of pieces, and rows; behind an odd size, a signature first.
pub fn copy_binary() -> Vec<Vec<u8>> {
    let row = b"\0\x02\0\0\0\x01a\xff\xff\xff\xff";
    let signature = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\x02ex";
    vec![
        [&b"\x02"[..], row, row, b"\xff\xff"].concat(),
        [&b"\x01"[..], signature, row, b"\xff\xff"].concat(),
        [&b"\x05"[..], signature, row].concat(),
    ]
}
