//! Proof that the data under a read benchmark is live: a row written during the run is seen by the next read.
//!
//! How: beside the load, one session writes and, once the server has acknowledged, another session reads. The reader must
//! see the write. `t` counts its one value up; `kv` gains a row. Ten such pairs per second, so the load is not disturbed.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::admin::Session;
use crate::connection::Endpoint;
use crate::run::STOPPED;
use crate::workload::{STAR_ID, Statement, Workload};

const INTERVAL: Duration = Duration::from_millis(100);

/// Writes and reads until the run has stopped; how many pairs were checked.
pub fn check(endpoint: &Endpoint, workload: Workload, fresh_ids: u32, phase: &AtomicU8) -> Result<u64> {
    let mut writer = Session::connect(endpoint)?;
    let mut reader = Session::connect(endpoint)?;
    let mut checks = 0;
    while phase.load(Ordering::Relaxed) < STOPPED {
        let sequence = u32::try_from(checks).context("too many checks")?;
        match workload {
            Workload::SelectStar => count_up(&mut writer, &mut reader)?,
            Workload::Point => add_row(&mut writer, &mut reader, fresh_ids + sequence)?,
            _ => return Ok(0),
        }
        checks += 1;
        std::thread::sleep(INTERVAL);
    }
    Ok(checks)
}

fn count_up(writer: &mut Session, reader: &mut Session) -> Result<()> {
    let before = star_value(writer)?;
    writer.execute(&format!("update t set value = {} where id = '{STAR_ID}'", before + 1))?;
    let after = star_value(reader)?;
    ensure!(after == before + 1, "wrote value {} to t, the next read saw {after}", before + 1);
    Ok(())
}

fn star_value(session: &mut Session) -> Result<i64> {
    let rows = session.execute("select * from t")?;
    let value = rows.first().and_then(|row| row.get(1)).and_then(Option::as_deref);
    value.context("t is empty")?.parse().context("t.value is not an integer")
}

fn add_row(writer: &mut Session, reader: &mut Session, id: u32) -> Result<()> {
    writer.execute(&Statement::Add.text(id, 0))?;
    let rows = reader.execute(&Statement::Point.text(id, 0))?;
    ensure!(rows.len() == 1, "inserted row {id}, the next read saw {} rows", rows.len());
    Ok(())
}
