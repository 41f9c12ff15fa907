//! What a statement can ask about its session and its server.
//!
//! All of it comes from [`SessionInfo`](engine::session::SessionInfo) when the statement runs. The clock is with
//! the other dates and times, in `datetime`; schemas and names of objects are with the catalog.

use super::call::Call;
use super::library::Library;
use super::{boolean, int, new_text, text};
use engine::error::SqlError;
use engine::session::{Assignment, Signal};
use pgrepr::timezone::abbreviations::Abbreviation;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use std::borrow::Cow;

/// Declares the functions of this file.
#[expect(clippy::too_many_lines, reason = "a list of declarations")]
pub(crate) fn declare(library: &mut Library) {
    library.add("version() text !session", |call, _| Ok(new_text(call.session()?.version.clone())));
    library.add("mz_version() text !session", |call, _| Ok(new_text(call.session()?.mz_version.clone())));
    for name in ["current_user", "current_role", "user"] {
        library.add(&format!("{name}() name !session"), |call, _| Ok(new_text(call.session()?.user.clone())));
    }
    library.add("session_user() name !session", |call, _| Ok(new_text(call.session()?.session_user.clone())));
    for name in ["current_database", "current_catalog"] {
        library.add(&format!("{name}() name !session"), |call, _| Ok(new_text(call.session()?.database.clone())));
    }
    library.add("pg_backend_pid() int4 !session", |call, _| Ok(Datum::Int4(call.session()?.backend_pid as i32)));
    library.add("pg_cancel_backend(int4) bool !session !each", |call, a| signal(call, a, Signal::Cancel));
    library.add("pg_terminate_backend(int4) bool !session !each", |call, a| signal(call, a, Signal::Terminate));
    library.add("pg_terminate_backend(int4, int8) bool !session !each", |call, a| match int(a, 1) {
        0 => signal(call, a, Signal::Terminate),
        ..0 => Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "\"timeout\" must not be negative")),
        _ => Err(SqlError::unsupported("pg_terminate_backend with a timeout")),
    });
    library.add("pg_blocking_pids(int4) int4[] !session !each", |call, a| match &a[0] {
        Datum::Int4(pid) => {
            let pids = call.session()?.locks.as_ref().map(|locks| locks.blocking(*pid)).unwrap_or_default();
            Ok(Datum::List(pids.into_iter().map(Datum::Int4).collect()))
        }
        _ => Err(SqlError::internal("a process is named by an integer")),
    });
    library.add("pg_postmaster_start_time() timestamptz !session", |call, _| {
        Ok(Datum::Timestamp(call.session()?.started_us))
    });
    library.add("pg_client_encoding() name", |_, _| Ok(new_text("UTF8")));
    library.add("pg_is_in_recovery() bool", |_, _| Ok(Datum::Bool(false)));
    library.add("pg_jit_available() bool", |_, _| Ok(Datum::Bool(false)));
    library.add("inet_server_addr() text !session", |call, _| Ok(host(&call.session()?.ends.local)));
    library.add("inet_server_port() int4 !session", |call, _| Ok(port(&call.session()?.ends.local)));
    library.add("inet_client_addr() text !session", |call, _| Ok(host(&call.session()?.ends.peer)));
    library.add("inet_client_port() int4 !session", |call, _| Ok(port(&call.session()?.ends.peer)));
    library.add("mz_now() numeric:integer !session", |call, _| {
        Ok(Datum::Numeric(arrow::datatypes::i256::from_i128(call.session()?.mz_now.into()), 0))
    });
    // The same beside timestamps: see `temporal`.
    for ty in ["timestamp", "timestamptz"] {
        library.add(&format!("mz_now_{ty}() {ty} !session"), |call, _| {
            Ok(Datum::Timestamp(i64::try_from(call.session()?.mz_now).unwrap_or(i64::MAX)))
        });
    }
    library
        .add("current_setting(text) text !session", |call, a| setting(call.session()?.settings.as_ref(), text(a, 0)));
    library.add("current_setting(text, bool) text !session", |call, a| {
        match setting(call.session()?.settings.as_ref(), text(a, 0)) {
            Err(_) if boolean(a, 1) => Ok(Datum::Null),
            other => other,
        }
    });
    library.add("set_config(text, text, bool) text !session !each !null", |call, a| {
        let text_of = |at: usize| if a[at].is_null() { None } else { Some(text(a, at).to_owned()) };
        let Some(name) = text_of(0) else {
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name"));
        };
        let (value, local) = (text_of(1), !a[2].is_null() && boolean(a, 2));
        let set = call.session()?.settings.check(&name, value.as_deref())?;
        call.session()?.assignments.ask(Assignment { name, value, local });
        Ok(new_text(set))
    });
    library.add("pg_typeof(any) regtype !null", |call, _| {
        let ty = call.args.first().cloned().unwrap_or(PgType::Unknown);
        Ok(Datum::Oid(pgrepr::types::oid(&ty)))
    });
    library.add("gen_random_uuid() uuid !each", |_, _| {
        Ok(Datum::Bytes(Cow::Owned(uuid::Uuid::new_v4().as_bytes().to_vec())))
    });
    library.add("random() float8 !each", |_, _| {
        // 53 random bits below the point.
        let bits = uuid::Uuid::new_v4().as_u64_pair().1 & ((1 << 53) - 1);
        Ok(Datum::Float8(bits as f64 / (1_u64 << 53) as f64))
    });
    library.add("pg_trigger_depth() int4", |_, _| Ok(Datum::Int4(0)));
    library.add("setseed(float8) void", |_, _| Err(SqlError::unsupported("function setseed")));
    library.add("txid_current() int8 !session", |call, _| Ok(Datum::Int8(call.session()?.transaction.get())));
}

fn host(end: &Option<(String, u16)>) -> Datum<'static> {
    end.as_ref().map_or(Datum::Null, |(address, _)| new_text(address.clone()))
}

fn port(end: &Option<(String, u16)>) -> Datum<'static> {
    end.as_ref().map_or(Datum::Null, |(_, port)| Datum::Int4((*port).into()))
}

fn signal(call: &Call<'_>, args: &[Datum<'_>], signal: Signal) -> Result<Datum<'static>, SqlError> {
    let (Datum::Int4(pid), session) = (&args[0], call.session()?) else {
        return Err(SqlError::internal("a process is named by an integer"));
    };
    let sent = session.backends.as_ref().map(|backends| backends.signal(*pid, signal, session)).transpose()?;
    Ok(Datum::Bool(sent.unwrap_or(false)))
}

fn setting(settings: &dyn engine::Settings, name: &str) -> Result<Datum<'static>, SqlError> {
    match settings.get(&name.to_lowercase()) {
        Some(value) => Ok(new_text(value)),
        None => {
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\"")))
        }
    }
}

/// The time zone that an abbreviation, a name or an offset stands for, as AT TIME ZONE reads it.
pub(crate) fn time_zone(name: &str) -> Result<pgrepr::timezone::TimeZone, SqlError> {
    Abbreviation::named(name)
        .map(|abbreviation| abbreviation.zone)
        .or_else(|| pgrepr::timezone::TimeZone::from_name(name))
        .ok_or_else(|| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized")))
}
