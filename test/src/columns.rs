//! Names and types of result columns, recorded from PostgreSQL (`columns/*.txt`).
//!
//! A block's input is one statement; its output is one line per column, `name oid typmod`, or `error SQLSTATE`, or
//! `no columns`. Glimpse must answer alike because drivers choose decoders by OID and programs choose fields by name.

use std::path::PathBuf;

use crate::wire::Wire;
use crate::wire::message::Message;

/// The directory of the files.
pub fn dir() -> PathBuf {
    crate::manifest_dir().join("columns")
}

/// Runs one statement in each protocol; the columns of both must agree.
pub fn run(wire: &mut Wire, input: &[String]) -> anyhow::Result<Vec<String>> {
    let sql = input.join("\n");
    let simple = describe(&wire.query(&sql)?);
    if simple.first().is_some_and(|line| line.starts_with("error") || line == "no columns") {
        return Ok(simple);
    }
    use crate::wire::frontend::{describe as describe_message, parse, sync};
    wire.send(&[parse("", &sql, &[]), describe_message(b'S', ""), sync()].concat())?;
    let extended = describe(&wire.until_ready()?);
    if extended != simple {
        anyhow::bail!("Query gives {simple:?}, Describe gives {extended:?}");
    }
    Ok(simple)
}

fn describe(messages: &[Message]) -> Vec<String> {
    if let Some(error) = messages.iter().find_map(Message::error) {
        return vec![format!("error {}", error.code)];
    }
    match messages.iter().find(|message| message.tag == b'T') {
        None => vec!["no columns".to_owned()],
        Some(description) => {
            let columns = description.columns();
            columns.iter().map(|c| format!("{} {} {}", c.name, c.oid, c.type_mod)).collect()
        }
    }
}
