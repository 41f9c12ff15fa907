//! Sessions that are kept from one call to another: those of transactions.
//!
//! A transaction is its connection's: it is rolled back when that ends, when its session does, and when nobody goes on with it for as long as the
//! session's parameters say. One call of it is carried out at a time. What a call has not done to its end has failed, and so the transaction.

use crate::told::{refused, told};
use adapter::answer::{Answer, Follows, Statement, no_values};
use adapter::error::AdapterError;
use adapter::made::named;
use adapter::response::Tag;
use adapter::seat::Seat;
use adapter::status::Status as Stands;
use door::place::Who;
use ore::task::{JoinHandle, spawn};
use parking_lot::Mutex;
use repr::sqlstate::SqlState;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use tonic::Status;

/// Transactions of a connection at a time.
const TRANSACTIONS_MAX: usize = 100;

/// The transactions of a connection, by what they are called.
#[derive(Default)]
pub(crate) struct Transactions {
    open: Mutex<HashMap<Vec<u8>, Arc<Transaction>>>,
}

/// A transaction that has begun.
struct Transaction {
    who: Who,
    kept: Arc<tokio::sync::Mutex<Kept>>,
    /// Ends it with its session.
    _watch: JoinHandle<()>,
}

/// What is kept of a transaction.
struct Kept {
    /// Its session, until it has ended.
    seat: Option<Seat>,
    /// How many calls of it are over.
    call_count: u64,
}

impl Kept {
    fn end(&mut self) {
        if let Some(seat) = self.seat.take() {
            spawn("transaction_end", seat.close()).detach();
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.end();
    }
}

/// The session of a transaction during a call.
pub(crate) struct KeptSeat {
    kept: OwnedMutexGuard<Kept>,
    /// Whether the call has come to its end.
    is_done: bool,
}

impl KeptSeat {
    /// The call has come to its end, whatever that is.
    pub(crate) fn leave(mut self) {
        self.is_done = true;
    }
}

impl Drop for KeptSeat {
    /// The transaction waits for its next call: so long as it may, and if there is still one.
    fn drop(&mut self) {
        self.kept.call_count += 1;
        let count = self.kept.call_count;
        let Some(seat) = self.kept.seat.as_mut() else { return };
        if let Some(session) = seat.here().filter(|_| !self.is_done) {
            session.fail_transaction();
        }
        // A statement may have ended it: what came after that would be none of it.
        if seat.transaction_status() == Stands::Idle {
            return self.kept.end();
        }
        let Some(patience) = seat.here().and_then(|session| session.idle_timeout()) else { return };
        let of = Arc::downgrade(OwnedMutexGuard::mutex(&self.kept));
        spawn("transaction_patience", async move {
            tokio::time::sleep(patience).await;
            let Some(kept) = of.upgrade() else { return };
            if let Ok(mut kept) = kept.try_lock()
                && kept.call_count == count
            {
                kept.end();
            }
        })
        .detach();
    }
}

impl Deref for KeptSeat {
    type Target = Seat;

    fn deref(&self) -> &Seat {
        self.kept.seat.as_ref().expect("a transaction that was found goes on")
    }
}

impl DerefMut for KeptSeat {
    fn deref_mut(&mut self) -> &mut Seat {
        self.kept.seat.as_mut().expect("a transaction that was found goes on")
    }
}

fn unknown() -> Status {
    let message = "there is no such transaction: it has ended, or is another connection's";
    refused(SqlState::INVALID_TRANSACTION_STATE, message)
}

impl Transactions {
    /// Begins one in a session of whoever this is. Errors: 53400 of too many, those of BEGIN.
    pub(crate) async fn begin(self: &Arc<Transactions>, who: &Who, mut seat: Seat) -> Result<Vec<u8>, Status> {
        // What has ended by itself is not one.
        let goes_on = |open: &Transaction| open.kept.try_lock().map_or(true, |kept| kept.seat.is_some());
        let count = {
            let mut open = self.open.lock();
            open.retain(|_, open| goes_on(open));
            open.len()
        };
        let begun = match count < TRANSACTIONS_MAX {
            true => said(&mut seat, "BEGIN").await.map(drop),
            false => {
                let message = format!("a connection has at most {TRANSACTIONS_MAX} transactions at a time");
                Err(refused(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message))
            }
        };
        if let Err(status) = begun {
            seat.close().await;
            return Err(status);
        }
        let (ended, id) = (seat.shutdown(), rand::random::<[u8; 16]>().to_vec());
        let kept = Arc::new(tokio::sync::Mutex::new(Kept { seat: Some(seat), call_count: 0 }));
        let (of, number) = (Arc::downgrade(self), id.clone());
        let watch = spawn("transaction_watch", async move {
            ended.cancelled().await;
            if let Some(transactions) = of.upgrade() {
                let _ended = transactions.open.lock().remove(&number);
            }
        });
        let waits = KeptSeat { kept: Arc::clone(&kept).lock_owned().await, is_done: true };
        self.open.lock().insert(id.clone(), Arc::new(Transaction { who: who.clone(), kept, _watch: watch }));
        waits.leave();
        Ok(id)
    }

    /// The session of one, once no other call of it is under way. Errors: 25000 if there is none.
    pub(crate) async fn seat(&self, id: &[u8], who: &Who) -> Result<KeptSeat, Status> {
        let kept = self.open.lock().get(id).filter(|open| open.who == *who).map(|open| Arc::clone(&open.kept));
        let mut kept = kept.ok_or_else(unknown)?.lock_owned().await;
        // Of a call that was given up it may be at work still.
        kept.seat.as_mut().ok_or_else(unknown)?.back().await;
        Ok(KeptSeat { kept, is_done: false })
    }

    /// Ends one. Errors: 25000 if there is none, those of COMMIT, 25P02 if there is nothing that can be committed.
    pub(crate) async fn end(&self, id: &[u8], who: &Who, how: End) -> Result<(), Status> {
        let mut seat = self.seat(id, who).await?.kept.seat.take().ok_or_else(unknown)?;
        let ended = self.open.lock().remove(id);
        let said = said(&mut seat, how.statement()).await;
        seat.close().await;
        drop(ended);
        match (how, said?) {
            (End::Commit, Tag::Plain("ROLLBACK")) => Err(refused(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "the transaction is rolled back: a statement of it has failed",
            )),
            _ => Ok(()),
        }
    }

    /// Rolls all of them back.
    pub(crate) fn end_all(&self) {
        self.open.lock().clear();
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Rollback,
}

impl End {
    fn statement(self) -> &'static str {
        match self {
            End::Commit => "COMMIT",
            End::Rollback => "ROLLBACK",
        }
    }
}

/// A savepoint: of which transaction, and what it is called.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Savepoint {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) transaction: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
}

impl Savepoint {
    /// Does something with it: SAVEPOINT, RELEASE SAVEPOINT or ROLLBACK TO SAVEPOINT.
    pub(crate) async fn say(&self, transactions: &Transactions, who: &Who, what: &str) -> Result<(), Status> {
        let mut seat = transactions.seat(&self.transaction, who).await?;
        let done = said(&mut seat, &format!("{what} {}", named([self.name.as_str()]))).await;
        seat.leave();
        done.map(drop)
    }
}

/// Runs a statement without rows.
pub(crate) async fn said(seat: &mut Seat, statement: &str) -> Result<Tag, Status> {
    let answered = async {
        let statement = Statement::Text(statement.to_owned());
        let tag = match Box::pin(seat.answer(statement, no_values(), Follows::Others, 1)).await? {
            Answer::Done(tag) => tag,
            _ => return Err(AdapterError::internal("a statement without rows has some")),
        };
        seat.commit().await?;
        Ok(tag)
    };
    answered.await.map_err(|error| told(&error))
}
