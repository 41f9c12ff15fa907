//! `pg_stat_activity`, `pg_stat_ssl`, `mz_sessions` and `pg_locks`: who is connected, and what they do; and what a session sees of itself only,
//! `pg_prepared_statements` and `pg_cursors`.
//!
//! As in PostgreSQL, everybody sees that a session is there; what it does is for superusers and for members of its role.

use super::introspection::{LockStatus, Locked, SessionStatus};
use super::{Context, Producer, SystemRelation, maybe, text};
use crate::builtin::standard::may_see;
use arrow::array::RecordBatch;
use engine::error::SqlError;
use engine::session::{Cursor, PreparedStatement};
use repr::GlobalId;
use repr::datum::Datum;
use sql::plan::CatalogView;
use std::collections::HashMap;

pub(super) fn producer(name: &str) -> Option<Producer> {
    Some(match name {
        "pg_stat_activity" => pg_stat_activity,
        "pg_stat_ssl" => pg_stat_ssl,
        "mz_sessions" => mz_sessions,
        "pg_prepared_statements" => pg_prepared_statements,
        "pg_cursors" => pg_cursors,
        "pg_locks" => pg_locks,
        _ => return None,
    })
}

fn sessions(context: &Context<'_>) -> Vec<SessionStatus> {
    let mut all = context.live.sessions();
    all.sort_by_key(|session| session.id);
    all
}

fn address(session: &SessionStatus) -> Datum<'static> {
    maybe(session.peer, |peer| text(peer.ip().to_canonical().to_string()))
}

fn number(id: u32) -> i32 {
    i32::try_from(id).unwrap_or(i32::MAX)
}

/// What a statement waits for that has to wait until fewer run.
const WAITS_FOR_TURN: &str = "AdHocAdmission";

/// Whether the session may know what another one does.
fn may_know(context: &Context<'_>, of: &SessionStatus) -> bool {
    may_see(context, of.role) && context.session.may_know_of(of.claims.as_ref())
}

fn pg_stat_activity(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let locks = context.live.locks();
    let wanted = locks.iter().filter(|lock| !lock.granted).map(|lock| (lock.session, locktype(lock.what)));
    let wanted: HashMap<u32, &str> = wanted.collect();
    let row = |session: &SessionStatus| {
        let seen = may_know(context, session);
        let shown = |value: Datum<'static>| if seen { value } else { Datum::Null };
        let time = |us: Option<i64>| shown(maybe(us, Datum::Timestamp));
        let database = context.catalog.database_by_name(&session.database);
        let waits = match (wanted.get(&session.id), session.is_waiting_for_turn) {
            _ if !seen => None,
            (Some(lock), _) => Some(("Lock", *lock)),
            (None, true) => Some(("Extension", WAITS_FOR_TURN)),
            (None, false) => None,
        };
        let statement = if seen { session.statement.as_ref() } else { "<insufficient privilege>" };
        [
            maybe(database, |database| Datum::Oid(database.oid)),
            text(&session.database),
            Datum::Int4(number(session.id)),
            Datum::Oid(context.role_oid(session.role)),
            text(context.role_name(session.role)),
            text(&session.application_name),
            shown(address(session)),
            shown(maybe(session.peer, |peer| Datum::Int4(peer.port().into()))),
            time(Some(session.started_us)),
            time(session.transaction_us),
            time(session.statement_us),
            time(Some(session.changed_us)),
            maybe(waits, |(kind, _)| text(kind)),
            maybe(waits, |(_, event)| text(event)),
            shown(text(session.state)),
            text(statement),
            shown(text("client backend")),
        ]
    };
    relation.batch(
        [
            "datid",
            "datname",
            "pid",
            "usesysid",
            "usename",
            "application_name",
            "client_addr",
            "client_port",
            "backend_start",
            "xact_start",
            "query_start",
            "state_change",
            "wait_event_type",
            "wait_event",
            "state",
            "query",
            "backend_type",
        ],
        sessions(context).iter().map(row).collect(),
    )
}

/// As in PostgreSQL, others are not even named.
fn pg_stat_ssl(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |session: &SessionStatus| {
        let encryption = session.encryption.as_ref();
        [
            Datum::Int4(number(session.id)),
            Datum::Bool(encryption.is_some()),
            maybe(encryption, |encryption| text(encryption.version)),
            maybe(encryption, |encryption| text(&encryption.cipher)),
            maybe(encryption, |encryption| Datum::Int4(encryption.bits)),
        ]
    };
    let seen = sessions(context).into_iter().filter(|session| may_know(context, session));
    relation.batch(["pid", "ssl", "version", "cipher", "bits"], seen.map(|session| row(&session)).collect())
}

fn mz_sessions(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |session: &SessionStatus| {
        [
            text(session.id.to_string()),
            Datum::Int8(session.id.into()),
            super::mz_catalog::role_id(session.role),
            address(session),
            Datum::Timestamp(session.started_us),
        ]
    };
    let rows = sessions(context).iter().map(row).collect();
    relation.batch(["id", "connection_id", "role_id", "client_ip", "connected_at"], rows)
}

/// Nobody counts how often a plan was used, or asks whether it is for one execution only.
fn pg_prepared_statements(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let own = context.session.own.as_ref();
    let row = |statement: PreparedStatement| {
        let params = statement.params.iter().map(|ty| Datum::Oid(pgrepr::types::oid(ty)));
        [
            text(statement.name),
            text(statement.text.as_ref()),
            Datum::Timestamp(statement.prepared_us),
            Datum::List(params.collect()),
            Datum::Bool(statement.from_sql),
        ]
    };
    let rows = own.map_or_else(Vec::new, |own| own.prepared_statements()).into_iter().map(row).collect();
    relation.batch(["name", "statement", "prepare_time", "parameter_types", "from_sql"], rows)
}

fn pg_cursors(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let own = context.session.own.as_ref();
    let row = |cursor: Cursor| {
        [
            text(cursor.name),
            text(cursor.text.as_ref()),
            Datum::Bool(cursor.is_holdable),
            Datum::Bool(cursor.is_binary),
            Datum::Bool(false),
            Datum::Timestamp(cursor.created_us),
        ]
    };
    let rows = own.map_or_else(Vec::new, |own| own.cursors()).into_iter().map(row).collect();
    relation.batch(["name", "statement", "is_holdable", "is_binary", "is_scrollable", "creation_time"], rows)
}

/// What PostgreSQL calls a lock on such a thing.
fn locktype(what: Locked) -> &'static str {
    match what {
        Locked::Advisory { .. } => "advisory",
        Locked::Row(_) => "tuple",
        Locked::Table(_) => "relation",
    }
}

/// Locks on rows are not told apart: there are no pages and places in them.
fn pg_locks(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let of_relation = |id: GlobalId| {
        let item = context.catalog.item(id);
        let database = item.as_ref().and_then(|item| context.catalog.schema(item.schema)?.database);
        let database = database.and_then(|database| context.catalog.database(database));
        let [database, relation] = [database.map(|database| database.oid), item.map(|item| item.oid)]
            .map(|oid| oid.map_or(Datum::Null, Datum::Oid));
        [database, relation, Datum::Null, Datum::Null, Datum::Null]
    };
    let row = |lock: LockStatus| {
        let [database, relation, class, object, part] = match lock.what {
            Locked::Advisory { database, key } => [
                Datum::Oid(database),
                Datum::Null,
                Datum::Oid(key.classid),
                Datum::Oid(key.objid),
                Datum::Int2(key.objsubid),
            ],
            Locked::Row(table) | Locked::Table(table) => of_relation(table),
        };
        [
            text(locktype(lock.what)),
            database,
            relation,
            class,
            object,
            part,
            Datum::Int4(number(lock.session)),
            text(lock.mode),
            Datum::Bool(lock.granted),
            Datum::Bool(false),
        ]
    };
    relation.batch(
        ["locktype", "database", "relation", "classid", "objid", "objsubid", "pid", "mode", "granted", "fastpath"],
        context.live.locks().into_iter().map(row).collect(),
    )
}
