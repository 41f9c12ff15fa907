//! The functions that only the catalog can answer: names of oids, definitions, comments, visibility, privileges.
//!
//! [`BuiltinFunctions`] answers for the catalog at one revision; the session of the call decides the current database
//! and the search path. A NULL argument gives NULL, except a type modifier. An oid that names nothing gives NULL, or for
//! the casts to text the number itself, as in Postgres; a *name* that names nothing is an error.

mod privileges;
mod procs;
mod types;

use super::introspection::NothingLive;
use super::pg_catalog::{ENCODING_UTF8, comment};
use super::{Context, is_table, maybe, text};
use crate::builtin::standard::is_system;
use crate::state::State;
use engine::error::SqlError;
use engine::names::{ObjectId, Scope};
use engine::{CatalogFunctions, SessionInfo};
use repr::datum::Datum;
use repr::sqlstate::SqlState;
use repr::types::Reg;
use sql::names::{
    IMPLICIT_FIRST, TEMPORARY, effective_search_path, is_temporary, resolve_item, resolve_schema, unknown_relation,
};
use sql::plan::sequence::owned_by;
use sql::plan::{CatalogView, ItemKind, ItemRef, RoleRef, SchemaRef, definition, unknown_column};
use sql_syntax::names::{Name, quote_ident};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Answers for one catalog state. Make one for each revision: it remembers what it has looked up.
pub struct BuiltinFunctions {
    catalog: Arc<State>,
    /// Every item of every database, by oid; made when first needed.
    by_oid: OnceLock<HashMap<u32, Arc<ItemRef>>>,
}

impl fmt::Debug for BuiltinFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BuiltinFunctions")
    }
}

impl BuiltinFunctions {
    /// Functions over a catalog state.
    pub fn new(catalog: Arc<State>) -> BuiltinFunctions {
        BuiltinFunctions { catalog, by_oid: OnceLock::new() }
    }
}

impl CatalogFunctions for BuiltinFunctions {
    fn call(&self, name: &str, args: &[Datum<'_>], session: &SessionInfo) -> Result<Datum<'static>, SqlError> {
        let nullable = usize::from(name == "format_type");
        if args[..args.len() - nullable.min(args.len())].iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        let call =
            Call { functions: self, context: Context { catalog: &self.catalog, session, live: &NothingLive }, args };
        call.run(name)
    }
}

/// One call, while it is answered.
struct Call<'a> {
    functions: &'a BuiltinFunctions,
    context: Context<'a>,
    args: &'a [Datum<'a>],
}

/// PostgreSQL's code for text that is no name.
const INVALID_NAME: SqlState = SqlState("42602");

type Answer = Result<Datum<'static>, SqlError>;

impl Call<'_> {
    fn run(&self, name: &str) -> Answer {
        match name {
            name if name.starts_with("to_reg") => self.to_reg(name),
            name if name.starts_with("reg") => self.reg(name),
            "format_type" => types::format_type(self.oid(0)?, self.args.get(1)),
            "pg_get_userbyid" => self.user_by_id(),
            "pg_table_is_visible" => self.table_is_visible(),
            name if name.ends_with("_is_visible") => self.shipped_is_visible(name),
            "pg_get_expr" => Ok(text(super::sequences::shown(&self.context, self.text(0)?))),
            "pg_get_indexdef" => self.index_definition(),
            "pg_get_viewdef" => self.view_definition(),
            "pg_get_constraintdef" => self.constraint_definition(),
            // There are no such objects, and no functions with a body in SQL.
            "pg_get_ruledef"
            | "pg_get_triggerdef"
            | "pg_get_partkeydef"
            | "pg_get_statisticsobjdef"
            | "pg_get_statisticsobjdef_columns"
            | "pg_get_function_sqlbody" => Ok(Datum::Null),
            "pg_get_serial_sequence" => self.serial_sequence(),
            "pg_get_functiondef" => procs::function_definition(self.oid(0)?),
            "pg_get_function_result" => procs::function_result(self.oid(0)?),
            "pg_get_function_arguments" => procs::function_arguments(self.oid(0)?, true),
            "pg_get_function_identity_arguments" => procs::function_arguments(self.oid(0)?, false),
            "getdatabaseencoding" => Ok(text("UTF8")),
            "pg_encoding_to_char" => Ok(text(if self.integer(0)? == i64::from(ENCODING_UTF8) { "UTF8" } else { "" })),
            "pg_char_to_encoding" => {
                let known = ["utf8", "utf-8", "unicode"].contains(&self.text(0)?.to_ascii_lowercase().as_str());
                Ok(Datum::Int4(if known { ENCODING_UTF8 } else { -1 }))
            }
            "obj_description" | "shobj_description" => self.description(),
            "col_description" => self.column_description(),
            "pg_relation_is_publishable" => self.is_publishable(),
            // Sizes are not kept per object.
            "pg_table_size"
            | "pg_relation_size"
            | "pg_total_relation_size"
            | "pg_indexes_size"
            | "pg_database_size"
            | "pg_tablespace_size" => Ok(Datum::Null),
            "pg_tablespace_location" => Ok(text("")),
            "current_schema" => Ok(maybe(self.search_path(false).first(), |schema| text(&schema.name))),
            "current_schemas" => {
                let implicit = matches!(self.args.first(), Some(Datum::Bool(true)));
                Ok(Datum::List(self.search_path(implicit).iter().map(|schema| text(&schema.name)).collect()))
            }
            "pg_my_temp_schema" => Ok(Datum::Oid(self.temporary().map_or(0, |schema| schema.oid))),
            "pg_is_other_temp_schema" => {
                let schema = self.schema_by_oid(self.oid(0)?).filter(|schema| is_temporary(&schema.name));
                let own = self.temporary().map(|schema| schema.id);
                Ok(Datum::Bool(schema.is_some_and(|schema| Some(schema.id) != own)))
            }
            name if name.starts_with("has_") && name.ends_with("_privilege") => self.has_privilege(name),
            "pg_has_role" => self.has_role(),
            name => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} does not exist"))),
        }
    }

    fn arg(&self, i: usize) -> Result<&Datum<'_>, SqlError> {
        self.args.get(i).ok_or_else(|| SqlError::internal("a catalog function lacks an argument"))
    }

    fn text(&self, i: usize) -> Result<&str, SqlError> {
        match self.arg(i)? {
            Datum::Text(text) => Ok(text),
            _ => Err(SqlError::internal("a catalog function expects text")),
        }
    }

    fn integer(&self, i: usize) -> Result<i64, SqlError> {
        match self.arg(i)? {
            Datum::Oid(v) => Ok((*v).into()),
            Datum::Int2(v) => Ok((*v).into()),
            Datum::Int4(v) => Ok((*v).into()),
            Datum::Int8(v) => Ok(*v),
            _ => Err(SqlError::internal("a catalog function expects an oid")),
        }
    }

    fn oid(&self, i: usize) -> Result<u32, SqlError> {
        let value = self.integer(i)?;
        u32::try_from(value).map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "OID out of range"))
    }

    fn scope(&self) -> Scope<'_> {
        self.context.session.scope()
    }

    fn item_by_oid(&self, oid: u32) -> Option<&Arc<ItemRef>> {
        let by_oid = self
            .functions
            .by_oid
            .get_or_init(|| self.context.catalog.all_items().map(|item| (item.oid, Arc::clone(item))).collect());
        by_oid.get(&oid)
    }

    fn item_by_name(&self, name: &str) -> Result<Option<Arc<ItemRef>>, SqlError> {
        resolve_item(self.context.catalog, self.scope(), &parse_name(name)?)
    }

    /// The item that an argument names, or whose oid it is. A name must name one.
    fn item(&self, i: usize) -> Result<Option<Arc<ItemRef>>, SqlError> {
        match self.arg(i)? {
            Datum::Text(name) => match self.item_by_name(name)? {
                Some(item) => Ok(Some(item)),
                None => Err(unknown_relation(&parse_name(name)?)),
            },
            _ => Ok(self.item_by_oid(self.oid(i)?).cloned()),
        }
    }

    fn schema_by_oid(&self, oid: u32) -> Option<Arc<SchemaRef>> {
        self.context.catalog.all_schemas().find(|schema| schema.oid == oid).cloned()
    }

    /// The search path without or with what is searched though it is not named.
    fn search_path(&self, implicit: bool) -> Vec<Arc<SchemaRef>> {
        let mut path = effective_search_path(self.context.catalog, self.scope());
        if !implicit {
            let named = |name: &String| self.context.session.search_path.contains(name);
            let is_implicit = |name: &String| IMPLICIT_FIRST.contains(&name.as_str()) && !named(name);
            path.retain(|schema| !is_implicit(&schema.name) && !is_temporary(&schema.name));
        }
        path
    }

    /// The schema of the session's temporary tables.
    fn temporary(&self) -> Option<Arc<SchemaRef>> {
        resolve_schema(self.context.catalog, self.scope(), &Name::bare(TEMPORARY)).ok()
    }

    /// What reads or shows an alias of `oid`: the type's name, and `in` or `out`.
    fn reg(&self, name: &str) -> Answer {
        let kind = |of: &str| name.strip_suffix(of).and_then(Reg::named);
        match (kind("in"), kind("out")) {
            (Some(kind), _) => self.reg_in(kind).map(Datum::Oid),
            (_, Some(kind)) => self.reg_out(kind),
            _ => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} does not exist"))),
        }
    }

    fn reg_in(&self, kind: Reg) -> Result<u32, SqlError> {
        let value = self.text(0)?.trim();
        if value == "-" {
            return Ok(0);
        }
        if let Ok(oid) = value.parse() {
            return Ok(oid);
        }
        match kind {
            Reg::Class => match self.item_by_name(value)? {
                Some(item) => Ok(item.oid),
                None => Err(unknown_relation(&parse_name(value)?)),
            },
            Reg::Type => types::type_named(value),
            Reg::Proc => procs::function_named(&parse_name(value)?, value),
            Reg::Procedure => function_of_signature(value),
            Reg::Role => {
                let [name] = <[String; 1]>::try_from(parse_name(value)?.parts).map_err(|_| invalid_name())?;
                let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
                self.context.catalog.role_by_name(&name).map(|role| role.oid).ok_or_else(missing)
            }
            Reg::Namespace => {
                resolve_schema(self.context.catalog, self.scope(), &parse_name(value)?).map(|schema| schema.oid)
            }
        }
    }

    /// Like a cast, but what does not exist is NULL; and a number is no name.
    fn to_reg(&self, name: &str) -> Answer {
        if self.text(0)?.trim().bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
            return Ok(Datum::Null);
        }
        let kind = Reg::named(name.trim_start_matches("to_"));
        match self.reg_in(kind.ok_or_else(|| SqlError::internal(format!("a function {name}")))?) {
            Ok(oid) => Ok(Datum::Oid(oid)),
            Err(error) => match error.sqlstate {
                SqlState::UNDEFINED_TABLE
                | SqlState::UNDEFINED_OBJECT
                | SqlState::UNDEFINED_FUNCTION
                | SqlState::AMBIGUOUS_FUNCTION
                | SqlState::INVALID_SCHEMA_NAME
                | SqlState::INVALID_CATALOG_NAME => Ok(Datum::Null),
                _ => Err(error),
            },
        }
    }

    /// With its schema, unless it is found without.
    fn shown_name(&self, item: &ItemRef) -> String {
        match (quote_ident(&item.name.item), self.is_visible(item)) {
            (name, true) => name,
            (name, false) => format!("{}.{name}", quote_ident(&item.name.schema)),
        }
    }

    fn reg_out(&self, kind: Reg) -> Answer {
        let oid = self.oid(0)?;
        let named = match kind {
            _ if oid == 0 => Some("-".to_owned()),
            Reg::Class => self.item_by_oid(oid).map(|item| self.shown_name(item)),
            Reg::Type => pgrepr::types::from_oid(oid).map(|ty| ty.name()),
            Reg::Proc => procs::function_reference(oid),
            Reg::Procedure => procs::function_signature(oid)?,
            Reg::Role => self.role_by_oid(oid).map(|role| quote_ident(&role.name)),
            Reg::Namespace => self.schema_by_oid(oid).map(|schema| quote_ident(&schema.name)),
        };
        Ok(text(named.unwrap_or_else(|| oid.to_string())))
    }

    fn role_by_oid(&self, oid: u32) -> Option<Arc<RoleRef>> {
        self.context.catalog.roles().into_iter().find(|role| role.oid == oid)
    }

    fn user_by_id(&self) -> Answer {
        let oid = self.oid(0)?;
        let role = self.role_by_oid(oid);
        Ok(text(role.map_or_else(|| format!("unknown (OID={oid})"), |role| role.name.clone())))
    }

    /// Whether the bare name finds the item along the search path. What is only found because `mz_catalog` is searched
    /// last does not count, so that psql's `\d` lists what users made.
    fn is_visible(&self, item: &ItemRef) -> bool {
        effective_search_path(self.context.catalog, self.scope())
            .iter()
            .find_map(|schema| self.context.catalog.item_by_name(schema.id, &item.name.item))
            .is_some_and(|found| found.id == item.id)
    }

    fn table_is_visible(&self) -> Answer {
        let oid = self.oid(0)?;
        let item = self.item_by_oid(oid).cloned();
        // What `\d` lists is what is visible outside of PostgreSQL's own schemas: it would list all of ours.
        let is_ours =
            |item: &ItemRef| item.name.schema != "pg_catalog" && IMPLICIT_FIRST.contains(&item.name.schema.as_str());
        Ok(maybe(item, |item| Datum::Bool(!is_ours(&item) && self.is_visible(&item))))
    }

    /// Types, functions, operators and so on are all in pg_catalog, which is always searched.
    fn shipped_is_visible(&self, name: &str) -> Answer {
        let oid = self.oid(0)?;
        let exists = match name {
            "pg_type_is_visible" => pgrepr::types::from_oid(oid).is_some(),
            "pg_function_is_visible" => procs::function_name(oid).is_some(),
            "pg_collation_is_visible" => [100, 950, 951].contains(&oid),
            "pg_opclass_is_visible" => types::listed("pg_opclass", oid),
            "pg_opfamily_is_visible" => types::listed("pg_opfamily", oid),
            _ => false,
        };
        Ok(if exists { Datum::Bool(true) } else { Datum::Null })
    }

    /// The whole definition, or with a second argument above 0 that column of the key.
    fn index_definition(&self) -> Answer {
        let oid = self.oid(0)?;
        let Some(item) = self.item_by_oid(oid) else { return Ok(Datum::Null) };
        let ItemKind::Index(index) = &item.kind else { return Ok(Datum::Null) };
        let column = if self.args.len() > 1 { self.integer(1)? } else { 0 };
        Ok(match usize::try_from(column) {
            Ok(0) => text(definition::index(self.context.catalog, item, index)),
            Ok(column) => {
                text(definition::keys(self.context.catalog, index).get(column - 1).cloned().unwrap_or_default())
            }
            Err(_) => text(""),
        })
    }

    fn constraint_definition(&self) -> Answer {
        let oid = self.oid(0)?;
        let of_table = |table: &Arc<ItemRef>| {
            let found = table.constraints().iter().find(|constraint| constraint.oid == oid);
            found.map(|constraint| constraint.definition(self.context.catalog, table, |parent| self.shown_name(parent)))
        };
        Ok(maybe(self.context.catalog.all_items().find_map(of_table), text))
    }

    fn view_definition(&self) -> Answer {
        let item = self.item(0)?;
        Ok(maybe(item.as_ref().and_then(|item| definition::view(self.context.catalog, item)), text))
    }

    /// The comment on an object of the catalog that the second argument names, or of any.
    fn description(&self) -> Answer {
        let oid = self.oid(0)?;
        let class = match self.args.get(1) {
            Some(Datum::Text(name)) => Some(name.trim_start_matches("pg_catalog.")),
            _ => None,
        };
        let is = |catalog: &str| class.is_none_or(|class| class == catalog);
        let context = &self.context;
        Ok(comment(
            context,
            |object| match object {
                ObjectId::Item(id) if is("pg_class") => context.catalog.item(id).is_some_and(|o| o.oid == oid),
                ObjectId::Schema(id) if is("pg_namespace") => context.catalog.schema(id).is_some_and(|o| o.oid == oid),
                ObjectId::Database(id) if is("pg_database") => {
                    context.catalog.database(id).is_some_and(|o| o.oid == oid)
                }
                ObjectId::Role(id) if is("pg_authid") => context.catalog.role(id).is_some_and(|o| o.oid == oid),
                _ => false,
            },
            0,
        ))
    }

    fn column_description(&self) -> Answer {
        let (oid, column) = (self.oid(0)?, self.integer(1)?);
        let Ok(column @ 1..) = i32::try_from(column) else { return Ok(Datum::Null) };
        let catalog = self.context.catalog;
        let on = |object| matches!(object, ObjectId::Item(id) if catalog.item(id).is_some_and(|item| item.oid == oid));
        Ok(comment(&self.context, on, column))
    }

    /// The sequence that a column of the named table owns.
    fn serial_sequence(&self) -> Answer {
        let Some(table) = self.item(0)? else { return Ok(Datum::Null) };
        let name = self.text(1)?;
        let column = table.desc.position(name).ok_or_else(|| unknown_column(&table, name))?;
        let owned = owned_by(self.context.catalog, table.id, column);
        let own = self.temporary().map(|schema| schema.id);
        Ok(maybe(owned.first(), |(sequence, _)| match own == Some(sequence.schema) {
            true => text(format!("{TEMPORARY}.{}", quote_ident(&sequence.name.item))),
            false => text(definition::within_database(&sequence.name)),
        }))
    }

    fn is_publishable(&self) -> Answer {
        let item = self.item(0)?;
        Ok(maybe(item, |item| Datum::Bool(is_table(&item) && !is_system(&item))))
    }
}

/// The function that `name(type, …)` names. Errors: 42883, 22P02, 42602, 42704.
fn function_of_signature(signature: &str) -> Result<u32, SqlError> {
    let (name, arguments) = procs::split_signature(signature)?;
    procs::function_with(&parse_name(name)?, &arguments, signature)
}

fn invalid_name() -> SqlError {
    SqlError::new(INVALID_NAME, "invalid name syntax")
}

/// The parts of a name as a string holds it: `a."B".c`, folded.
fn parse_name(text: &str) -> Result<Name, SqlError> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            None => {
                let end = rest.find(['.', '"', ' ']).unwrap_or(rest.len());
                (rest[..end].to_lowercase(), &rest[end..])
            }
            Some(quoted) => {
                let mut part = String::new();
                let mut chars = quoted.char_indices();
                let end = loop {
                    match chars.next().ok_or_else(invalid_name)? {
                        (at, '"') if quoted[at + 1..].starts_with('"') => {
                            part.push('"');
                            chars.next();
                        }
                        (at, '"') => break at,
                        (_, c) => part.push(c),
                    }
                };
                (part, &quoted[end + 1..])
            }
        };
        if part.is_empty() {
            return Err(invalid_name());
        }
        parts.push(part);
        match after.trim_start().strip_prefix('.') {
            Some(after) => rest = after.trim_start(),
            None if after.trim().is_empty() => return Ok(Name { parts }),
            None => return Err(invalid_name()),
        }
    }
}
