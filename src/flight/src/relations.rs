//! What there is: databases, schemas, tables, keys. Each is a query of the catalog, as any client could ask it; names are of the call's database.

use crate::answering::send_batches;
use crate::sending::{Messages, encapsulated, streamed};
use crate::told::told;
use crate::welcome::{Caller, Chair};
use adapter::answer::{self, Answer, Described, Follows, texts};
use adapter::error::AdapterError;
use adapter::made::named;
use adapter::seat::Seat;
use arrow::array::{ArrayRef, AsArray, BinaryBuilder, BooleanArray, RecordBatch, StringArray};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::FlightData;
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables,
};
use door::exchange::{Exchange, POSTGRES_TYPE};
use repr::sqlstate::SqlState;
use std::sync::Arc;
use tonic::Status;

/// What a field's metadata calls its type for JDBC.
const TYPE_NAME: &str = "ARROW:FLIGHT:SQL:TYPE_NAME";
/// Bytes of a batch.
const BATCH_BYTES: usize = 1 << 20;

const CATALOGS: &str = "SELECT datname::text FROM pg_catalog.pg_database WHERE datallowconn ORDER BY 1";

const SCHEMAS: &str = "
    SELECT current_database()::text, nspname::text FROM pg_catalog.pg_namespace
    WHERE ($1::text IS NULL OR $1 = current_database()) AND ($2::text IS NULL OR nspname LIKE $2)
    ORDER BY 1, 2";

const TABLE_TYPES: [&str; 5] = ["MATERIALIZED VIEW", "SYSTEM TABLE", "SYSTEM VIEW", "TABLE", "VIEW"];

const TABLES: &str = "
    SELECT current_database()::text, n.nspname::text, c.relname::text,
        CASE WHEN n.nspname IN ('pg_catalog', 'information_schema') OR n.nspname LIKE 'mz\\_%'
             THEN CASE c.relkind WHEN 'v' THEN 'SYSTEM VIEW' ELSE 'SYSTEM TABLE' END
             ELSE CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END END
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm') AND ($1::text IS NULL OR $1 = current_database())
        AND ($2::text IS NULL OR n.nspname LIKE $2) AND ($3::text IS NULL OR c.relname LIKE $3)
    ORDER BY 1, 2, 3, 4";

const PRIMARY_KEYS: &str = "
    SELECT current_database()::text, n.nspname::text, c.relname::text, a.attname::text, k.conname::text, i.at::int4
    FROM pg_catalog.pg_constraint k
        JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        JOIN generate_series(1, 64) i(at) ON i.at <= cardinality(k.conkey)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[i.at]
    WHERE k.contype = 'p' AND ($1::text IS NULL OR $1 = current_database())
        AND ($2::text IS NULL OR n.nspname = $2) AND c.relname = $3
    ORDER BY 1, 2, 3, 5, 6";

/// From what they are of to what refers to it; the rules are as Flight SQL counts them.
const FOREIGN_KEYS: &str = "
    SELECT current_database()::text, pn.nspname::text, pc.relname::text, pa.attname::text,
        current_database()::text, fn.nspname::text, fc.relname::text, fa.attname::text,
        i.at::int4, f.conname::text,
        (SELECT min(p.conname::text) FROM pg_catalog.pg_constraint p
            WHERE p.conrelid = f.confrelid AND p.contype IN ('p', 'u') AND p.conindid = f.conindid),
        CASE f.confupdtype WHEN 'c' THEN 0 WHEN 'r' THEN 1 WHEN 'n' THEN 2 WHEN 'd' THEN 4 ELSE 3 END,
        CASE f.confdeltype WHEN 'c' THEN 0 WHEN 'r' THEN 1 WHEN 'n' THEN 2 WHEN 'd' THEN 4 ELSE 3 END
    FROM pg_catalog.pg_constraint f
        JOIN pg_catalog.pg_class pc ON pc.oid = f.confrelid
        JOIN pg_catalog.pg_namespace pn ON pn.oid = pc.relnamespace
        JOIN pg_catalog.pg_class fc ON fc.oid = f.conrelid
        JOIN pg_catalog.pg_namespace fn ON fn.oid = fc.relnamespace
        JOIN generate_series(1, 64) i(at) ON i.at <= cardinality(f.conkey)
        JOIN pg_catalog.pg_attribute pa ON pa.attrelid = f.confrelid AND pa.attnum = f.confkey[i.at]
        JOIN pg_catalog.pg_attribute fa ON fa.attrelid = f.conrelid AND fa.attnum = f.conkey[i.at]
    WHERE f.contype = 'f'
        AND ($1::text IS NULL OR $1 = current_database()) AND ($2::text IS NULL OR pn.nspname = $2)
        AND ($3::text IS NULL OR pc.relname = $3)
        AND ($4::text IS NULL OR $4 = current_database()) AND ($5::text IS NULL OR fn.nspname = $5)
        AND ($6::text IS NULL OR fc.relname = $6)
    ORDER BY 1, 2, 3, 5, 6, 7, 10, 9";

/// The columns of a relation that are never NULL.
const NOT_NULL: &str = "
    SELECT attname::text FROM pg_catalog.pg_attribute
    WHERE attrelid = to_regclass($1)::oid AND attnum > 0 AND attnotnull AND NOT attisdropped";

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Relation {
    Catalogs(CommandGetCatalogs),
    Schemas(CommandGetDbSchemas),
    Tables(CommandGetTables),
    TableTypes,
    PrimaryKeys(CommandGetPrimaryKeys),
    ExportedKeys(CommandGetExportedKeys),
    ImportedKeys(CommandGetImportedKeys),
    CrossReference(CommandGetCrossReference),
}

impl Relation {
    /// The shape of the rows, which the specification gives.
    pub(crate) fn schema(&self) -> SchemaRef {
        let fields = match self {
            Relation::Catalogs(_) => vec![text("catalog_name", false)],
            Relation::Schemas(_) => vec![text("catalog_name", true), text("db_schema_name", false)],
            Relation::TableTypes => vec![text("table_type", false)],
            Relation::Tables(asked) => {
                let schema = Field::new("table_schema", DataType::Binary, false);
                let names = [("catalog_name", true), ("db_schema_name", true), ("table_name", false)];
                let fields = names.into_iter().chain([("table_type", false)]).map(|(name, null)| text(name, null));
                fields.chain(asked.include_schema.then_some(schema)).collect()
            }
            Relation::PrimaryKeys(_) => vec![
                text("catalog_name", true),
                text("db_schema_name", true),
                text("table_name", false),
                text("column_name", false),
                text("key_name", true),
                Field::new("key_sequence", DataType::Int32, false),
            ],
            Relation::ExportedKeys(_) | Relation::ImportedKeys(_) | Relation::CrossReference(_) => vec![
                text("pk_catalog_name", true),
                text("pk_db_schema_name", true),
                text("pk_table_name", false),
                text("pk_column_name", false),
                text("fk_catalog_name", true),
                text("fk_db_schema_name", true),
                text("fk_table_name", false),
                text("fk_column_name", false),
                Field::new("key_sequence", DataType::Int32, false),
                text("fk_key_name", true),
                text("pk_key_name", true),
                Field::new("update_rule", DataType::UInt8, false),
                Field::new("delete_rule", DataType::UInt8, false),
            ],
        };
        Arc::new(Schema::new(fields))
    }

    /// Sends the rows.
    pub(crate) fn rows(self, caller: Caller) -> Messages<FlightData> {
        let schema = self.schema();
        streamed(caller.message_bytes_max, |outlet| async move {
            let mut chair = caller.seat(None).await?;
            let found = Chair::until_ended(chair.shutdown(), self.found(&mut chair, &schema)).await;
            send_batches(outlet, &schema, chair.leave(found).await?).await
        })
    }

    async fn found(self, seat: &mut Seat, schema: &SchemaRef) -> Result<Vec<RecordBatch>, Status> {
        let keys = |pk: [Option<String>; 3], fk: [Option<String>; 3]| pk.into_iter().chain(fk).collect();
        let found = match self {
            Relation::TableTypes => {
                let types: ArrayRef = Arc::new(StringArray::from(TABLE_TYPES.to_vec()));
                return Ok(vec![batch(schema, vec![types])?]);
            }
            Relation::Catalogs(_) => fetch(seat, CATALOGS, Vec::new()).await?,
            Relation::Schemas(asked) => {
                fetch(seat, SCHEMAS, vec![asked.catalog, asked.db_schema_filter_pattern]).await?
            }
            Relation::Tables(asked) => return tables(seat, schema, asked).await,
            Relation::PrimaryKeys(of) => {
                fetch(seat, PRIMARY_KEYS, vec![of.catalog, of.db_schema, Some(of.table)]).await?
            }
            Relation::ExportedKeys(of) => {
                let values = keys([of.catalog, of.db_schema, Some(of.table)], [None, None, None]);
                fetch(seat, FOREIGN_KEYS, values).await?
            }
            Relation::ImportedKeys(of) => {
                let values = keys([None, None, None], [of.catalog, of.db_schema, Some(of.table)]);
                fetch(seat, FOREIGN_KEYS, values).await?
            }
            Relation::CrossReference(of) => {
                let pk = [of.pk_catalog, of.pk_db_schema, Some(of.pk_table)];
                let fk = [of.fk_catalog, of.fk_db_schema, Some(of.fk_table)];
                fetch(seat, FOREIGN_KEYS, keys(pk, fk)).await?
            }
        };
        found.iter().map(|found| batch(schema, found.columns().to_vec())).collect()
    }
}

fn text(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable)
}

/// Columns as those of a shape.
fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch, Status> {
    let columns = columns.iter().zip(schema.fields()).map(|(column, field)| cast(column, field.data_type()));
    let batch = columns.collect::<Result<_, _>>().and_then(|columns| RecordBatch::try_new(Arc::clone(schema), columns));
    batch.map_err(wrong)
}

/// The tables, and how their rows look.
async fn tables(seat: &mut Seat, schema: &SchemaRef, asked: CommandGetTables) -> Result<Vec<RecordBatch>, Status> {
    let values = vec![asked.catalog, asked.db_schema_filter_pattern, asked.table_name_filter_pattern];
    let mut batches = Vec::new();
    for found in fetch(seat, TABLES, values).await? {
        let names = batch(&Arc::new(Schema::new(schema.fields()[..4].to_vec())), found.columns().to_vec())?;
        let is_asked =
            |ty: Option<&str>| asked.table_types.is_empty() || asked.table_types.iter().any(|of| Some(&**of) == ty);
        let kept: BooleanArray = names.column(3).as_string::<i32>().iter().map(|ty| Some(is_asked(ty))).collect();
        let names = filter_record_batch(&names, &kept).map_err(wrong)?;
        let mut columns = names.columns().to_vec();
        if asked.include_schema {
            let mut shapes = BinaryBuilder::new();
            for row in 0..names.num_rows() {
                let name = named([1, 2].map(|at| names.column(at).as_string::<i32>().value(row)));
                shapes.append_value(shape(seat, &name).await?);
            }
            columns.push(Arc::new(shapes.finish()));
        }
        batches.push(batch(schema, columns)?);
    }
    Ok(batches)
}

/// Why a relation's columns are not told.
const UNSHOWN: [SqlState; 3] =
    [SqlState::UNDEFINED_TABLE, SqlState::INSUFFICIENT_PRIVILEGE, SqlState::INVALID_SCHEMA_NAME];

/// How a table's rows look, as it stands in a message; of no columns if they are not told.
async fn shape(seat: &mut Seat, name: &str) -> Result<Vec<u8>, Status> {
    let query = answer::Statement::Text(format!("SELECT * FROM {name}"));
    let rows = match seat.describe(query).await {
        Ok(Described { rows, .. }) => rows,
        // Gone meanwhile, or none of the caller's to look at.
        Err(error) if UNSHOWN.contains(&error.sqlstate()) => None,
        Err(error) => return Err(told(&error)),
    };
    let Some(rows) = rows else { return Ok(encapsulated(&Schema::empty())?.to_vec()) };
    let exchange = Exchange::of(&rows.desc);
    let not_null = fetch(seat, NOT_NULL, vec![Some(name.to_owned())]).await?;
    let not_null = not_null.iter().map(|batch| cast(batch.column(0), &DataType::Utf8)).collect::<Result<Vec<_>, _>>();
    let not_null = not_null.map_err(wrong)?;
    let not_null =
        |name: &String| not_null.iter().any(|names| names.as_string::<i32>().iter().flatten().any(|of| of == name));
    let fields = exchange.schema().fields().iter().map(|field| {
        let mut metadata = field.metadata().clone();
        if let Some(name) = metadata.get(POSTGRES_TYPE).cloned() {
            metadata.insert(TYPE_NAME.to_owned(), name);
        }
        field.as_ref().clone().with_nullable(!not_null(field.name())).with_metadata(metadata)
    });
    Ok(encapsulated(&Schema::new(fields.collect::<Vec<_>>()))?.to_vec())
}

/// All rows of a query with these values, which are texts.
pub(crate) async fn fetch(
    seat: &mut Seat,
    query: &str,
    values: Vec<Option<String>>,
) -> Result<Vec<RecordBatch>, Status> {
    let fetched = async {
        let statement = answer::Statement::Text(query.to_owned());
        let mut batches = Vec::new();
        if let Answer::Rows(mut rows) =
            Box::pin(seat.answer(statement, texts(values), Follows::Others, BATCH_BYTES)).await?
        {
            while let Some(batch) = rows.next().await? {
                batches.push(batch);
            }
        }
        seat.commit().await?;
        Ok(batches)
    };
    fetched.await.map_err(|error: AdapterError| told(&error))
}

fn wrong(error: arrow::error::ArrowError) -> Status {
    told(&AdapterError::internal(format!("rows of the catalog: {error}")))
}
