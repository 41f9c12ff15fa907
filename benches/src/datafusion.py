"""Stock DataFusion as a rival of bin/bench adhoc: tables in memory, two partitions. The same protocol as duckdb.py."""

import sys
import time

import pyarrow
import pyarrow.csv
from datafusion import SessionConfig, SessionContext

context = SessionContext(SessionConfig().with_target_partitions(2))


def load(table):
    """Reads a table's rows in place of the empty one that CREATE TABLE has made."""
    schema = context.table(table).schema()
    # Views of texts are made of texts, which the reader knows.
    texts = {field.name: pyarrow.string() for field in schema if pyarrow.types.is_string_view(field.type)}
    rows = pyarrow.csv.read_csv(
        f"{sys.argv[1]}/{table}",
        read_options=pyarrow.csv.ReadOptions(column_names=schema.names),
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={field.name: texts.get(field.name, field.type) for field in schema}, null_values=["\\N"]
        ),
    )
    columns = [column.cast(field.type) for column, field in zip(rows.columns, schema)]
    batches = pyarrow.Table.from_arrays(columns, schema=schema).to_batches(max_chunksize=8192)
    context.deregister_table(table)
    context.register_record_batches(table, [batches[0::2], batches[1::2]])


for line in sys.stdin:
    text = line.strip()
    try:
        started = time.perf_counter()
        if text.startswith("LOAD TABLE "):
            load(text.removeprefix("LOAD TABLE "))
        else:
            context.sql(text).collect()
        print(time.perf_counter() - started, flush=True)
    except Exception as error:
        print(f"failed: {error}".replace("\n", " "), flush=True)
