//! `--model-dir`: the semantic model in a directory is in the catalog as [`NAME`], and is what the directory says.
//!
//! The directory is looked at every second: files that are mounted or checked out come in ways that no watcher of files sees. A change of it
//! is one change of the catalog, or none: what cannot be read or bound leaves the model as it was, and is said in the log and by `readyz`. It is
//! tried again, since the tables may come later.

use crate::check_model::read;
use crate::http::Health;
use adapter::answer::{Answer, Follows, Statement, no_values};
use adapter::client::Client;
use adapter::error::AdapterError;
use adapter::made;
use adapter::seat::Seat;
use adapter::startup::StartupParams;
use anyhow::Context;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The schema of the model and its cubes.
pub const SCHEMA: &str = "cubes";
/// The model.
pub const NAME: &str = "cubes.model_dir";
/// How often the directory is looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// After how many looks at a directory that has not changed, and could not be applied, it is tried again.
const RETRY: u32 = 5;
/// Bytes of a batch of rows.
const BATCH_BYTES: usize = 1 << 16;

/// Texts by their paths.
type Files = BTreeMap<Arc<str>, String>;

/// Keeps the model what the directory says, for as long as it is polled.
pub(crate) async fn follow(dir: PathBuf, client: Client, health: Health) {
    // What was read last, what was wrong with it, and how often it was looked at since it was applied.
    let (mut seen, mut wrong, mut looks) = (None, None, 0);
    loop {
        match look(&dir).await {
            Ok(files) if seen.as_ref() == Some(&files) && (wrong.is_none() || looks < RETRY) => looks += 1,
            found => {
                let now = match &found {
                    Ok(files) => apply(&client, files).await.map_err(|error| with_detail(&error)).err(),
                    // A directory that cannot be read, or is being written, is not one without cubes.
                    Err(error) => Some(format!("{error:#}")),
                };
                match &now {
                    None => tracing::info!(dir = %dir.display(), "the model is what the directory says"),
                    Some(why) if wrong != now => {
                        tracing::error!(dir = %dir.display(), "the model is left as it was: {why}");
                    }
                    Some(_) => {}
                }
                health.model_is_wrong(now.clone());
                (seen, wrong, looks) = (found.ok(), now, 0);
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// What is in the directory.
async fn look(dir: &Path) -> anyhow::Result<Files> {
    let dir = dir.to_owned();
    tokio::task::spawn_blocking(move || read(&dir)).await.context("the directory was not read")?
}

/// All that is known of an error.
fn with_detail(error: &AdapterError) -> String {
    [Some(error.to_string()), error.detail(), error.hint()].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Has the model say what these files say. Errors: those of the statements, after which it says what it said.
async fn apply(client: &Client, files: &Files) -> Result<(), AdapterError> {
    let startup = StartupParams {
        user: "mz_system".to_owned(),
        database: Some("materialize".to_owned()),
        internal: true,
        options: vec![("application_name".to_owned(), "model_dir".to_owned())],
        claims: None,
        peer: None,
        local: None,
        encryption: None,
    };
    let mut seat = Seat::new(client.connect(startup)?);
    let done = run(&mut seat, files).await;
    seat.close().await;
    done
}

async fn run(seat: &mut Seat, files: &Files) -> Result<(), AdapterError> {
    if !is_there(seat, &format!("SELECT 1 FROM pg_namespace WHERE nspname = '{SCHEMA}'")).await? {
        for statement in [
            "BEGIN".to_owned(),
            format!("CREATE SCHEMA {SCHEMA}"),
            // As with Cube, who is let in may ask; what rows somebody sees is said by the model's policies.
            format!("GRANT USAGE ON SCHEMA {SCHEMA} TO PUBLIC"),
            format!("ALTER DEFAULT PRIVILEGES FOR ROLE mz_system IN SCHEMA {SCHEMA} GRANT SELECT ON TABLES TO PUBLIC"),
            "COMMIT".to_owned(),
        ] {
            done(seat, statement).await?;
        }
    }
    let texts = files.iter().map(|(name, text)| made::model_file(name, text)).collect::<Vec<_>>().join(", ");
    // The first says nothing where there is one, and the second does nothing where that is what there is.
    for verb in ["CREATE SEMANTIC MODEL IF NOT EXISTS", "ALTER SEMANTIC MODEL"] {
        done(seat, format!("{verb} {NAME} AS {texts}")).await?;
    }
    Ok(())
}

async fn is_there(seat: &mut Seat, query: &str) -> Result<bool, AdapterError> {
    match seat.answer(Statement::Text(query.to_owned()), no_values(), Follows::Nothing, BATCH_BYTES).await? {
        Answer::Rows(mut rows) => {
            let mut found = false;
            while let Some(batch) = rows.next().await? {
                found |= batch.num_rows() > 0;
            }
            Ok(found)
        }
        Answer::Done(_) | Answer::Empty => Ok(false),
    }
}

async fn done(seat: &mut Seat, statement: String) -> Result<(), AdapterError> {
    seat.answer(Statement::Text(statement), no_values(), Follows::Nothing, BATCH_BYTES).await.map(drop)
}
