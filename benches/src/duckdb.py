"""DuckDB as a rival of bin/bench adhoc: reads a statement per line, or LOAD TABLE and a name, and prints the seconds it took."""

import sys
import time

import duckdb

connection = duckdb.connect(":memory:")
connection.execute("SET threads = 2")
for line in sys.stdin:
    text = line.strip()
    try:
        if text.startswith("LOAD TABLE "):
            table = text.removeprefix("LOAD TABLE ")
            path = f"{sys.argv[1]}/{table}"
            text = f"COPY {table} FROM '{path}' (DELIMITER '\t', NULL '\\N', HEADER false, QUOTE '', ESCAPE '', AUTO_DETECT false)"
        started = time.perf_counter()
        connection.execute(text).fetchall()
        print(time.perf_counter() - started, flush=True)
    except Exception as error:
        print(f"failed: {error}".replace("\n", " "), flush=True)
