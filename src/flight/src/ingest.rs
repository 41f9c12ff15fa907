//! Rows into a table, as one transaction, and the table if it has to be made for them.
//!
//! A table that is made has the columns of the rows: the types of Postgres that their values are of, and of those that `door::exchange` marks
//! the ones that they were.

use crate::receiving::Received;
use crate::relations::fetch;
use crate::told::{malformed, told};
use crate::transaction::said;
use crate::welcome::{Caller, Chair, unsupported};
use adapter::error::AdapterError;
use adapter::made::{Table, named};
use adapter::response::Tag;
use adapter::seat::Seat;
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use door::exchange::{EXTENSION, POSTGRES_TYPE};
use door::intake;
use pgrepr::copy::{CopyFormat, CopyOptions};
use repr::PgType;
use repr::sqlstate::SqlState;
use tonic::Status;

/// Loads the rows; returns how many there were.
pub(crate) async fn ingest(caller: &Caller, command: CommandStatementIngest, rows: Received) -> Result<i64, Status> {
    if command.temporary {
        return Err(unsupported("a temporary table, which would end with the call,"));
    }
    if let Some(name) = command.options.keys().next() {
        return Err(unsupported(&format!("the option \"{name}\" of an ingestion")));
    }
    let mut chair = caller.seat(command.transaction_id.as_deref()).await?;
    let (ended, is_kept) = (chair.shutdown(), chair.is_kept());
    let done = Chair::until_ended(ended, load(&mut chair, is_kept, &command, rows)).await;
    chair.leave(done).await
}

async fn load(
    seat: &mut Seat,
    is_kept: bool,
    command: &CommandStatementIngest,
    mut rows: Received,
) -> Result<i64, Status> {
    let names = [&command.catalog, &command.schema].into_iter().flatten().filter(|name| !name.is_empty());
    let name = named(names.chain([&command.table]).map(String::as_str));
    let table = Table::parse(&name).map_err(|error| told(&error))?;
    let schema = rows.begun().await?.ok_or_else(|| malformed("there is no schema, and so no rows"))?;
    let begins = match made(command, seat, &name, &schema).await? {
        None => false,
        Some(statements) => {
            if !is_kept {
                said(seat, "BEGIN").await?;
            }
            for statement in statements {
                said(seat, &statement).await?;
            }
            !is_kept
        }
    };
    let statement = table.copied(Some(intake::names(&schema)), CopyOptions::new(CopyFormat::Text));
    let mut copy = seat.copy_in(statement).await.map_err(|error| told(&error))?;
    let mut first = 1;
    while let Some(batch) = rows.next().await? {
        let loaded = intake::load(seat, copy, batch, first).await;
        (copy, first) =
            loaded.inspect_err(|error| seat.gave_up(error.sqlstate(), error)).map_err(|error| told(&error))?;
    }
    let tag = seat.copy_done(copy).await.map_err(|error| told(&error))?;
    if begins {
        said(seat, "COMMIT").await?;
    }
    match tag {
        Tag::Counted(_, count) => Ok(i64::try_from(count).unwrap_or(i64::MAX)),
        Tag::Plain(_) => Ok(-1),
    }
}

/// The statements that make the table first, if there are some. Errors: 42P07 of a table that is not to be there, 42P01 of one that is.
async fn made(
    command: &CommandStatementIngest,
    seat: &mut Seat,
    name: &str,
    schema: &Schema,
) -> Result<Option<Vec<String>>, Status> {
    let options = command.table_definition_options.unwrap_or_default();
    let found = fetch(seat, "SELECT to_regclass($1) IS NOT NULL AS found", vec![Some(name.to_owned())]).await?;
    let is_there = found.iter().any(|batch| batch.num_rows() == 1 && batch.column(0).as_boolean().value(0));
    let refused = |sqlstate, what| told(&AdapterError::new(sqlstate, format!("relation {name} {what}")));
    match (is_there, options.if_exists(), options.if_not_exist()) {
        (true, TableExistsOption::Append, _) => Ok(None),
        (true, TableExistsOption::Replace, _) => Ok(Some(vec![format!("DROP TABLE {name}"), created(name, schema)?])),
        (true, TableExistsOption::Fail | TableExistsOption::Unspecified, _) => {
            Err(refused(SqlState::DUPLICATE_TABLE, "already exists"))
        }
        (false, _, TableNotExistOption::Create) => Ok(Some(vec![created(name, schema)?])),
        (false, _, TableNotExistOption::Fail | TableNotExistOption::Unspecified) => {
            Err(refused(SqlState::UNDEFINED_TABLE, "does not exist"))
        }
    }
}

/// The statement that makes a table for rows of this shape.
fn created(name: &str, schema: &Schema) -> Result<String, Status> {
    let column = |field: &Field| {
        let ty = type_of(field).ok_or_else(|| {
            let message = format!("no type here is like {}, that of \"{}\"", field.data_type(), field.name());
            told(&AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        })?;
        Ok(format!("{} {ty}", named([field.name().as_str()])))
    };
    let columns = schema.fields().iter().map(|field| column(field)).collect::<Result<Vec<_>, Status>>()?;
    Ok(format!("CREATE TABLE {name} ({})", columns.join(", ")))
}

/// The type of the values of a field, in SQL.
fn type_of(field: &Field) -> Option<String> {
    match (field.data_type(), extension(field)) {
        (DataType::FixedSizeBinary(16), Some("arrow.uuid")) => return Some("uuid".to_owned()),
        (DataType::Utf8, Some("arrow.json")) => {
            let is_json = field.metadata().get(POSTGRES_TYPE).is_some_and(|name| name == "json");
            return Some(if is_json { "json" } else { "jsonb" }.to_owned());
        }
        (DataType::UInt32, _) => {
            let is_oid = field.metadata().get(POSTGRES_TYPE).is_some_and(|name| name == "oid");
            return Some(if is_oid { "oid" } else { "int8" }.to_owned());
        }
        (DataType::UInt64, _) => return Some("numeric(20,0)".to_owned()),
        (DataType::Null, _) => return Some("text".to_owned()),
        (DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale), _) => {
            // As `door::exchange` has those without.
            let fits = *precision <= 38 && *scale >= 0 && scale.unsigned_abs() <= *precision;
            return Some(if fits { format!("numeric({precision},{scale})") } else { "numeric".to_owned() });
        }
        (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _), _) => {
            let item = type_of(item)?;
            return (!item.ends_with(']')).then(|| format!("{item}[]"));
        }
        _ => {}
    }
    match PgType::from_data_type(&intake::plain_type(field.data_type())) {
        PgType::Unknown | PgType::Void | PgType::Record => None,
        ty => Some(pgrepr::types::typname(&ty)),
    }
}

fn extension(field: &Field) -> Option<&str> {
    field.metadata().get(EXTENSION).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use door::exchange::Exchange;
    use repr::RelationDesc;

    #[test]
    fn a_table_for_rows_of_ours_has_the_types_that_they_had() {
        let types = [
            (PgType::Bool, "bool"),
            (PgType::Int2, "int2"),
            (PgType::Int8, "int8"),
            (PgType::Float4, "float4"),
            (PgType::Text, "text"),
            (PgType::Bytea, "bytea"),
            (PgType::Uuid, "uuid"),
            (PgType::Json, "json"),
            (PgType::Jsonb, "jsonb"),
            (PgType::Date, "date"),
            (PgType::Time, "time"),
            (PgType::Timestamp, "timestamp"),
            (PgType::Timestamptz, "timestamptz"),
            (PgType::Interval, "interval"),
            (PgType::Array(Box::new(PgType::Int4)), "int4[]"),
            (PgType::Array(Box::new(PgType::Uuid)), "uuid[]"),
        ];
        for (ty, name) in types {
            let desc = RelationDesc::new([("a\"b".to_owned(), ty, true)]);
            let made = created("t", Exchange::of(&desc).schema()).expect("it can be made");
            assert_eq!(made, format!("CREATE TABLE t (\"a\"\"b\" {name})"));
        }
    }

    #[test]
    fn types_of_others_are_the_nearest_that_lose_nothing() {
        for (ty, name) in [
            (DataType::UInt8, "int2"),
            (DataType::UInt16, "int4"),
            (DataType::UInt32, "int8"),
            (DataType::UInt64, "numeric(20,0)"),
            (DataType::LargeUtf8, "text"),
            (DataType::FixedSizeBinary(3), "bytea"),
            (DataType::Decimal128(10, 2), "numeric(10,2)"),
            (DataType::Decimal128(3, -2), "numeric"),
            (DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), "text"),
        ] {
            assert_eq!(type_of(&Field::new("a", ty.clone(), true)).as_deref(), Some(name), "{ty}");
        }
    }
}
