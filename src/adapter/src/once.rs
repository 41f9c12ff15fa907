//! What is carried out once, however often it is asked for.
//!
//! A door gives what was asked for a key. What was answered becomes durable with what was done, as a note of the key
//! ([`committer::notes`]), or neither does: who does not know what became of a request sends it again, and gets the answer of the first
//! time. The answer has to be known before the commit. So a door begins a transaction that no statement can end
//! ([`Seat::begin_once`]), gathers the answer, and ends it with that ([`Seat::commit_once`]); a COPY has one answer
//! ([`Seat::copy_done_once`]). Of two that are carried out beside each other one commits, and the other fails: it looks again.

use crate::client::Client;
use crate::error::AdapterError;
use crate::response::Tag;
use crate::seat::Seat;
use crate::session::Session;
use crate::shared::Shared;
use crate::status::Status;
use crate::writing::copy_in::CopyIn;
use crate::writing::webhook::Webhook;
use committer::notes::{Name, Namespace, Note, Notes};
use repr::sqlstate::SqlState;
use sql_syntax::ast::TransactionModes;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// How long it is known what was answered.
const KEPT: Duration = Duration::from_hours(24);
const NAMESPACE: Namespace = Namespace("request");

/// Bytes of a key at the most.
pub const KEY_BYTES_MAX: usize = 200;

/// What is carried out once, of one who asks.
#[derive(Clone)]
pub struct Key {
    name: Name,
    shared: Arc<Shared>,
}

impl Key {
    /// A key of this owner's own. Error 54000 of one that is too long.
    fn of(shared: &Arc<Shared>, owner: impl Display, key: &str) -> Result<Key, AdapterError> {
        Ok(Key { name: Name::new(NAMESPACE, &format!("{owner}/{key}"))?, shared: Arc::clone(shared) })
    }

    /// What was answered to what has it, if that was carried out.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub async fn answered_before(&self) -> Result<Option<Vec<u8>>, AdapterError> {
        Ok(self.shared.committer.note(self.name.clone()).await?)
    }

    /// What a commit leaves: that this was answered, unless something was before. Error 54000 of an answer that is too long.
    pub(crate) fn answered_with(&self, answer: Vec<u8>) -> Result<Notes, AdapterError> {
        let kept_us = u64::try_from(KEPT.as_micros()).unwrap_or(u64::MAX);
        let note = Note::new(answer, Some(self.shared.clock.now_us().saturating_add(kept_us)))?;
        Ok(Notes { puts: vec![(self.name.clone(), Some(note))], requires: vec![(self.name.clone(), None)] })
    }
}

impl Session {
    /// A key, which is this role's own. Error 54000 of one that is too long.
    pub fn key(&self, key: &str) -> Result<Key, AdapterError> {
        Key::of(&self.shared, self.rights.own().oid, key)
    }

    /// Whether it is in a transaction that no statement can end.
    pub fn is_once(&self) -> bool {
        self.transaction.is_once
    }
}

impl Client {
    /// A key of a request to a webhook, whoever sends it. Error 54000 of one that is too long.
    pub fn webhook_key(&self, webhook: &Webhook, key: &str) -> Result<Key, AdapterError> {
        Key::of(&self.shared, webhook.item.id, key)
    }
}

impl Seat {
    /// Begins a transaction that [`Seat::commit_once`] ends, and no statement. Error 25001 in a transaction.
    pub fn begin_once(&mut self) -> Result<(), AdapterError> {
        if self.transaction.status != Status::Idle {
            let message = "there is already a transaction in progress";
            return Err(AdapterError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        Session::begin(self, &TransactionModes::default());
        self.transaction.is_once = true;
        Ok(())
    }

    /// Commits that transaction together with the answer; false if it has failed, and is rolled back. Errors: those of a commit, 40001 if
    /// the key was used meanwhile, 54000 of an answer that is too long.
    ///
    /// # Cancellation
    /// A write that was handed to the committer still commits.
    pub async fn commit_once(&mut self, key: &Key, answer: Vec<u8>) -> Result<bool, AdapterError> {
        self.back().await;
        let is_failed = self.transaction.status == Status::Failed;
        let ended = match key.answered_with(answer) {
            _ if is_failed => {
                self.roll_back_block();
                Ok(())
            }
            Ok(notes) => {
                self.transaction.notes = notes;
                Box::pin(self.commit_block()).await
            }
            Err(error) => {
                self.roll_back_block();
                Err(error)
            }
        };
        self.noted(ended)?;
        self.rest();
        Ok(!is_failed)
    }

    /// Commits the rows of a COPY together with the answer: all or nothing. Errors: as [`Seat::commit_once`].
    ///
    /// # Cancellation
    /// A write that was handed to the committer still commits.
    pub async fn copy_done_once(&mut self, copy: Box<CopyIn>, key: &Key, answer: Vec<u8>) -> Result<Tag, AdapterError> {
        let notes = key.answered_with(answer);
        self.transaction.notes = self.noted(notes)?;
        self.copy_done(copy).await
    }
}
