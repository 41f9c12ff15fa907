//! Compares both codecs with what PostgreSQL 15 answered to the same inputs.
//!
//! `testdata/record.sh` recorded `testdata/golden.tsv` from a live server: for each type and text the printed form and
//! the bytes, or the SQLSTATE, message and detail. `testdata/differences.tsv` lists what we deliberately do otherwise,
//! each with a reason; an entry that no longer differs fails the test too.

use glimpse_pgrepr::binary::{decode_binary, encode_binary};
use glimpse_pgrepr::options::{EncodeOptions, Locale};
use glimpse_pgrepr::text::{decode_text, encode_text};
use glimpse_pgrepr::timezone::TimeZone;
use glimpse_pgrepr::type_name::parse_type_name;
use repr::types::{NumericDisplay, PgType};
use std::collections::HashMap;
use std::path::Path;

/// Undoes the escapes of COPY's text format.
fn unescape(field: &str) -> String {
    let mut out = String::new();
    let mut chars = field.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(match chars.next().expect("COPY never ends in a backslash") {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                other => other,
            }),
            c => out.push(c),
        }
    }
    out
}

fn read(file: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata").join(file);
    let text = std::fs::read_to_string(path).expect("checked in");
    text.lines().map(|line| line.split('\t').map(unescape).collect()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What we answer, in the three fields of the recording, or the step that failed.
fn answer(ty: &PgType, input: &str, options: &EncodeOptions) -> [String; 3] {
    let datum = match decode_text(ty, input, options) {
        Ok(datum) => datum,
        Err(error) => return [error.sqlstate.code().into(), error.message, error.detail.unwrap_or("\\N".into())],
    };
    let mut text = Vec::new();
    encode_text(ty, &datum, options, &mut text);
    let mut binary = Vec::new();
    encode_binary(ty, &datum, options, &mut binary).expect("what was read can be sent");
    let back = decode_binary(ty, &binary, options).expect("what was sent can be read");
    // NaN is not equal to itself, but prints the same.
    let mut again = Vec::new();
    encode_text(ty, &back, options, &mut again);
    assert_eq!(again, text, "{ty} {input:?} through the binary format");
    ["ok".into(), String::from_utf8(text.to_vec()).expect("text"), hex(&binary)]
}

#[test]
fn postgres_agrees() {
    let options = EncodeOptions {
        locale: Locale { time_zone: TimeZone::parse("Europe/Berlin").expect("a zone"), ..Locale::default() },
        ..EncodeOptions::default()
    };
    let differences: HashMap<(String, String), String> = read("differences.tsv")
        .into_iter()
        .map(|mut row| {
            let reason = row.pop().expect("a reason");
            let input = row.pop().expect("an input");
            ((row.pop().expect("a type"), input), reason)
        })
        .collect();
    let mut wrong = Vec::new();
    for row in read("golden.tsv") {
        let [name, input, expected @ ..] = &row[..] else { panic!("a row of five fields") };
        let (ty, text) = match name.as_str() {
            // A quotient is printed from its own value.
            "/" => (PgType::Numeric(NumericDisplay::Quotient), &expected[1]),
            name => (parse_type_name(name).expect(name), input),
        };
        let actual = answer(&ty, text, &options);
        let mut expected = expected.to_vec();
        if expected[2] == "N" || expected[2].is_empty() {
            expected[2] = if expected[0] == "ok" { String::new() } else { "\\N".into() };
        }
        let known = differences.get(&(name.clone(), input.clone()));
        match (actual[..] == expected[..], known) {
            (true, None) | (false, Some(_)) => {}
            (true, Some(reason)) => wrong.push(format!("{name} {input:?} no longer differs ({reason})")),
            (false, None) => wrong.push(format!("{name} {input:?}\n  postgres {expected:?}\n  glimpse  {actual:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}
