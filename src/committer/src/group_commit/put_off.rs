//! Requests that wait for what takes long, while the committer goes on with others.
//!
//! Reading all rows of a large table (its keys, at the first write to it after a start; its new rows, when its columns change; whether
//! they satisfy a new constraint) is done on a thread of its own. Meanwhile the table is *closed*: whoever wants to write to it is put
//! off, and so is whoever wants to change the catalog while a change is worked out. When the thread is done the table is open
//! again, and what was put off is looked at anew, in its order, before anything that has come since.

use super::revisions;
use crate::request::Request;
use repr::GlobalId;
use std::collections::{BTreeMap, VecDeque};

/// What is closed, and who waits for it.
#[derive(Default)]
pub(super) struct PutOff {
    /// How many threads are at work on each table.
    closed: BTreeMap<GlobalId, usize>,
    /// Whether a change of the catalog is being worked out.
    pub(super) is_changing: bool,
    waiting: VecDeque<Request>,
}

impl PutOff {
    /// Closes tables.
    pub(super) fn close(&mut self, tables: &[GlobalId]) {
        tables.iter().for_each(|table| *self.closed.entry(*table).or_default() += 1);
    }

    /// Opens tables that were closed once.
    pub(super) fn open(&mut self, tables: &[GlobalId]) {
        for table in tables {
            if let Some(count) = self.closed.get_mut(table) {
                *count -= 1;
            }
        }
        self.closed.retain(|_, count| *count > 0);
    }

    /// Whether a table is closed.
    pub(super) fn is_closed(&self, table: GlobalId) -> bool {
        self.closed.contains_key(&table)
    }

    /// Whether a request has to wait, which is about these tables.
    pub(super) fn concerns(&self, request: &Request, mut tables: impl Iterator<Item = GlobalId>) -> bool {
        if self.closed.is_empty() && !self.is_changing {
            return false;
        }
        match request {
            Request::Ddl(ddl) if self.is_changing => !revisions::are_temporary(&ddl.change.ops),
            Request::Write(_) | Request::Probe(_) | Request::Ddl(_) => tables.any(|table| self.is_closed(table)),
            _ => false,
        }
    }

    /// Keeps a request for later.
    pub(super) fn put_off(&mut self, request: Request) {
        self.waiting.push_back(request);
    }

    /// What waits, to be looked at anew.
    pub(super) fn take(&mut self) -> VecDeque<Request> {
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::PutOff;
    use crate::notes::Notes;
    use crate::request::{CatalogChange, DdlRequest, Request, TableWrite, WriteRequest};
    use catalog::transact::Op;
    use engine::names::SchemaId;
    use repr::{GlobalId, Updates};
    use tokio::sync::oneshot::channel;

    fn write(table: u64) -> Request {
        let writes = vec![TableWrite::new(GlobalId::User(table), Updates::new(), None)];
        Request::Write(WriteRequest { writes, expectations: Vec::new(), notes: Notes::default(), reply: channel().0 })
    }

    fn change(ops: Vec<Op>) -> Request {
        Request::Ddl(Box::new(DdlRequest { change: CatalogChange::new(1, ops), reply: channel().0 }))
    }

    fn concerns(put_off: &PutOff, request: &Request) -> bool {
        put_off.concerns(request, request.tables())
    }

    #[test]
    fn a_table_is_closed_until_everybody_has_opened_it() {
        let (mut put_off, table) = (PutOff::default(), GlobalId::User(1));
        assert!(!concerns(&put_off, &write(1)));
        put_off.close(&[table]);
        put_off.close(&[table, GlobalId::User(2)]);
        assert!(concerns(&put_off, &write(1)) && concerns(&put_off, &write(2)) && !concerns(&put_off, &write(3)));
        put_off.open(&[table]);
        assert!(concerns(&put_off, &write(1)));
        put_off.open(&[table, GlobalId::User(2)]);
        assert!(!concerns(&put_off, &write(1)) && !concerns(&put_off, &write(2)));
    }

    #[test]
    fn one_change_of_the_catalog_is_worked_out_at_a_time() {
        let mut put_off = PutOff::default();
        assert!(!concerns(&put_off, &change(Vec::new())));
        put_off.is_changing = true;
        let temporary = vec![Op::DropTemporary(SchemaId(7))];
        assert!(
            concerns(&put_off, &change(vec![Op::ResetSystem { name: None }]))
                && !concerns(&put_off, &change(temporary))
        );
        put_off.put_off(write(1));
        assert_eq!((put_off.take().len(), put_off.take().len()), (1, 0));
    }
}
