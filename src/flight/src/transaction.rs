//! Sessions that are kept from one call to another: those of transactions.
//!
//! A transaction is its connection's: it is rolled back when that ends, and when its session does. One call of it is carried out at a time.

use crate::statement::quoted;
use crate::told::{refused, told};
use crate::welcome::{Own, Visitor};
use adapter::answer::{Answer, Follows, Statement, no_values};
use adapter::error::AdapterError;
use adapter::response::Tag;
use adapter::seat::Seat;
use door::visitor::{Place, Seated};
use ore::task::{JoinHandle, spawn};
use parking_lot::Mutex;
use repr::sqlstate::SqlState;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
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
    user: String,
    kept: Arc<tokio::sync::Mutex<Kept>>,
    /// Ends it with its session.
    _watch: JoinHandle<()>,
}

/// What is kept of a transaction.
pub(crate) struct Kept {
    /// Its session, until it has ended.
    session: Option<(Seat, Place)>,
    /// How many calls of it are over.
    call_count: u64,
}

impl Kept {
    fn end(&mut self) {
        if let Some((seat, _)) = self.session.take() {
            spawn("transaction_end", seat.close()).detach();
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.end();
    }
}

/// The session of a call.
pub(crate) enum Chair {
    /// Its own.
    Own(Seated<Own>),
    /// A transaction's.
    Kept(OwnedMutexGuard<Kept>),
}

impl Chair {
    /// Whether what is done here goes on with other calls.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Chair::Kept(_))
    }

    /// The call is over.
    pub(crate) async fn leave(self) {
        match self {
            Chair::Own(mut seated) => {
                if let Some(session) = seated.here()
                    && session.transaction_status() != adapter::status::Status::Idle
                {
                    session.fail_transaction();
                }
                seated.give_back().await;
            }
            Chair::Kept(mut kept) => {
                kept.call_count += 1;
                let count = kept.call_count;
                // Noted as waiting for its client.
                let Some((seat, _)) = kept.session.as_mut() else { return };
                let _status = seat.transaction_status();
                let Some(patience) = seat.here().and_then(|session| session.idle_timeout()) else { return };
                let of = Arc::downgrade(OwnedMutexGuard::mutex(&kept));
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
    }
}

impl Deref for Chair {
    type Target = Seat;

    fn deref(&self) -> &Seat {
        match self {
            Chair::Own(seated) => seated,
            Chair::Kept(kept) => &kept.session.as_ref().expect("a transaction that was found goes on").0,
        }
    }
}

impl DerefMut for Chair {
    fn deref_mut(&mut self) -> &mut Seat {
        match self {
            Chair::Own(seated) => seated,
            Chair::Kept(kept) => &mut kept.session.as_mut().expect("a transaction that was found goes on").0,
        }
    }
}

fn unknown() -> Status {
    refused(
        SqlState::INVALID_TRANSACTION_STATE,
        "there is no such transaction: it has ended, or is another connection's",
    )
}

impl Transactions {
    /// Begins one. Errors: 53400 of too many, those of BEGIN.
    pub(crate) async fn begin(&self, visitor: &Arc<Visitor>, mut seated: Seated<Own>) -> Result<Vec<u8>, Status> {
        if self.open.lock().len() >= TRANSACTIONS_MAX {
            let message = format!("a connection has at most {TRANSACTIONS_MAX} transactions at a time");
            return Err(refused(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message));
        }
        let user = seated.place().user.clone();
        said(&mut seated, "BEGIN").await?;
        let (ended, id) = (seated.shutdown(), rand::random::<[u8; 16]>().to_vec());
        let kept = Arc::new(tokio::sync::Mutex::new(Kept { session: Some(seated.take()), call_count: 0 }));
        let (of, number): (Weak<Visitor>, _) = (Arc::downgrade(visitor), id.clone());
        let watch = spawn("transaction_watch", async move {
            ended.cancelled().await;
            if let Some(visitor) = of.upgrade() {
                let _ended = visitor.own.transactions.open.lock().remove(&number);
            }
        });
        self.open.lock().insert(id.clone(), Arc::new(Transaction { user, kept, _watch: watch }));
        Ok(id)
    }

    /// The session of one, once no other call of it is under way. Errors: 25000 if there is none.
    pub(crate) async fn seat(&self, id: &[u8], user: &str) -> Result<Chair, Status> {
        let kept = self.open.lock().get(id).filter(|open| open.user == user).map(|open| Arc::clone(&open.kept));
        let mut kept = kept.ok_or_else(unknown)?.lock_owned().await;
        match &mut kept.session {
            None => Err(unknown()),
            Some((seat, _)) => {
                // Of a call that was given up it may be at work still.
                seat.back().await;
                Ok(Chair::Kept(kept))
            }
        }
    }

    /// Ends one. Errors: 25000 if there is none, those of COMMIT, 25P02 if there is nothing that can be committed.
    pub(crate) async fn end(&self, visitor: &Arc<Visitor>, id: &[u8], user: &str, how: End) -> Result<(), Status> {
        let Chair::Kept(mut kept) = self.seat(id, user).await? else { return Err(unknown()) };
        let Some(taken) = kept.session.take() else { return Err(unknown()) };
        let mut seated = Seated::again(visitor, taken);
        let ended = self.open.lock().remove(id);
        let said = said(&mut seated, how.statement()).await;
        seated.give_back().await;
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
    pub(crate) async fn say(&self, own: &Own, user: &str, what: &str) -> Result<(), Status> {
        let mut chair = own.transactions.seat(&self.transaction, user).await?;
        let done = said(&mut chair, &format!("{what} {}", quoted(&self.name))).await;
        chair.leave().await;
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
