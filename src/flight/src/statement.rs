//! What a ticket and the handle of a prepared statement are: the statement itself, in which transaction it is, and a number. Who has one runs it
//! as whoever it is itself, so that nothing needs to be remembered of it but what is bound to it.

use crate::told::{malformed, refused};
use arrow::array::RecordBatch;
use ore::memory::Reservation;
use parking_lot::Mutex;
use prost::Message;
use repr::sqlstate::SqlState;
use std::collections::HashMap;
use std::sync::Arc;
use tonic::Status;

/// Bytes of a statement's number.
const NUMBER_BYTES: usize = 16;
/// Statements of a connection that something is bound to.
const BOUND_MAX: usize = 1024;

/// See the module.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Statement {
    #[prost(string, tag = "1")]
    pub(crate) query: String,
    /// Outside a transaction it is one of its own.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(crate) transaction: Option<Vec<u8>>,
    /// What it can be cancelled by while it runs.
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) number: Vec<u8>,
}

impl Statement {
    /// A statement that was asked for. Error 08P01 of one with NUL.
    pub(crate) fn new(query: String, transaction: Option<impl AsRef<[u8]>>) -> Result<Statement, Status> {
        let transaction = transaction.map(|id| id.as_ref().to_vec());
        let number = rand::random::<[u8; NUMBER_BYTES]>().to_vec();
        Statement { query, transaction, number }.checked()
    }

    /// The one that a ticket or a handle is. Error 08P01 of what is none.
    pub(crate) fn read(handle: &[u8]) -> Result<Statement, Status> {
        let statement = Statement::decode(handle).ok().filter(|statement| statement.number.len() == NUMBER_BYTES);
        statement.ok_or_else(|| malformed("this is no statement of this server"))?.checked()
    }

    fn checked(self) -> Result<Statement, Status> {
        if self.query.contains('\0') { Err(malformed("a statement has no NUL")) } else { Ok(self) }
    }
}

/// What is bound to prepared statements: rows of values, by the numbers of the statements.
#[derive(Default)]
pub(crate) struct Bound {
    values: Mutex<HashMap<Vec<u8>, Arc<Values>>>,
}

/// Rows of values, and their memory.
pub(crate) struct Values {
    pub(crate) batches: Vec<RecordBatch>,
    _memory: Reservation,
}

impl Values {
    /// Rows of values, and what memory they have.
    pub(crate) fn new(batches: Vec<RecordBatch>, memory: Reservation) -> Values {
        Values { batches, _memory: memory }
    }

    /// How many rows there are.
    pub(crate) fn row_count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The batch and the row in it of each.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&RecordBatch, usize)> {
        self.batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)))
    }
}

impl Bound {
    /// Binds values to a statement, instead of those before. Error 53400 of too many statements.
    pub(crate) fn bind(&self, number: &[u8], values: Values) -> Result<(), Status> {
        let mut bound = self.values.lock();
        if bound.len() >= BOUND_MAX && !bound.contains_key(number) {
            let message = format!("a connection has at most {BOUND_MAX} statements with values: close some");
            return Err(refused(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message));
        }
        bound.insert(number.to_vec(), Arc::new(values));
        Ok(())
    }

    /// What is bound to a statement.
    pub(crate) fn of(&self, number: &[u8]) -> Option<Arc<Values>> {
        self.values.lock().get(number).cloned()
    }

    /// Nobody needs a statement any more.
    pub(crate) fn forget(&self, number: &[u8]) {
        self.values.lock().remove(number);
    }
}
