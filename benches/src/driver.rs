//! The queries of one connection: makes them, sends them, verifies the replies.
//!
//! How: [`Driver::step`] is one round trip. Reads check that the row holds the id asked for. In the mixed workload each
//! write is followed by a read of the same row, which must show exactly what was written: read your writes, under load.
//!
//! # Invariants
//! - Updates go to ids that belong to this connection (`id % connections == index`), so that nobody else can have changed
//!   a row between the write and the read that verifies it.
//! - New ids start at `fresh_ids` and are never drawn twice in a run.

use anyhow::{Context, Result, ensure};

use crate::connection::{Connection, Reply};
use crate::wire;
use crate::workload::{
    COPY_ROWS, MULTI_ROWS, PIPELINE_QUERIES, Protocol, Random, STAR_ID, Statement, Workload, write_id, write_value,
    write_values,
};

/// The one row of `hot`.
pub const HOT_ID: u32 = 1;
/// Rows that one transaction of the workload `ten` looks at.
pub const TEN_ROWS: u32 = 5;

/// What a round trip was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It returned rows.
    Read,
    /// It changed rows.
    Write,
}

/// Whether replies can be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// The server holds the data: contents must match.
    Contents,
    /// The server answers with canned bytes: only the shape must match.
    Shape,
}

/// What all drivers of a run share.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is asked.
    pub workload: Workload,
    /// How it is asked.
    pub protocol: Protocol,
    /// Connections of the run.
    pub connections: u32,
    /// Ids of `kv` are `0..rows`.
    pub rows: u32,
    /// The first id that no row has yet.
    pub fresh_ids: u32,
    /// How replies are verified.
    pub verify: Verify,
    /// Whether Describe of the portal goes between Bind and Execute, as libpq does it.
    pub describe: bool,
    /// What random ids derive from.
    pub seed: u64,
}

/// The state of one connection's workload.
pub struct Driver {
    plan: Plan,
    index: u32,
    random: Random,
    writes: u32,
    /// The row that the last write left, to be verified by the next read.
    written: Option<(u32, u32)>,
    /// The largest `value` seen in `t`: reads never go back.
    star_value: i64,
    /// Scratch for parameters and expectations.
    value: Vec<u8>,
    ids: Vec<u32>,
}

impl Driver {
    /// The driver of connection `index`.
    pub fn new(plan: Plan, index: u32) -> Self {
        let random = Random::new(plan.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(index) << 32));
        Self { plan, index, random, writes: 0, written: None, star_value: i64::MIN, value: Vec::new(), ids: Vec::new() }
    }

    /// Prepares the named statements, when the protocol has any.
    pub async fn prepare(&self, connection: &mut Connection) -> Result<()> {
        if !self.plan.protocol.is_extended() {
            return Ok(());
        }
        for statement in Statement::of(self.plan.workload) {
            let (sql, types) = statement.prepared();
            wire::parse(&mut connection.output, statement.name(), sql, types);
        }
        wire::sync(&mut connection.output);
        connection.send().await?;
        connection.reply(|_| Ok(())).await.context("preparing")?;
        Ok(())
    }

    /// One round trip: what it was, and for how many queries (or rows) it counts.
    pub async fn step(&mut self, connection: &mut Connection) -> Result<(Kind, u32)> {
        match (self.plan.workload, self.plan.protocol) {
            (Workload::SelectStar, _) => self.star(connection).await,
            (Workload::Point, Protocol::Pipelined) => self.pipeline(connection).await,
            (Workload::Point, _) => self.point(connection).await,
            (Workload::Mixed, _) => self.mixed(connection).await,
            (Workload::Insert, Protocol::MultiRow) => self.insert_many(connection).await,
            (Workload::Insert, Protocol::Copy) => self.copy(connection).await,
            (Workload::Insert, _) => {
                let id = self.fresh_id();
                self.write(connection, Statement::Insert, id).await
            }
            (Workload::Upsert, _) => {
                let id = if self.writes.is_multiple_of(2) { self.own_id() } else { self.fresh_id() };
                self.write(connection, Statement::Upsert, id).await
            }
            (Workload::Update, _) => {
                let id = self.own_id();
                self.write(connection, Statement::Update, id).await
            }
            (Workload::Refer, _) => self.refer(connection).await,
            (Workload::Ten, _) => self.ten(connection).await,
            (Workload::Hot, _) => self.write(connection, Statement::Hot, HOT_ID).await,
        }
    }

    async fn star(&mut self, connection: &mut Connection) -> Result<(Kind, u32)> {
        self.request(connection, Statement::Star, 0, 0);
        connection.send().await?;
        let (verify, last) = (self.plan.verify, &mut self.star_value);
        let reply = connection.reply(|row| check_star(row, verify, last)).await?;
        ensure!(reply.rows == 1, "{} rows of t, not one", reply.rows);
        Ok((Kind::Read, 1))
    }

    async fn point(&mut self, connection: &mut Connection) -> Result<(Kind, u32)> {
        let id = self.random.below(self.plan.rows);
        self.read(connection, id, None).await
    }

    async fn read(&mut self, connection: &mut Connection, id: u32, version: Option<u32>) -> Result<(Kind, u32)> {
        self.request(connection, Statement::Point, id, 0);
        connection.send().await?;
        let (plan, value) = (&self.plan, &mut self.value);
        let reply = connection.reply(|row| check_row(row, plan, id, version, value)).await?;
        ensure!(reply.rows == 1, "{} rows with id {id}, not one", reply.rows);
        Ok((Kind::Read, 1))
    }

    async fn pipeline(&mut self, connection: &mut Connection) -> Result<(Kind, u32)> {
        let mut ids = std::mem::take(&mut self.ids);
        ids.clear();
        for _ in 0..PIPELINE_QUERIES {
            let id = self.random.below(self.plan.rows);
            ids.push(id);
            self.bind_execute(connection, Statement::Point, id, 0);
        }
        wire::sync(&mut connection.output);
        connection.send().await?;
        let (plan, value) = (&self.plan, &mut self.value);
        let mut expected = ids.iter();
        let check = |row: &[u8]| {
            let id = expected.next().context("more rows than queries")?;
            check_row(row, plan, *id, None, value)
        };
        let reply = connection.reply(check).await?;
        ensure!(reply.rows == PIPELINE_QUERIES, "{} rows for {PIPELINE_QUERIES} queries", reply.rows);
        self.ids = ids;
        Ok((Kind::Read, PIPELINE_QUERIES))
    }

    /// Of nine steps that may choose, one is a write; with the read that verifies it, that is one in ten.
    async fn mixed(&mut self, connection: &mut Connection) -> Result<(Kind, u32)> {
        if let Some((id, version)) = self.written.take() {
            return self.read(connection, id, Some(version)).await;
        }
        if self.random.below(9) != 0 {
            return self.point(connection).await;
        }
        let (statement, id) = if self.writes.is_multiple_of(2) {
            (Statement::Add, self.fresh_id())
        } else {
            (Statement::Update, self.own_id())
        };
        self.written = Some((id, self.writes + 1));
        self.write(connection, statement, id).await
    }

    async fn write(&mut self, connection: &mut Connection, statement: Statement, id: u32) -> Result<(Kind, u32)> {
        self.writes += 1;
        self.request(connection, statement, id, self.writes);
        connection.send().await?;
        let reply = connection.reply(|_| Ok(())).await?;
        self.check_written(reply, 1)
    }

    async fn refer(&mut self, connection: &mut Connection) -> Result<(Kind, u32)> {
        let (id, parent) = (self.fresh_id(), self.random.below(self.plan.rows));
        self.writes += 1;
        self.request(connection, Statement::Refer, id, parent);
        connection.send().await?;
        let reply = connection.reply(|_| Ok(())).await?;
        self.check_written(reply, 1)
    }

    /// A transaction: three rows are read and changed, two of them read again, two others changed. Counts as one.
    async fn ten(&mut self, connection: &mut Connection) -> Result<(Kind, u32)> {
        let stride = self.own() / TEN_ROWS;
        let first = self.random.below(stride);
        let ids = [0, 1, 2, 3, 4].map(|at| self.own_at(first + at * stride));
        self.control(connection, Statement::Begin).await?;
        let before = self.writes;
        for id in &ids[..3] {
            self.read(connection, *id, None).await?;
            self.write(connection, Statement::Update, *id).await?;
        }
        for (id, version) in ids.iter().zip([before + 1, before + 2]) {
            self.read(connection, *id, Some(version)).await?;
        }
        for id in &ids[3..] {
            self.write(connection, Statement::Update, *id).await?;
        }
        self.control(connection, Statement::Commit).await?;
        Ok((Kind::Write, 1))
    }

    async fn control(&mut self, connection: &mut Connection, statement: Statement) -> Result<()> {
        self.request(connection, statement, 0, 0);
        connection.send().await?;
        let reply = connection.reply(|_| Ok(())).await?;
        ensure!(reply.completed == 1, "{} statements completed, not one", reply.completed);
        Ok(())
    }

    async fn insert_many(&mut self, connection: &mut Connection) -> Result<(Kind, u32)> {
        wire::query(&mut connection.output, |out| {
            for row in 0..MULTI_ROWS {
                let head: &[u8] = if row == 0 { b"insert into ins values " } else { b", " };
                let id = self.fresh_id();
                write_values(out, head, id, 0);
                self.writes += 1;
            }
        });
        connection.send().await?;
        let reply = connection.reply(|_| Ok(())).await?;
        self.check_written(reply, MULTI_ROWS)
    }

    async fn copy(&mut self, connection: &mut Connection) -> Result<(Kind, u32)> {
        wire::query(&mut connection.output, |out| out.extend_from_slice(b"copy ins from stdin"));
        connection.send().await?;
        connection.copy_in_response().await?;
        self.value.clear();
        for _ in 0..COPY_ROWS {
            let id = self.fresh_id();
            write_id(&mut self.value, id);
            self.value.push(b'\t');
            write_value(&mut self.value, id, 0);
            self.value.push(b'\n');
            self.writes += 1;
        }
        wire::copy_data(&mut connection.output, &self.value);
        wire::copy_done(&mut connection.output);
        connection.send().await?;
        let reply = connection.reply(|_| Ok(())).await?;
        self.check_written(reply, COPY_ROWS)
    }

    fn check_written(&self, reply: Reply, rows: u32) -> Result<(Kind, u32)> {
        let expected = match self.plan.verify {
            Verify::Contents => u64::from(rows),
            Verify::Shape => reply.affected,
        };
        ensure!(reply.affected == expected, "{} rows written, not {expected}", reply.affected);
        ensure!(reply.completed == 1, "{} statements completed, not one", reply.completed);
        Ok((Kind::Write, rows))
    }

    /// Ids interleave by connection; each is drawn before `writes` counts it.
    fn fresh_id(&self) -> u32 {
        self.plan.fresh_ids + self.writes * self.plan.connections + self.index
    }

    /// How many rows of `kv` this connection alone may change.
    fn own(&self) -> u32 {
        self.plan.rows / self.plan.connections
    }

    fn own_at(&self, at: u32) -> u32 {
        at * self.plan.connections + self.index
    }

    fn own_id(&mut self) -> u32 {
        let at = self.random.below(self.own());
        self.own_at(at)
    }

    fn request(&mut self, connection: &mut Connection, statement: Statement, id: u32, version: u32) {
        if self.plan.protocol.is_extended() {
            self.bind_execute(connection, statement, id, version);
            wire::sync(&mut connection.output);
        } else {
            wire::query(&mut connection.output, |out| statement.write_simple(out, id, version));
        }
    }

    fn bind_execute(&mut self, connection: &mut Connection, statement: Statement, id: u32, version: u32) {
        let format = self.plan.protocol.format();
        let scratch = &mut self.value;
        scratch.clear();
        match format {
            wire::Format::Text => write_id(scratch, id),
            wire::Format::Binary => scratch.extend_from_slice(&id.to_be_bytes()),
        }
        let split = scratch.len();
        match (statement, format) {
            (Statement::Refer, wire::Format::Text) => write_id(scratch, version),
            (Statement::Refer, wire::Format::Binary) => scratch.extend_from_slice(&version.to_be_bytes()),
            _ => write_value(scratch, id, version),
        }
        let (id, value) = scratch.split_at(split);
        let parameters = [id, value];
        let count = statement.prepared().1.len();
        wire::bind(&mut connection.output, statement.name(), format, &parameters[..count]);
        if self.plan.describe {
            wire::describe_portal(&mut connection.output);
        }
        wire::execute(&mut connection.output);
    }
}

/// The row of `t` has the known id, and a value that never decreases: the freshness check counts it up.
fn check_star(row: &[u8], verify: Verify, last: &mut i64) -> Result<()> {
    let (id, value) = wire::two_columns(row)?;
    if verify == Verify::Contents {
        ensure!(id == STAR_ID.as_bytes(), "t holds {:?}", String::from_utf8_lossy(id));
        let value = std::str::from_utf8(value)?.parse::<i64>().context("t.value is not an integer")?;
        ensure!(value >= *last, "t.value went back from {last} to {value}");
        *last = value;
    }
    Ok(())
}

/// The row has the id that was asked for, and a value that belongs to that id; with `version`, exactly that value.
fn check_row(row: &[u8], plan: &Plan, id: u32, version: Option<u32>, scratch: &mut Vec<u8>) -> Result<()> {
    let (got_id, got_value) = wire::two_columns(row)?;
    if plan.verify == Verify::Shape {
        return Ok(());
    }
    scratch.clear();
    match plan.protocol.format() {
        wire::Format::Text => write_id(scratch, id),
        wire::Format::Binary => scratch.extend_from_slice(&id.to_be_bytes()),
    }
    ensure!(got_id == scratch.as_slice(), "asked for id {id}, the row has {got_id:?}");
    scratch.clear();
    write_value(scratch, id, version.unwrap_or(0));
    let compared = if version.is_some() { scratch.len() } else { scratch.len() - 3 };
    let same = got_value.len() == scratch.len() && got_value[..compared] == scratch[..compared];
    ensure!(
        same,
        "row {id} holds {:?}, expected {:?}",
        String::from_utf8_lossy(got_value),
        String::from_utf8_lossy(&scratch[..compared])
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(protocol: Protocol) -> Plan {
        Plan {
            workload: Workload::Point,
            protocol,
            connections: 4,
            rows: 1000,
            fresh_ids: 1000,
            verify: Verify::Contents,
            describe: false,
            seed: 1,
        }
    }

    fn row(id: &[u8], value: &[u8]) -> Vec<u8> {
        let mut row = vec![0, 2];
        for field in [id, value] {
            row.extend_from_slice(&(field.len() as u32).to_be_bytes());
            row.extend_from_slice(field);
        }
        row
    }

    #[test]
    fn wrong_rows_are_noticed() {
        let text = plan(Protocol::Simple);
        let mut scratch = Vec::new();
        let mut check = |row: &[u8], version| check_row(row, &text, 12, version, &mut scratch);
        check(&row(b"12", b"v0000012-077"), None).expect("any version will do");
        check(&row(b"12", b"v0000012-077"), Some(77)).expect("the right version");
        assert!(check(&row(b"13", b"v0000013-000"), None).is_err());
        assert!(check(&row(b"12", b"v0000013-000"), None).is_err());
        assert!(check(&row(b"12", b"v0000012-077"), Some(78)).is_err());
        let binary = plan(Protocol::Binary);
        check_row(&row(&[0, 0, 0, 12], b"v0000012-000"), &binary, 12, None, &mut scratch).expect("the right row");
    }

    #[test]
    fn values_of_t_never_go_back() {
        let mut last = i64::MIN;
        check_star(&row(b"hello", b"42"), Verify::Contents, &mut last).expect("the first value");
        check_star(&row(b"hello", b"43"), Verify::Contents, &mut last).expect("a later value");
        assert!(check_star(&row(b"hello", b"42"), Verify::Contents, &mut last).is_err());
        assert!(check_star(&row(b"other", b"44"), Verify::Contents, &mut last).is_err());
    }
}
