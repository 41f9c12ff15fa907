#!/bin/sh
# Records golden.tsv: what PostgreSQL 15 makes of each line of inputs.tsv.
#
# Usage: record.sh <psql connection string>
#
# inputs.tsv: a type and a text, or `/` and a numeric expression, separated by a tab. Backslashes, tabs and newlines in
# the text are written as COPY writes them. golden.tsv: type, text, `ok` with output and binary form (hex), or the
# SQLSTATE with message and detail.
set -eu
here=$(dirname "$0")
exec psql "$1" -X -q -v ON_ERROR_STOP=1 <<SQL > "$here/golden.tsv"
SET TimeZone = 'Europe/Berlin';
SET DateStyle = 'ISO, MDY';
SET IntervalStyle = 'postgres';
SET extra_float_digits = 1;
SET client_min_messages = error;
CREATE TEMP TABLE inputs (line serial, ty text, input text);
\copy inputs (ty, input) FROM '$here/inputs.tsv'
CREATE TEMP TABLE golden (line int, ty text, input text, code text, a text, b text);
CREATE FUNCTION pg_temp.record(line int, ty text, input text) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
  printed text; sent bytea; stem text; message text; detail text; code text;
BEGIN
  IF ty = '/' THEN
    EXECUTE 'SELECT (' || input || ')::text, numeric_send(' || input || ')' INTO printed, sent;
  ELSE
    SELECT typsend::regproc::text INTO stem FROM pg_type WHERE oid = ty::regtype;
    EXECUTE format('SELECT format(''%%s'', \$1::%s), %s(\$1::%s)', ty, stem, ty) INTO printed, sent USING input;
  END IF;
  INSERT INTO golden VALUES (line, ty, input, 'ok', printed, encode(sent, 'hex'));
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
  INSERT INTO golden VALUES (line, ty, input, code, message, detail);
END \$\$;
SELECT count(pg_temp.record(line, ty, input)) FROM (SELECT * FROM inputs ORDER BY line) i \g /dev/null
\copy (SELECT ty, input, code, a, b FROM golden ORDER BY line) TO STDOUT
SQL
