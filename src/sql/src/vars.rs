//! Configuration parameters: what SET, SHOW, RESET and ALTER SYSTEM know.
//!
//! One table of definitions ([`definitions`]) says for each parameter its kind, default, range and whether clients are told
//! when it changes. [`SystemVars`] holds what ALTER SYSTEM and the command line set: parameters of the server, and defaults
//! for those of sessions. [`SessionVars`] holds one session's values, with the layers Postgres has: the default, the
//! session's value, and the transaction's (SET LOCAL). Values are kept as the canonical text that SHOW prints; the few that
//! are read on hot paths are also kept decoded.
//!
//! A parameter that could only be accepted by ignoring it is unknown here (42704), and a value that we do not implement is
//! refused: nothing is silently ignored.
//!
//! # Invariants
//! - A stored value has been validated and is in canonical form.
//! - `epoch` changes whenever a parameter that planning reads changes, and only then.

pub mod definitions;
mod values;

use definitions::{Definition, Kind, Level, SESSION_VARS, SYSTEM_VARS};
use engine::error::{PlanNotice, SqlError};
use pgrepr::options::{ByteaOutput, DateStyle, IntervalStyle, Locale};
use pgrepr::timezone::TimeZone;
use repr::sqlstate::SqlState;
use sql_syntax::ast::{IsolationLevel, SetValue, TransactionModes};
use sql_syntax::names::{IDENTIFIER_BYTES_MAX, truncate_identifier};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The parameter that says which share of its statements a session has noted.
const SAMPLE_RATE: &str = "statement_logging_sample_rate";
/// Parameters of one transaction, and those of the session with whose values a transaction begins.
const OF_TRANSACTIONS: [(&str, &str); 2] = [
    ("transaction_read_only", "default_transaction_read_only"),
    ("transaction_deferrable", "default_transaction_deferrable"),
];

/// What ALTER SYSTEM and `--system-parameter-default` set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemVars {
    /// From the command line; below what ALTER SYSTEM sets.
    defaults: BTreeMap<&'static str, String>,
    /// From ALTER SYSTEM; durable.
    values: BTreeMap<&'static str, String>,
}

impl SystemVars {
    /// Nothing set.
    pub fn new() -> SystemVars {
        SystemVars::default()
    }

    /// Sets a default from the command line. Errors: 42704, 22023.
    pub fn set_default(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        let definition = definitions::find(name).ok_or_else(|| unrecognized(name))?;
        let value = values::canonical_raw(definition, value)?;
        self.defaults.insert(definition.name, value);
        Ok(())
    }

    /// Validates an ALTER SYSTEM SET without doing it: the canonical name, and the canonical value (`None` resets).
    /// Errors: 42704, 22023, 55P02 for what cannot be changed.
    pub fn check(name: &str, value: &SetValue) -> Result<(&'static str, Option<String>), SqlError> {
        let definition = definitions::find(name).ok_or_else(|| unrecognized(name))?;
        if definition.read_only() {
            return Err(cannot_change(definition.name));
        }
        match value {
            SetValue::Default => Ok((definition.name, None)),
            SetValue::Values(values) => Ok((definition.name, Some(values::canonical(definition, values)?))),
        }
    }

    /// Sets (or with `None` resets) a value that was checked; names that are no longer known are ignored, so that an
    /// older catalog can be read.
    pub fn apply(&mut self, name: &str, value: Option<String>) {
        let Some(definition) = definitions::find(name) else { return };
        match value {
            Some(value) => self.values.insert(definition.name, value),
            None => self.values.remove(definition.name),
        };
    }

    /// Forgets everything that ALTER SYSTEM set.
    pub fn reset_all(&mut self) {
        self.values.clear();
    }

    /// What ALTER SYSTEM set, for the durable catalog.
    pub fn stored(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The value in force: of a system parameter, or of a session parameter's default.
    pub fn get(&self, name: &str) -> Option<&str> {
        let definition = definitions::find(name)?;
        Some(self.value(definition))
    }

    /// `get` for a boolean parameter; false for an unknown one.
    pub fn get_bool(&self, name: &str) -> bool {
        self.get(name) == Some("on")
    }

    /// `get` for an integer parameter, in its base unit (milliseconds, bytes, or none).
    pub fn get_int(&self, name: &str) -> Option<i64> {
        let definition = definitions::find(name)?;
        values::decode_int(definition, self.value(definition))
    }

    /// `get` for a real parameter.
    pub fn get_real(&self, name: &str) -> Option<f64> {
        self.get(name)?.parse().ok()
    }

    /// Whether somebody has set it.
    fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name) || self.defaults.contains_key(name)
    }

    fn value(&self, definition: &Definition) -> &str {
        self.values
            .get(definition.name)
            .or_else(|| self.defaults.get(definition.name))
            .map_or(definition.default, String::as_str)
    }
}

/// One session parameter's layers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Slot {
    /// What RESET goes back to.
    default: String,
    /// SET.
    session: Option<String>,
    /// SET LOCAL, SET TRANSACTION.
    local: Option<String>,
}

impl Slot {
    fn value(&self) -> &str {
        self.local.as_deref().or(self.session.as_deref()).unwrap_or(&self.default)
    }
}

/// One session's parameters.
#[derive(Clone, Debug)]
pub struct SessionVars {
    /// The system's when the session began: what a parameter is that has no slot.
    system: Arc<SystemVars>,
    /// By place in [`SESSION_VARS`], those that are or were anything else; shared with copies until one of them changes.
    slots: Arc<BTreeMap<usize, Slot>>,
    /// `SET app.name = …`: parameters with a dot in their name that nobody defined.
    custom: BTreeMap<String, Slot>,
    /// Session values as they were when the transaction began, for those changed since.
    undo: Option<Undo>,
    /// Reported parameters that changed since they were last reported.
    changed: Vec<usize>,
    epoch: u64,
    version: u64,
    decoded: Decoded,
}

#[derive(Clone, Debug, Default)]
struct Undo {
    slots: Vec<(usize, Option<String>)>,
    custom: Vec<(String, Option<Slot>)>,
}

/// Values that hot paths read.
#[derive(Clone, Debug, PartialEq)]
struct Decoded {
    search_path: Vec<String>,
    isolation: IsolationLevel,
    statement_timeout: Option<Duration>,
    subscribe_history: Option<Duration>,
    lock_timeout: Option<Duration>,
    idle_in_transaction_session_timeout: Option<Duration>,
    idle_session_timeout: Option<Duration>,
    locale: Locale,
    /// Of the current transaction, and of the next.
    read_only: [bool; 2],
    /// Of the current transaction.
    deferrable: bool,
}

impl SessionVars {
    /// The parameters of a new session: defaults from the system, then from the role (ALTER ROLE … SET), then what the
    /// client's startup message asked for. Errors: 42704, 22023 for what the client sent.
    pub fn new(
        system: &SystemVars,
        user: &str,
        database: &str,
        superuser: bool,
        role_defaults: &[(String, String)],
        startup: &[(String, String)],
    ) -> Result<SessionVars, SqlError> {
        let mut vars = SessionVars {
            system: Arc::new(system.clone()),
            slots: Arc::default(),
            custom: BTreeMap::new(),
            undo: None,
            changed: Vec::new(),
            epoch: 0,
            version: 0,
            decoded: Decoded {
                search_path: Vec::new(),
                isolation: IsolationLevel::StrictSerializable,
                statement_timeout: None,
                subscribe_history: None,
                lock_timeout: None,
                idle_in_transaction_session_timeout: None,
                idle_session_timeout: None,
                locale: Locale::default(),
                read_only: [false; 2],
                deferrable: false,
            },
        };
        vars.set_builtin_default("session_authorization", user);
        vars.set_builtin_default("is_superuser", if superuser { "on" } else { "off" });
        vars.set_builtin_default("database", database);
        // A session's rate has a default of its own, which is a parameter of the system.
        if !system.is_set(SAMPLE_RATE) {
            let rate = system.get("statement_logging_default_sample_rate").unwrap_or("0");
            vars.set_builtin_default(SAMPLE_RATE, rate);
        }
        for (name, value) in role_defaults {
            // A default that was valid when it was stored but is not any more must not lock the role out.
            if let Some((index, definition)) = definitions::find_session(name)
                && let Ok(value) = values::canonical_raw(definition, value)
            {
                vars.slot_mut(index).default = value;
            }
        }
        for (name, value) in startup {
            match definitions::find_session(name) {
                Some((_, definition)) if definition.read_only() => return Err(cannot_change(definition.name)),
                Some((index, definition)) => {
                    let value = match definition.kind {
                        Kind::DateStyle => vars.date_style(index, value)?,
                        _ => values::canonical_raw(definition, value)?,
                    };
                    vars.slot_mut(index).default = value;
                }
                None => vars.set_raw(name, value, false).map(drop)?,
            }
        }
        vars.decode_all();
        vars.decoded.locale = vars.decode_locale();
        vars.changed.clear();
        Ok(vars)
    }

    /// The value that SHOW prints. Names are case-insensitive. System parameters are in [`SystemVars`].
    pub fn get(&self, name: &str) -> Option<&str> {
        match definitions::find_session(name) {
            // The default is what the session has outside transactions.
            Some((_, definition)) if definition.name == "default_transaction_isolation" => {
                let index = definitions::index_of("transaction_isolation");
                let session = self.slots.get(&index).and_then(|slot| slot.session.as_deref());
                Some(session.unwrap_or_else(|| self.default(index)))
            }
            Some((index, definition)) => {
                // Outside of a block every statement is a transaction, which begins with the default.
                let begins_with =
                    OF_TRANSACTIONS.iter().find(|(of, _)| *of == definition.name && !self.in_transaction());
                Some(self.value(begins_with.map_or(index, |(_, from)| definitions::index_of(from))))
            }
            None => self.custom.get(&name.to_ascii_lowercase()).map(Slot::value),
        }
    }

    /// SET. Returns what the client is to be told. Errors: 42704, 22023, 55P02, 0A000.
    pub fn set(&mut self, name: &str, value: &SetValue, local: bool) -> Result<Vec<PlanNotice>, SqlError> {
        let SetValue::Values(given) = value else {
            self.reset(name)?;
            return Ok(Vec::new());
        };
        match definitions::find_session(name) {
            Some((index, definition)) => {
                if definition.read_only() {
                    return Err(cannot_change(definition.name));
                }
                let value = match definition.kind {
                    // A list, too; what it does not say stays.
                    Kind::DateStyle => self.date_style(index, &given.join(", "))?,
                    _ => values::canonical(definition, given)?,
                };
                let cut = cut_notice(definition, &given.concat());
                Ok(cut.into_iter().chain(self.store(index, Some(value), local)).collect())
            }
            None => {
                self.store_custom(name, given.join(", "), local)?;
                Ok(Vec::new())
            }
        }
    }

    /// `set_config()` and startup options: the value is one text, which for a list is split.
    pub fn set_raw(&mut self, name: &str, value: &str, local: bool) -> Result<Vec<PlanNotice>, SqlError> {
        match definitions::find_session(name) {
            Some((index, definition)) => {
                if definition.read_only() {
                    return Err(cannot_change(definition.name));
                }
                let value = match definition.kind {
                    Kind::DateStyle => self.date_style(index, value)?,
                    _ => values::canonical_raw(definition, value)?,
                };
                Ok(self.store(index, Some(value), local))
            }
            None => {
                self.store_custom(name, value.to_owned(), local)?;
                Ok(Vec::new())
            }
        }
    }

    /// What [`SessionVars::set_raw`] would set, or without a value [`SessionVars::reset`], where the value now is `current`.
    /// Errors as theirs.
    pub fn check_raw(name: &str, value: Option<&str>, current: Option<&str>) -> Result<String, SqlError> {
        match definitions::find_session(name) {
            Some((_, definition)) if definition.read_only() => Err(cannot_change(definition.name)),
            Some((_, definition)) => match (value, definition.kind) {
                (Some(value), Kind::DateStyle) => {
                    values::date_style(value, current.unwrap_or(definition.default), definition.default)
                }
                (Some(value), _) => values::canonical_raw(definition, value),
                (None, _) => Ok(definition.default.to_owned()),
            },
            None if name.contains('.') => Ok(value.unwrap_or_default().to_owned()),
            None => Err(unrecognized(name)),
        }
    }

    /// RESET. Errors: 42704, 55P02.
    pub fn reset(&mut self, name: &str) -> Result<(), SqlError> {
        match definitions::find_session(name) {
            Some((_, definition)) if definition.read_only() => Err(cannot_change(definition.name)),
            Some((index, _)) => {
                self.store(index, None, false);
                Ok(())
            }
            None if name.contains('.') => {
                self.reset_custom(&name.to_ascii_lowercase());
                Ok(())
            }
            None => Err(unrecognized(name)),
        }
    }

    /// RESET ALL.
    pub fn reset_all(&mut self) {
        for (index, definition) in SESSION_VARS.iter().enumerate() {
            // As in Postgres, the transaction's own modes stay, and so does the role.
            if !definition.read_only() && !matches!(definition.name, "transaction_isolation" | "role") {
                self.store(index, None, false);
            }
        }
        let custom: Vec<String> = self.custom.keys().cloned().collect();
        for name in custom {
            self.reset_custom(&name);
        }
    }

    /// SET TRANSACTION and the modes of BEGIN: for the current transaction.
    pub fn set_transaction_modes(&mut self, modes: &TransactionModes) {
        self.set_modes(modes, ["transaction_isolation", "transaction_read_only", "transaction_deferrable"], true);
    }

    /// SET SESSION CHARACTERISTICS: for the transactions to come.
    pub fn set_session_characteristics(&mut self, modes: &TransactionModes) {
        self.set_modes(
            modes,
            ["transaction_isolation", "default_transaction_read_only", "default_transaction_deferrable"],
            false,
        );
    }

    /// An explicit transaction begins: from here on SET is undone by a rollback, and SET LOCAL has an effect.
    pub fn begin_transaction(&mut self) {
        self.undo.get_or_insert_default();
        for (of, from) in OF_TRANSACTIONS {
            let value = self.value(definitions::index_of(from)).to_owned();
            self.slot_mut(definitions::index_of(of)).local = Some(value);
        }
        self.decode_all();
    }

    /// The transaction ended: its local values go; if it was rolled back, so do the session values it set.
    pub fn end_transaction(&mut self, committed: bool) {
        let Some(undo) = self.undo.take() else { return };
        let local = self.slots.iter().filter(|(_, slot)| slot.local.is_some());
        for index in local.map(|(index, _)| *index).collect::<Vec<_>>() {
            self.slot_mut(index).local = None;
            self.note_change(index);
        }
        let mut has_changed = !committed && !undo.custom.is_empty();
        for slot in self.custom.values_mut() {
            has_changed |= slot.local.take().is_some();
        }
        self.version += u64::from(has_changed);
        if committed {
            return;
        }
        for (index, value) in undo.slots.into_iter().rev() {
            self.slot_mut(index).session = value;
            self.note_change(index);
        }
        // As in Postgres, a name that was set once stays known, and is empty.
        let known = undo.custom.into_iter().rev().map(|(name, slot)| (name, slot.unwrap_or_default()));
        self.custom.extend(known);
    }

    /// ROLLBACK TO SAVEPOINT: every value becomes what it was in `saved`, an earlier state of these parameters.
    pub fn restore(&mut self, saved: &SessionVars) {
        let before = std::mem::replace(&mut self.slots, Arc::clone(&saved.slots));
        for index in 0..SESSION_VARS.len() {
            if self.layers(&before, index) != self.layers(&self.slots, index) {
                self.note_change(index);
            }
        }
        self.custom.clone_from(&saved.custom);
        self.undo.clone_from(&saved.undo);
        self.version += 1;
        self.decode_all();
    }

    /// Says whether the current role is a superuser.
    pub fn set_superuser(&mut self, superuser: bool) {
        let (index, value) = (definitions::index_of("is_superuser"), if superuser { "on" } else { "off" });
        if self.default(index) != value {
            value.clone_into(&mut self.slot_mut(index).default);
            self.note_change(index);
        }
    }

    /// Whether a transaction block is open, as far as the parameters know.
    pub fn in_transaction(&self) -> bool {
        self.undo.is_some()
    }

    /// The parameters that clients are told on connection, with their values.
    pub fn statuses(&self) -> Vec<(&'static str, String)> {
        SESSION_VARS
            .iter()
            .enumerate()
            .filter(|(_, definition)| definition.report)
            .map(|(index, definition)| (definition.name, self.value(index).to_owned()))
            .collect()
    }

    /// Whether [`SessionVars::take_changes`] would return anything.
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The reported parameters that changed since the last call.
    pub fn take_changes(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.changed)
            .into_iter()
            .map(|index| (SESSION_VARS[index].name, self.value(index).to_owned()))
            .collect()
    }

    /// SHOW ALL: name, value, description, in order of name. System parameters included.
    pub fn all(&self, system: &SystemVars) -> Vec<(String, String, &'static str)> {
        let session = SESSION_VARS.iter().filter(|definition| !definition.hidden).map(|definition| {
            let value = self.get(definition.name).unwrap_or_default().to_owned();
            (definition.name.to_owned(), value, definition.description)
        });
        let system = SYSTEM_VARS.iter().map(|definition| {
            (definition.name.to_owned(), system.value(definition).to_owned(), definition.description)
        });
        let mut all: Vec<_> = session.chain(system).collect();
        all.sort_by_key(|(name, _, _)| name.to_ascii_lowercase());
        all
    }

    /// Changes whenever a parameter that planning reads changes (database, search path, cluster, isolation, time zone):
    /// part of a session's plan cache key. Starts at 0 with every session.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Changes whenever any parameter changes but those of a transaction's access mode.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The search path.
    pub fn search_path(&self) -> &[String] {
        &self.decoded.search_path
    }

    /// The current database.
    pub fn database(&self) -> &str {
        self.value(definitions::index_of("database"))
    }

    /// The cluster that runs what this session asks for.
    pub fn cluster(&self) -> &str {
        self.value(definitions::index_of("cluster"))
    }

    /// The isolation level of the current transaction, or of the next.
    pub fn isolation(&self) -> IsolationLevel {
        self.decoded.isolation
    }

    /// Whether the current transaction, or the next, is READ ONLY.
    pub fn read_only(&self) -> bool {
        self.decoded.read_only[usize::from(!self.in_transaction())]
    }

    /// Whether there is a transaction and it is DEFERRABLE.
    pub fn deferrable(&self) -> bool {
        self.in_transaction() && self.decoded.deferrable
    }

    /// How long a statement may run.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.decoded.statement_timeout
    }

    /// How long what a SUBSCRIBE has told is kept for one that goes on where it broke off.
    pub fn subscribe_history(&self) -> Option<Duration> {
        self.decoded.subscribe_history
    }

    /// How long a statement may wait for an advisory lock.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.decoded.lock_timeout
    }

    /// How long a session may sit in an open transaction.
    pub fn idle_in_transaction_session_timeout(&self) -> Option<Duration> {
        self.decoded.idle_in_transaction_session_timeout
    }

    /// How long a session may sit outside a transaction.
    pub fn idle_session_timeout(&self) -> Option<Duration> {
        self.decoded.idle_session_timeout
    }

    /// How values are read and printed.
    pub fn locale(&self) -> Locale {
        self.decoded.locale
    }

    /// The share of statements that the session wants noted in the server's history.
    pub fn statement_logging_sample_rate(&self) -> f64 {
        self.value(definitions::index_of(SAMPLE_RATE)).parse().unwrap_or(0.0)
    }

    fn duration(&self, name: &str) -> Option<Duration> {
        let index = definitions::index_of(name);
        match values::decode_int(&SESSION_VARS[index], self.value(index)) {
            Some(ms) if ms > 0 => Some(Duration::from_millis(ms.unsigned_abs())),
            _ => None,
        }
    }

    fn set_builtin_default(&mut self, name: &str, value: &str) {
        self.slot_mut(definitions::index_of(name)).default = value.to_owned();
    }

    fn value(&self, index: usize) -> &str {
        let (default, session, local) = self.layers(&self.slots, index);
        local.or(session).unwrap_or(default)
    }

    /// What RESET goes back to.
    fn default(&self, index: usize) -> &str {
        self.layers(&self.slots, index).0
    }

    /// The default of a parameter, the session's value and the transaction's, as these slots have them.
    fn layers<'v>(
        &'v self,
        slots: &'v BTreeMap<usize, Slot>,
        index: usize,
    ) -> (&'v str, Option<&'v str>, Option<&'v str>) {
        match slots.get(&index) {
            Some(slot) => (&slot.default, slot.session.as_deref(), slot.local.as_deref()),
            None => (self.system.value(&SESSION_VARS[index]), None, None),
        }
    }

    fn slot_mut(&mut self, index: usize) -> &mut Slot {
        let usual = || Slot { default: self.system.value(&SESSION_VARS[index]).to_owned(), ..Slot::default() };
        Arc::make_mut(&mut self.slots).entry(index).or_insert_with(usual)
    }

    fn set_modes(&mut self, modes: &TransactionModes, [isolation, read_only, deferrable]: [&str; 3], local: bool) {
        let on_off = |on: bool| if on { "on" } else { "off" }.to_owned();
        let given = [
            (isolation, modes.isolation.map(|level| level.as_str().to_owned())),
            (read_only, modes.read_only.map(on_off)),
            (deferrable, modes.deferrable.map(on_off)),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                self.store(definitions::index_of(name), Some(value), local);
            }
        }
    }

    /// Stores a canonical value in one layer. SET LOCAL outside a transaction only warns, as in Postgres.
    fn store(&mut self, index: usize, value: Option<String>, local: bool) -> Vec<PlanNotice> {
        // Setting the default of an isolation level is setting the session's level.
        let index = match SESSION_VARS[index].name {
            "default_transaction_isolation" => definitions::index_of("transaction_isolation"),
            _ => index,
        };
        if value.is_none() && !self.slots.contains_key(&index) {
            return Vec::new();
        }
        if local {
            if self.undo.is_none() {
                return vec![PlanNotice {
                    sqlstate: SqlState::NO_ACTIVE_SQL_TRANSACTION,
                    message: "SET LOCAL can only be used in transaction blocks".to_owned(),
                    detail: None,
                }];
            }
            self.slot_mut(index).local = value;
        } else {
            if let Some(undo) = &mut self.undo {
                undo.slots.push((index, self.slots.get(&index).and_then(|slot| slot.session.clone())));
            }
            let slot = self.slot_mut(index);
            (slot.session, slot.local) = (value, None);
        }
        self.note_change(index);
        Vec::new()
    }

    fn store_custom(&mut self, name: &str, value: String, local: bool) -> Result<(), SqlError> {
        if !name.contains('.') {
            return Err(match definitions::find(name) {
                Some(definition) => SqlError::new(
                    SqlState::CANT_CHANGE_RUNTIME_PARAM,
                    format!("parameter \"{}\" cannot be changed now", definition.name),
                )
                .with_hint("Use ALTER SYSTEM SET."),
                None => unrecognized(name),
            });
        }
        let name = name.to_ascii_lowercase();
        self.save_custom(&name);
        let slot = self.custom.entry(name).or_default();
        if local {
            slot.local = Some(value);
        } else {
            slot.session = Some(value);
        }
        Ok(())
    }

    /// RESET of a parameter that nobody defined: if it was set once it is empty from now on, as in Postgres.
    fn reset_custom(&mut self, name: &str) {
        if self.custom.contains_key(name) {
            self.save_custom(name);
            self.custom.insert(name.to_owned(), Slot::default());
        }
    }

    /// A parameter that nobody defined is about to change.
    fn save_custom(&mut self, name: &str) {
        self.version += 1;
        if let Some(undo) = &mut self.undo {
            undo.custom.push((name.to_owned(), self.custom.get(name).cloned()));
        }
    }

    /// What this parameter becomes by a value that may say half of it.
    fn date_style(&self, index: usize, value: &str) -> Result<String, SqlError> {
        values::date_style(value, self.value(index), self.default(index))
    }

    fn note_change(&mut self, index: usize) {
        let definition = &SESSION_VARS[index];
        if definition.report && !self.changed.contains(&index) {
            self.changed.push(index);
        }
        if definition.level == Level::Planning {
            self.epoch += 1;
            // Planning reads all of the locale. Transactions, which begin and end with other parameters, leave it alone.
            self.decoded.locale = self.decode_locale();
        }
        if !matches!(definition.name, "transaction_read_only" | "transaction_deferrable") {
            self.version += 1;
        }
        self.decode_all();
    }

    /// Values are checked when they are set, so that what is unknown here is not there.
    fn decode_locale(&self) -> Locale {
        let value = |name: &str| self.value(definitions::index_of(name));
        let usual = Locale::default();
        Locale {
            time_zone: TimeZone::parse(value("TimeZone")).unwrap_or(usual.time_zone),
            date: usual.date.changed(value("DateStyle"), DateStyle::default()).unwrap_or(usual.date),
            interval: IntervalStyle::parse(value("IntervalStyle")).unwrap_or(usual.interval),
            bytea: ByteaOutput::parse(value("bytea_output")).unwrap_or(usual.bytea),
            extra_float_digits: value("extra_float_digits").parse().unwrap_or(usual.extra_float_digits),
        }
    }

    fn decode_all(&mut self) {
        let value = |name: &str| self.value(definitions::index_of(name));
        self.decoded = Decoded {
            search_path: values::split_identifiers(value("search_path")).unwrap_or_default(),
            isolation: IsolationLevel::from_name(value("transaction_isolation"))
                .unwrap_or(IsolationLevel::StrictSerializable),
            statement_timeout: self.duration("statement_timeout"),
            subscribe_history: self.duration("subscribe_history"),
            lock_timeout: self.duration("lock_timeout"),
            idle_in_transaction_session_timeout: self.duration("idle_in_transaction_session_timeout"),
            idle_session_timeout: self.duration("idle_session_timeout"),
            read_only: ["transaction_read_only", "default_transaction_read_only"].map(|name| value(name) == "on"),
            locale: self.decoded.locale,
            deferrable: value("transaction_deferrable") == "on",
        };
    }
}

/// What a client is told of the parameters that it asked for when it connected.
pub fn startup_notices(startup: &[(String, String)]) -> Vec<PlanNotice> {
    let notice = |(name, value): &(String, String)| cut_notice(definitions::find_session(name)?.1, value);
    startup.iter().filter_map(notice).collect()
}

/// That a value is longer than the parameter takes.
fn cut_notice(definition: &Definition, value: &str) -> Option<PlanNotice> {
    if definition.kind != Kind::Name || value.len() <= IDENTIFIER_BYTES_MAX {
        return None;
    }
    let cut = truncate_identifier(value.to_owned());
    let message = format!("identifier \"{value}\" will be truncated to \"{cut}\"");
    Some(PlanNotice { sqlstate: SqlState::NAME_TOO_LONG, message, detail: None })
}

/// The canonical name of a parameter of either kind, for column names of SHOW.
pub fn canonical_name(name: &str) -> Option<&'static str> {
    definitions::find(name).map(|definition| definition.name)
}

/// `unrecognized configuration parameter "x"`.
pub fn unrecognized(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

fn cannot_change(name: &str) -> SqlError {
    SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, format!("parameter \"{name}\" cannot be changed"))
}

/// Splits `a."B".c` into folded identifiers; `None` when it is not a dotted name.
pub(crate) fn split_qualified(name: &str) -> Option<Vec<String>> {
    values::split_qualified(name)
}
