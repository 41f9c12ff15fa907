//! Rows of webhooks, appended: a request is answered when they are durable.

use crate::client::{Client, may_log_in};
use crate::error::AdapterError;
use crate::once::Key;
use crate::startup::StartupParams;
use crate::transaction::{conflict, repeated};
use crate::writing::webhook::{Server, Webhook, unknown};
use committer::constraint::{Violation, Wording, duplicate};
use committer::notes::Notes;
use committer::request::{Committed, TableWrite};
use engine::names::{ObjectId, Privilege};
use pgrepr::options::EncodeOptions;
use repr::Updates;
use repr::sqlstate::SqlState;
use sql::plan::privileges::has_privilege;
use std::sync::Arc;

impl Client {
    /// The webhook with this name: database, schema and its own. Errors: 42P01, 57P03 while the server stops.
    pub fn webhook(&self, name: &[String; 3]) -> Result<Arc<Webhook>, AdapterError> {
        let shared = &self.shared;
        if shared.shutdown.is_cancelled() {
            return Err(AdapterError::new(SqlState::CANNOT_CONNECT_NOW, "the server is shutting down"));
        }
        shared.webhooks.named(&shared.published.load(), name, || Server {
            engine: Arc::clone(&shared.engine),
            clock: shared.clock.clone(),
            started_us: shared.started_us,
        })
    }

    /// Refuses who may not have a session, or not write to a webhook without a CHECK, if there is one. Errors: those of
    /// [`Client::connect`], 42501.
    pub fn check_insert(&self, startup: &StartupParams, webhook: Option<&Webhook>) -> Result<(), AdapterError> {
        let state = &self.shared.published.load().state;
        let database = self.database_for(&startup.user, startup.database.clone());
        let (role, _) = may_log_in(state, startup, &database)?;
        let Some(Webhook { item, .. }) = webhook else { return Ok(()) };
        let has = |object, privilege| has_privilege(state.as_ref(), role.id, object, privilege);
        let denied = match (has(ObjectId::Schema(item.schema), Privilege::Usage), &item.name) {
            (false, name) => format!("permission denied for schema {}", name.schema),
            (true, _) if has(ObjectId::Item(item.id), Privilege::Insert) => return Ok(()),
            (true, name) => format!("permission denied for source {}", name.item),
        };
        Err(AdapterError::new(SqlState::INSUFFICIENT_PRIVILEGE, denied))
    }

    /// Makes rows durable, and what was answered, if that is to be known. Errors: 42P01 if the webhook has gone, 23505 if it has a unique
    /// index, 40001 if the key was used meanwhile.
    ///
    /// # Cancellation
    /// What was handed to the committer still commits.
    pub async fn append(
        &self,
        webhook: &Webhook,
        rows: Updates,
        once: Option<(&Key, Vec<u8>)>,
    ) -> Result<(), AdapterError> {
        let notes = match once {
            Some((key, answer)) => key.answered_with(answer)?,
            None => Notes::default(),
        };
        if rows.is_empty() && notes.is_empty() {
            return Ok(());
        }
        let id = webhook.item.id;
        let mut writes = vec![TableWrite::new(id, rows, Some(Arc::clone(&webhook.constraints)))];
        self.shared.look_up_keys(&mut writes).await?;
        match self.shared.committer.commit_noted(writes, Vec::new(), notes).await? {
            Committed::At => Ok(()),
            Committed::Repeated => Err(repeated()),
            Committed::Conflict => match self.shared.published.load().tables.contains_key(&id) {
                true => Err(conflict()),
                false => Err(unknown(&webhook.item.name.to_string())),
            },
            Committed::Violates(violation) => {
                let wording =
                    Wording { table: &webhook.item.name, options: &EncodeOptions::default(), shows_rows: &|| false };
                match violation.as_ref() {
                    Violation::Duplicate(taken) => Err(duplicate(taken, wording).into()),
                    Violation::Orphan(_) => Err(AdapterError::internal("a webhook refers to nothing")),
                }
            }
        }
    }
}
