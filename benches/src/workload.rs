//! What a run does: the workload, the protocol it speaks, and the tables it needs.
//!
//! # Invariants
//! - Row `id` of `kv` holds `v{id:07}-{version:03}`: 12 bytes for the loaded rows, so that a reader can verify any row
//!   that it reads, whoever updated it.

use std::io::Write;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::wire::{Format, INT4_OID, TEXT_OID};

/// Queries of one pipeline.
pub const PIPELINE_QUERIES: u32 = 100;
/// Rows of one multi-row INSERT.
pub const MULTI_ROWS: u32 = 100;
/// Rows of one COPY.
pub const COPY_ROWS: u32 = 1000;
/// The one row of `t`.
pub const STAR_ID: &str = "hello";

/// What is asked of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// `select * from t`, one row.
    SelectStar,
    /// `select * from kv where id = N`, N random.
    Point,
    /// 90 % point reads, 10 % single-row INSERT or UPDATE on the same table.
    Mixed,
    /// INSERT or COPY into `ins`.
    Insert,
    /// INSERT … ON CONFLICT DO UPDATE into `kv`, of rows that are there and of new ones by turns.
    Upsert,
    /// UPDATE of a row of `kv` by its key.
    Update,
    /// INSERT of rows that refer to rows of `kv`.
    Refer,
    /// Five point reads and five updates of `kv` in one transaction.
    Ten,
    /// UPDATE of one row, the same for everybody.
    Hot,
}

impl Workload {
    /// Whether it needs the tables of [`crate::oltp`], which have keys on every server.
    pub fn needs_keys(self) -> bool {
        match self {
            Self::SelectStar | Self::Point | Self::Mixed | Self::Insert => false,
            Self::Upsert | Self::Update | Self::Refer | Self::Ten | Self::Hot => true,
        }
    }
}

/// How it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// Simple query, literals in the text.
    Simple,
    /// Bind, Execute, Sync on a named statement; text format.
    Prepared,
    /// The same in binary format.
    Binary,
    /// 100 Bind and Execute per Sync, binary format.
    Pipelined,
    /// Simple INSERT of 100 rows.
    MultiRow,
    /// COPY of 1000 rows.
    Copy,
}

impl Protocol {
    /// The format that its Bind messages ask for.
    pub fn format(self) -> Format {
        match self {
            Self::Binary | Self::Pipelined => Format::Binary,
            Self::Simple | Self::Prepared | Self::MultiRow | Self::Copy => Format::Text,
        }
    }

    /// Whether it uses named statements.
    pub fn is_extended(self) -> bool {
        matches!(self, Self::Prepared | Self::Binary | Self::Pipelined)
    }
}

/// Refuses a protocol that the workload has no meaning for.
pub fn check_pair(workload: Workload, protocol: Protocol) -> Result<()> {
    let fits = match workload {
        Workload::SelectStar => matches!(protocol, Protocol::Simple | Protocol::Prepared),
        Workload::Point => protocol.is_extended() || protocol == Protocol::Simple,
        Workload::Mixed | Workload::Upsert | Workload::Update | Workload::Refer | Workload::Ten | Workload::Hot => {
            matches!(protocol, Protocol::Simple | Protocol::Prepared | Protocol::Binary)
        }
        Workload::Insert => protocol != Protocol::Pipelined,
    };
    ensure!(fits, "the workload {workload:?} is not defined over the protocol {protocol:?}");
    Ok(())
}

/// A statement of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    /// The one row of `t`.
    Star,
    /// One row of `kv`.
    Point,
    /// A new row of `kv`.
    Add,
    /// A new value for a row of `kv`.
    Update,
    /// A new row of `ins`.
    Insert,
    /// A row of `kv`, whether it is there or not.
    Upsert,
    /// A new row of `refer`.
    Refer,
    /// The row of `hot` counts up.
    Hot,
    /// A transaction begins.
    Begin,
    /// And ends.
    Commit,
}

impl Statement {
    /// The statements that `workload` prepares.
    pub fn of(workload: Workload) -> &'static [Self] {
        match workload {
            Workload::SelectStar => &[Self::Star],
            Workload::Point => &[Self::Point],
            Workload::Mixed => &[Self::Point, Self::Add, Self::Update],
            Workload::Insert => &[Self::Insert],
            Workload::Upsert => &[Self::Upsert],
            Workload::Update => &[Self::Update],
            Workload::Refer => &[Self::Refer],
            Workload::Ten => &[Self::Begin, Self::Point, Self::Update, Self::Commit],
            Workload::Hot => &[Self::Hot],
        }
    }

    /// The name it is prepared under.
    pub fn name(self) -> &'static str {
        match self {
            Self::Star => "star",
            Self::Point => "point",
            Self::Add => "add",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Upsert => "upsert",
            Self::Refer => "refer",
            Self::Hot => "hot",
            Self::Begin => "begin",
            Self::Commit => "commit",
        }
    }

    /// Its text with `$1`, the id, and `$2`, the value or the row referred to; and the types of these.
    pub fn prepared(self) -> (&'static str, &'static [u32]) {
        const BOTH: &[u32] = &[INT4_OID, TEXT_OID];
        match self {
            Self::Star => ("select * from t", &[]),
            Self::Point => ("select * from kv where id = $1", &[INT4_OID]),
            Self::Add => ("insert into kv values ($1, $2)", BOTH),
            Self::Update => ("update kv set v = $2 where id = $1", BOTH),
            Self::Insert => ("insert into ins values ($1, $2)", BOTH),
            Self::Upsert => ("insert into kv values ($1, $2) on conflict (id) do update set v = excluded.v", BOTH),
            Self::Refer => ("insert into refer values ($1, $2)", &[INT4_OID, INT4_OID]),
            Self::Hot => ("update hot set n = n + 1 where id = $1", &[INT4_OID]),
            Self::Begin => ("begin", &[]),
            Self::Commit => ("commit", &[]),
        }
    }

    /// Its text with literals, as [`Statement::write_simple`] writes it.
    pub fn text(self, id: u32, version: u32) -> String {
        let mut sql = Vec::new();
        self.write_simple(&mut sql, id, version);
        String::from_utf8(sql).expect("we write ASCII")
    }

    /// Writes its text with literals: the id, and the value at `version` or the row `version` that is referred to.
    pub fn write_simple(self, out: &mut Vec<u8>, id: u32, version: u32) {
        match self {
            Self::Star | Self::Begin | Self::Commit => out.extend_from_slice(self.prepared().0.as_bytes()),
            Self::Upsert => {
                write_values(out, b"insert into kv values ", id, version);
                out.extend_from_slice(b" on conflict (id) do update set v = excluded.v");
            }
            Self::Refer => {
                out.extend_from_slice(b"insert into refer values (");
                write_id(out, id);
                out.extend_from_slice(b", ");
                write_id(out, version);
                out.push(b')');
            }
            Self::Hot => {
                out.extend_from_slice(b"update hot set n = n + 1 where id = ");
                write_id(out, id);
            }
            Self::Point => {
                out.extend_from_slice(b"select * from kv where id = ");
                write_id(out, id);
            }
            Self::Add => write_values(out, b"insert into kv values ", id, version),
            Self::Insert => write_values(out, b"insert into ins values ", id, version),
            Self::Update => {
                out.extend_from_slice(b"update kv set v = '");
                write_value(out, id, version);
                out.extend_from_slice(b"' where id = ");
                write_id(out, id);
            }
        }
    }
}

/// Writes `('v…')` after `head`.
pub fn write_values(out: &mut Vec<u8>, head: &[u8], id: u32, version: u32) {
    out.extend_from_slice(head);
    out.push(b'(');
    write_id(out, id);
    out.extend_from_slice(b", '");
    write_value(out, id, version);
    out.extend_from_slice(b"')");
}

/// Writes the digits of an id.
pub fn write_id(out: &mut Vec<u8>, id: u32) {
    write!(out, "{id}").expect("writing to memory does not fail");
}

/// Writes the value that row `id` holds at `version`.
pub fn write_value(out: &mut Vec<u8>, id: u32, version: u32) {
    write!(out, "v{id:07}-{:03}", version % 1000).expect("writing to memory does not fail");
}

/// A small random generator (SplitMix64), so that ids cost nothing to draw and a seed replays them.
pub struct Random(u64);

impl Random {
    /// A generator whose numbers depend on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let high = (mixed ^ (mixed >> 31)) >> 32;
        ((high * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaded_values_have_twelve_bytes() {
        let mut out = Vec::new();
        write_value(&mut out, 999_999, 0);
        assert_eq!(out, b"v0999999-000");
    }

    #[test]
    fn statements_carry_their_literals() {
        let mut out = Vec::new();
        Statement::Update.write_simple(&mut out, 7, 1002);
        assert_eq!(out, b"update kv set v = 'v0000007-002' where id = 7");
        out.clear();
        Statement::Add.write_simple(&mut out, 7, 0);
        assert_eq!(out, b"insert into kv values (7, 'v0000007-000')");
        out.clear();
        Statement::Refer.write_simple(&mut out, 7, 3);
        assert_eq!(out, b"insert into refer values (7, 3)");
    }

    #[test]
    fn random_numbers_cover_their_range() {
        let mut random = Random::new(1);
        let mut seen = [false; 16];
        for _ in 0..1000 {
            seen[random.below(16) as usize] = true;
        }
        assert!(seen.iter().all(|seen| *seen));
    }
}
