//! Functions that the catalog answers: definitions, names of oids, comments, visibility, privileges.
//!
//! Only the signatures are here. The session carries the catalog at one revision ([`engine::CatalogFunctions`]),
//! and every body hands the call on to it by name. NULL in gives NULL out, except for `format_type`'s modifier.

use super::call::Call;
use super::library::Library;
use engine::error::SqlError;
use repr::Datum;

/// What takes an oid and gives text, or NULL where the oid names nothing.
const DEFINITIONS: [&str; 11] = [
    "pg_get_constraintdef",
    "pg_get_ruledef",
    "pg_get_triggerdef",
    "pg_get_partkeydef",
    "pg_get_statisticsobjdef",
    "pg_get_statisticsobjdef_columns",
    "pg_get_functiondef",
    "pg_get_function_sqlbody",
    "pg_get_function_result",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
];

/// What can be visible along the search path.
const VISIBLE: [&str; 13] = [
    "table",
    "type",
    "function",
    "operator",
    "opclass",
    "opfamily",
    "collation",
    "conversion",
    "statistics_obj",
    "ts_parser",
    "ts_dict",
    "ts_template",
    "ts_config",
];

/// On what privileges are asked for by name or oid. Schemas, databases and tables also go by their own rules; see the
/// catalog.
const PRIVILEGES: [&str; 9] =
    ["table", "any_column", "schema", "database", "sequence", "tablespace", "type", "function", "language"];

const SINGLE: [&str; 27] = [
    "to_regclass(text) regclass",
    "to_regtype(text) regtype",
    "to_regproc(text) regproc",
    "to_regprocedure(text) regprocedure",
    "to_regnamespace(text) regnamespace",
    "to_regrole(text) regrole",
    "format_type(oid, int4) text !null",
    "pg_get_userbyid(oid) name",
    "pg_get_expr(text, oid) text",
    "pg_get_expr(text, oid, bool) text",
    "pg_get_indexdef(oid) text",
    "pg_get_indexdef(oid, int4, bool) text",
    "pg_get_serial_sequence(text, text) text",
    "pg_encoding_to_char(int4) name",
    "getdatabaseencoding() name",
    "pg_char_to_encoding(name) int4",
    "obj_description(oid) text",
    "obj_description(oid, name) text",
    "col_description(oid, int4) text",
    "shobj_description(oid, name) text",
    "pg_relation_is_publishable(regclass) bool",
    "pg_indexes_size(regclass) int8",
    "pg_tablespace_location(oid) text",
    "current_schema() name",
    "current_schemas(bool) name[]",
    "pg_my_temp_schema() oid",
    "pg_is_other_temp_schema(oid) bool",
];

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
    // Nothing is a partition, and what is none has no ancestors.
    library.add("pg_partition_ancestors(regclass) setof regclass", |_, _| Ok(Datum::List([].into())));
    let mut add = |declaration: String| library.add(&format!("{declaration} !session"), ask);
    SINGLE.iter().for_each(|declaration| add((*declaration).to_owned()));
    for name in DEFINITIONS {
        add(format!("{name}(oid) text"));
    }
    for name in ["pg_get_constraintdef", "pg_get_ruledef", "pg_get_triggerdef"] {
        add(format!("{name}(oid, bool) text"));
    }
    for what in ["oid", "text"] {
        add(format!("pg_get_viewdef({what}) text"));
        add(format!("pg_get_viewdef({what}, bool) text"));
    }
    add("pg_get_viewdef(oid, int4) text".to_owned());
    for name in ["pg_table_size", "pg_relation_size", "pg_total_relation_size"] {
        add(format!("{name}(regclass) int8"));
    }
    add("pg_relation_size(regclass, text) int8".to_owned());
    for name in ["pg_database_size", "pg_tablespace_size"] {
        add(format!("{name}(name) int8"));
        add(format!("{name}(oid) int8"));
    }
    for kind in VISIBLE {
        add(format!("pg_{kind}_is_visible(oid) bool"));
    }
    declare_privileges(&mut add);
}

/// Each with and without a role in front; roles and objects by name or oid.
fn declare_privileges(add: &mut impl FnMut(String)) {
    for role in ["", "name, ", "oid, "] {
        for object in ["text", "oid"] {
            for kind in PRIVILEGES {
                add(format!("has_{kind}_privilege({role}{object}, text) bool"));
            }
            for column in ["text", "int2"] {
                add(format!("has_column_privilege({role}{object}, {column}, text) bool"));
            }
        }
        for of in ["name", "oid"] {
            add(format!("pg_has_role({role}{of}, text) bool"));
        }
    }
}

fn ask(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    if call.name == "format_type" && args.first().is_none_or(Datum::is_null) {
        return Ok(Datum::Null);
    }
    let session = call.session()?;
    session.call_catalog(call.name, args)
}
