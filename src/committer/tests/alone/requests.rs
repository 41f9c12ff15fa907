//! What sessions of a simulation ask for.

use crate::choices::Choices;
use crate::model::{COLUMNS, Change, Model, Row, encode, encode_key};
use crate::process::Process;
use compute_client::index::IndexHandle;
use compute_client::plan::lir::{Lir, Node};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use glimpse_committer::error::CommitError;
use glimpse_committer::expectations::{Expectation, KeyRange};
use glimpse_committer::notes::{Name, Namespace, Note, Notes};
use glimpse_committer::plans::Target;
use glimpse_committer::request::{Committed, Probed, TableWrite};
use glimpse_committer::sequence::Sequence;
use repr::{GlobalId, Timestamp};
use std::sync::Arc;

/// Keys that rows have: few, so that they are fought for.
const KEYS: usize = 6;

/// What is asked for, as far as it says something about the answer.
#[derive(Clone)]
pub(crate) enum Wish {
    /// That these changes are made, if what was read is as it was, and once: if there is a token, whoever does not know what became of
    /// it asks for the same again.
    Write { changes: Vec<Change>, read: Option<Read>, once: Option<Once> },
    /// That the catalog is changed, and these rows with it.
    Define { effect: Effect, changes: Vec<Change> },
    /// To know whether a key of a table is taken.
    Probe { table: GlobalId, constraint: u32, key: i32 },
    /// That time goes on.
    Tick,
    /// Values of a sequence.
    Reserve { name: String, sequence: Arc<Sequence>, count: u64 },
    /// To follow a table.
    Subscribe { table: String },
}

/// The token of something that is to happen once.
#[derive(Clone, Debug)]
pub(crate) struct Once {
    pub(crate) token: i32,
    /// Whether it has happened before, unbeknownst to whoever asks again.
    pub(crate) has_happened: bool,
}

impl Once {
    pub(crate) fn name(&self) -> Name {
        Name::new(Namespace("once"), &self.token.to_string()).expect("it is short")
    }

    /// That the token was not used before, and is from now on.
    fn notes(&self, choices: &mut Choices) -> Notes {
        // Nobody asks again after that long.
        let expires_us = choices.one_in(2).then_some(u64::MAX / 2);
        let note = Note::new(self.token.to_be_bytes().to_vec(), expires_us).expect("it is short");
        Notes { puts: vec![(self.name(), Some(note))], requires: vec![(self.name(), None)] }
    }
}

/// A table, or its rows with one key, that was read.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) table: String,
    pub(crate) key: Option<i32>,
}

/// What a change of the catalog leads to.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Table { name: String, is_keyed: bool },
    View { name: String, of: Vec<String> },
    Index { name: String },
    Unique { name: String, on: String },
    Sequence { name: String },
    Drop { name: String },
}

/// What was answered.
pub(crate) enum Answer {
    Committed(Result<Committed, CommitError>),
    Probed(Result<Probed, CommitError>),
    Done(Result<(), CommitError>),
    Followed(Result<Arc<IndexHandle>, CommitError>),
}

/// Something that was asked for.
pub(crate) struct Asked {
    pub(crate) wish: Wish,
    pub(crate) answer: LocalBoxFuture<'static, Answer>,
    /// How many changes and faults there had been, and how many changes of the catalog.
    pub(crate) log_at: usize,
    pub(crate) faults: usize,
    pub(crate) revision: u64,
}

/// Names and numbers that nothing else has.
#[derive(Default)]
pub(crate) struct Fresh(i32);

impl Fresh {
    fn number(&mut self) -> i32 {
        self.0 += 1;
        self.0
    }
}

/// Any request that makes sense now; `None` if the one that was thought of does not.
pub(crate) fn any(
    process: &Process,
    model: &Model,
    choices: &mut Choices,
    fresh: &mut Fresh,
) -> Option<(Wish, LocalBoxFuture<'static, Answer>)> {
    let handle = process.env.handle.clone();
    match choices.below(20) {
        0..10 => {
            let (changes, read) = changes(model, choices, fresh)?;
            let mut writes = writes(process, &changes, choices)?;
            let expectations = match &read {
                Some(read) => vec![expectation(process, read)?],
                None => Vec::new(),
            };
            let is_blind = read.is_none() && choices.one_in(2);
            let once = is_blind.then(|| Once { token: fresh.number(), has_happened: false });
            let notes = once.as_ref().map(|once| once.notes(choices)).unwrap_or_default();
            let wish = Wish::Write { changes, read, once };
            let looks_up = choices.one_in(3);
            let ask = async move {
                for write in writes.iter_mut().filter(|_| looks_up) {
                    if let Err(error) = handle.look_up_keys(write).await {
                        return Answer::Committed(Err(error));
                    }
                }
                Answer::Committed(handle.commit_noted(writes, expectations, notes).await)
            };
            Some((wish, ask.boxed_local()))
        }
        10..14 => {
            let (sql, effect) = definition(model, choices, fresh)?;
            // What depends on it, or is not there any more: a session would be told.
            let mut change = process.change(&sql).ok()?;
            let mut also = Vec::new();
            if choices.one_in(4) && !matches!(effect, Effect::Drop { .. }) {
                also.extend(inserts(model, choices, fresh));
                change.writes = writes(process, &also, choices)?;
            }
            let wish = Wish::Define { effect, changes: also };
            Some((wish, async move { Answer::Committed(handle.change_catalog(change).await) }.boxed_local()))
        }
        14 => {
            let name = choices.of_these(&model.tables.keys().collect::<Vec<_>>())?.as_str();
            let (table, constraints) = (process.id(name)?, process.table(name).1.constraints);
            let (key, unique) = (key(choices), constraints.keys.first()?);
            let bytes = unique.of(&constraints.types, &encode((key, 0))).expect("it is not NULL");
            let keys = vec![(unique.oid, bytes.to_vec())];
            let wish = Wish::Probe { table, constraint: unique.oid, key };
            Some((wish, async move { Answer::Probed(handle.probe(table, keys).await) }.boxed_local()))
        }
        15 => Some((Wish::Tick, async move { Answer::Done(handle.tick().await) }.boxed_local())),
        16 => Some((Wish::Tick, async move { Answer::Done(handle.settle().await) }.boxed_local())),
        17 | 18 => {
            let name = choices.of_these(&model.sequences.keys().cloned().collect::<Vec<_>>())?.clone();
            let sequence = process.env.published.load().sequences.get(&process.id(&name)?).cloned()?;
            let (asked, count) = (Arc::clone(&sequence), 1 + choices.below(40) as u64);
            let wish = Wish::Reserve { name, sequence, count };
            Some((wish, async move { Answer::Done(handle.reserve(asked, count).await) }.boxed_local()))
        }
        _ => {
            let table = choices.of_these(&model.tables.keys().cloned().collect::<Vec<_>>())?.clone();
            let (id, schema) = (process.id(&table)?, Arc::clone(&process.table(&table).1.desc.schema));
            let target = Target { plan: Lir { node: Node::Get(id), schema }, cluster: "quickstart".to_owned() };
            let as_of = process.env.oracle.known_ts();
            let ask = async move { Answer::Followed(handle.subscribe(target, vec![id], as_of).await) };
            Some((Wish::Subscribe { table }, ask.boxed_local()))
        }
    }
}

/// The same again, of which nobody was told what became.
pub(crate) fn again(
    process: &Process,
    choices: &mut Choices,
    changes: &[Change],
    once: &Once,
) -> Option<LocalBoxFuture<'static, Answer>> {
    let (writes, notes, handle) = (writes(process, changes, choices)?, once.notes(choices), process.env.handle.clone());
    Some(async move { Answer::Committed(handle.commit_noted(writes, Vec::new(), notes).await) }.boxed_local())
}

fn key(choices: &mut Choices) -> i32 {
    i32::try_from(choices.below(KEYS)).expect("there are few")
}

fn new_row(choices: &mut Choices, fresh: &mut Fresh) -> Row {
    (key(choices), fresh.number())
}

/// Rows for a table, whatever is in it.
fn inserts(model: &Model, choices: &mut Choices, fresh: &mut Fresh) -> Option<Change> {
    let table = choices.of_these(&model.tables.keys().collect::<Vec<_>>())?.to_string();
    let new = (0..=choices.below(3)).map(|_| new_row(choices, fresh)).collect();
    Some(Change { table, out: Vec::new(), new })
}

/// Changes of one or two tables, and what was read for them.
fn changes(model: &Model, choices: &mut Choices, fresh: &mut Fresh) -> Option<(Vec<Change>, Option<Read>)> {
    let mut first = inserts(model, choices, fresh)?;
    let read = choices.one_in(2).then(|| {
        let key = choices.one_in(2).then(|| key(choices));
        let rows = model.tables[&first.table].iter().filter(|row| key.is_none_or(|key| row.0 == key));
        first.out = rows.copied().filter(|_| !choices.one_in(3)).collect();
        if let Some(key) = key {
            first.new.truncate(1);
            first.new[0].0 = key;
        }
        Read { table: first.table.clone(), key }
    });
    let second = choices.one_in(4).then(|| inserts(model, choices, fresh)).flatten();
    let second = second.filter(|second| second.table != first.table);
    Some(([first].into_iter().chain(second).collect(), read))
}

fn writes(process: &Process, changes: &[Change], choices: &mut Choices) -> Option<Vec<TableWrite>> {
    let write = |change: &Change| {
        process.id(&change.table)?;
        let (id, table) = process.table(&change.table);
        let checked = (!choices.one_in(4)).then_some(table.constraints);
        Some(TableWrite::new(id, change.updates(), checked))
    };
    changes.iter().map(write).collect()
}

fn expectation(process: &Process, read: &Read) -> Option<Expectation> {
    let rows = read.key.map(|key| Arc::new(KeyRange::new(COLUMNS.into(), vec![0], vec![encode_key(key)])));
    let read_ts: Timestamp = process.env.oracle.known_ts();
    Some(Expectation { table: process.id(&read.table)?, read_ts, rows })
}

/// A statement that changes the catalog, and what it leads to.
fn definition(model: &Model, choices: &mut Choices, fresh: &mut Fresh) -> Option<(String, Effect)> {
    let number = fresh.number();
    let tables: Vec<&String> = model.tables.keys().collect();
    let relations: Vec<&String> = model.tables.keys().chain(model.views.keys()).collect();
    let drop = |kind: &str, name: Option<&&String>| {
        let name = name?.to_string();
        Some((format!("DROP {kind} {name} CASCADE"), Effect::Drop { name }))
    };
    match choices.below(12) {
        0 | 1 => {
            let (name, is_keyed) = (format!("t{number}"), choices.one_in(2));
            let key = if is_keyed { "PRIMARY KEY" } else { "" };
            Some((format!("CREATE TABLE {name} (k int {key}, v int)"), Effect::Table { name, is_keyed }))
        }
        2 => drop("TABLE", choices.of_these(&tables)),
        3 | 4 => {
            let name = format!("v{number}");
            let of: Vec<String> = (0..=choices.below(2))
                .filter_map(|_| choices.of_these(&relations))
                .map(|name| name.to_string())
                .collect();
            let parts: Vec<String> = of.iter().map(|name| format!("SELECT * FROM {name}")).collect();
            let query = parts.join(" UNION ALL ");
            (!of.is_empty()).then(|| (format!("CREATE MATERIALIZED VIEW {name} AS {query}"), Effect::View { name, of }))
        }
        5 => drop("MATERIALIZED VIEW", choices.of_these(&model.views.keys().collect::<Vec<_>>())),
        6 | 7 => {
            let (name, on) = (format!("i{number}"), choices.of_these(&relations)?);
            Some((format!("CREATE INDEX {name} ON {on} (k)"), Effect::Index { name }))
        }
        8 => {
            let (name, on) = (format!("u{number}"), choices.of_these(&tables)?.to_string());
            Some((format!("CREATE UNIQUE INDEX {name} ON {on} (k)"), Effect::Unique { name, on }))
        }
        9 => {
            let of_index = |name: &&&String| name.starts_with('u');
            let unique: Vec<&String> = model.unique.keys().collect();
            drop("INDEX", choices.of_these(&unique.iter().filter(of_index).copied().collect::<Vec<_>>()))
        }
        10 => {
            let name = format!("s{number}");
            Some((format!("CREATE SEQUENCE {name}"), Effect::Sequence { name }))
        }
        _ => drop("SEQUENCE", choices.of_these(&model.sequences.keys().collect::<Vec<_>>())),
    }
}
