//! What the server can, for clients that adapt to that, and its types.

use crate::answering::send_batches;
use crate::sending::{Messages, streamed};
use crate::told::told;
use adapter::error::AdapterError;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    CommandGetSqlInfo, CommandGetXdbcTypeInfo, Nullable, Searchable, SqlInfo, SqlNullOrdering,
    SqlSupportedCaseSensitivity, SqlSupportedTransaction, SqlTransactionIsolationLevel, XdbcDataType,
};
use std::sync::LazyLock;
use tonic::Status;

static INFORMATION: LazyLock<Result<SqlInfoData, FlightError>> = LazyLock::new(|| {
    let mut information = SqlInfoDataBuilder::new();
    information.append(SqlInfo::FlightSqlServerName, "Glimpse");
    information.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    information.append(SqlInfo::FlightSqlServerArrowVersion, arrow::ARROW_VERSION);
    information.append(SqlInfo::FlightSqlServerReadOnly, false);
    information.append(SqlInfo::FlightSqlServerSql, true);
    information.append(SqlInfo::FlightSqlServerSubstrait, false);
    information.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::Savepoint as i32);
    information.append(SqlInfo::FlightSqlServerCancel, true);
    information.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    information.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
    information.append(SqlInfo::FlightSqlServerStatementTimeout, 0);
    information.append(SqlInfo::FlightSqlServerTransactionTimeout, 0);
    information.append(SqlInfo::SqlDdlCatalog, true);
    information.append(SqlInfo::SqlDdlSchema, true);
    information.append(SqlInfo::SqlDdlTable, true);
    information.append(SqlInfo::SqlIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32);
    // As it stands there, for which the specification has no word.
    information.append(SqlInfo::SqlQuotedIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityUnknown as i32);
    information.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    information.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32);
    information.append(SqlInfo::SqlSearchStringEscape, "\\");
    information.append(SqlInfo::SqlCatalogTerm, "database");
    information.append(SqlInfo::SqlSchemaTerm, "schema");
    information.append(SqlInfo::SqlCatalogAtStart, true);
    information.append(SqlInfo::SqlTransactionsSupported, true);
    information.append(
        SqlInfo::SqlDefaultTransactionIsolation,
        SqlTransactionIsolationLevel::SqlTransactionSerializable as i64,
    );
    information.append(SqlInfo::SqlSavepointsSupported, true);
    information.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
    information.append(SqlInfo::SqlMaxTableNameLength, 63_i64);
    information.append(SqlInfo::SqlMaxColumnNameLength, 63_i64);
    information.append(SqlInfo::SqlDbSchemaNameLength, 63_i64);
    information.build()
});

/// A type: its name, what JDBC calls it, its precision if it has one, and what literals of it are quoted with.
const TYPES: [(&str, XdbcDataType, Option<i32>, Option<&str>); 18] = [
    ("bool", XdbcDataType::XdbcBit, Some(1), None),
    ("int2", XdbcDataType::XdbcSmallint, Some(5), None),
    ("int4", XdbcDataType::XdbcInteger, Some(10), None),
    ("int8", XdbcDataType::XdbcBigint, Some(19), None),
    ("float4", XdbcDataType::XdbcReal, Some(7), None),
    ("float8", XdbcDataType::XdbcDouble, Some(15), None),
    ("numeric", XdbcDataType::XdbcNumeric, Some(76), None),
    ("text", XdbcDataType::XdbcVarchar, None, Some("'")),
    ("varchar", XdbcDataType::XdbcVarchar, None, Some("'")),
    ("bpchar", XdbcDataType::XdbcChar, None, Some("'")),
    ("bytea", XdbcDataType::XdbcVarbinary, None, Some("'")),
    ("date", XdbcDataType::XdbcDate, Some(10), Some("'")),
    ("time", XdbcDataType::XdbcTime, Some(15), Some("'")),
    ("timestamp", XdbcDataType::XdbcTimestamp, Some(26), Some("'")),
    ("timestamptz", XdbcDataType::XdbcTimestamp, Some(32), Some("'")),
    ("interval", XdbcDataType::XdbcInterval, None, Some("'")),
    ("uuid", XdbcDataType::XdbcUnknownType, Some(36), Some("'")),
    ("jsonb", XdbcDataType::XdbcUnknownType, None, Some("'")),
];

static TYPE_INFORMATION: LazyLock<Result<XdbcTypeInfoData, FlightError>> = LazyLock::new(|| {
    let mut information = XdbcTypeInfoDataBuilder::new();
    for (name, data_type, column_size, quote) in TYPES {
        let is_text = matches!(data_type, XdbcDataType::XdbcVarchar | XdbcDataType::XdbcChar);
        information.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type,
            column_size,
            literal_prefix: quote.map(str::to_owned),
            literal_suffix: quote.map(str::to_owned),
            create_params: None,
            nullable: Nullable::NullabilityNullable,
            case_sensitive: is_text,
            searchable: if is_text { Searchable::Full } else { Searchable::Basic },
            unsigned_attribute: quote.is_none().then_some(false),
            fixed_prec_scale: false,
            auto_increment: Some(false),
            local_type_name: Some(name.to_owned()),
            minimum_scale: None,
            maximum_scale: None,
            sql_data_type: data_type,
            datetime_subcode: None,
            num_prec_radix: quote.is_none().then_some(10),
            interval_precision: None,
        });
    }
    information.build()
});

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Information {
    Server(CommandGetSqlInfo),
    Types(CommandGetXdbcTypeInfo),
}

impl Information {
    /// The shape of the rows.
    pub(crate) fn schema(&self) -> Result<SchemaRef, Status> {
        Ok(self.batch()?.schema())
    }

    /// Sends the rows.
    pub(crate) fn rows(self, bytes_max: usize) -> Messages<FlightData> {
        streamed(bytes_max, |outlet| async move {
            let batch = self.batch()?;
            send_batches(outlet, &batch.schema(), vec![batch]).await
        })
    }

    fn batch(&self) -> Result<RecordBatch, Status> {
        let batch = match self {
            Information::Server(asked) => {
                INFORMATION.as_ref().map(|information| information.record_batch(asked.info.iter().copied()))
            }
            Information::Types(asked) => {
                TYPE_INFORMATION.as_ref().map(|information| information.record_batch(asked.data_type))
            }
        };
        let wrong = |error: String| told(&AdapterError::internal(format!("what the server can: {error}")));
        match batch {
            Ok(batch) => batch.map_err(|error| wrong(error.to_string())),
            Err(error) => Err(wrong(error.to_string())),
        }
    }
}
