-- What people do in psql besides queries. The output is compared with that from PostgreSQL as it is.
\pset pager off
\echo == results into variables
SELECT count(*) AS n, min(name) AS first FROM things \gset my_
\echo :my_n :'my_first' :"my_first"
SELECT 'SELECT ' || id || ' AS made' FROM things ORDER BY id \gexec
\echo == the shape of a result, without running it
SELECT id, name, price, at, tags, short, data FROM things \gdesc
SELECT 1 AS one, 'x' AS two, now() AS three, ARRAY[1, 2] AS four, NULL AS five \gdesc
SELECT id FROM things WHERE id = $1 \gdesc
\echo == formats
\x on
SELECT id, name FROM things ORDER BY id;
\x off
\pset format csv
SELECT id, name, tags FROM things ORDER BY id;
\pset format unaligned
SELECT id, price, at FROM things ORDER BY id;
\pset format aligned
\pset null '(null)'
SELECT id, name, data FROM things ORDER BY id;
\pset null ''
\t on
SELECT name FROM things WHERE id = 1;
\t off
SELECT id, price > 2 AS dear, count(*) FROM things GROUP BY id, price ORDER BY id \crosstabview
\echo == in portions
\set FETCH_COUNT 100
SELECT g, g % 7 AS week FROM generate_series(1, 250) g WHERE g % 50 = 0 ORDER BY g;
SELECT count(*) FROM (SELECT * FROM generate_series(1, 1000)) t;
SELECT 1 / (g - 150) FROM generate_series(1, 200) g ORDER BY g;
\set FETCH_COUNT 0
\echo == copy
CREATE TABLE copied (id int4 NOT NULL, name text, tags text[]);
\copy copied FROM STDIN
1	a	{x,"y z"}
2	\N	\N
\.
\copy copied (id, name) FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER ';', NULL '-')
id;name
3;"c;""d"""
4;-
\.
COPY copied TO STDOUT;
\copy (SELECT id, name FROM copied WHERE id > 2 ORDER BY id) TO STDOUT WITH CSV HEADER
\copy copied (id) FROM STDIN
not a number
\.
SELECT count(*) FROM copied;
DROP TABLE copied;
\echo == errors
\set VERBOSITY sqlstate
SELECT 1/0;
SELECT * FROM nosuch;
SELECT nosuch FROM things;
SELEC 1;
INSERT INTO things (name) VALUES ('no id');
SELECT * FROM things WHERE id = 'x';
\set VERBOSITY terse
SELECT 1/0;
\set VERBOSITY default
SELECT nosuch FROM things;
SELECT id,
  name, nosuch
FROM things;
SELECT id FROM things
WHERE nosuch_function(id) > 1;
SELECT * FROM nosuch.things;
\echo :ERROR :SQLSTATE :LAST_ERROR_SQLSTATE
SELECT 1 AS fine;
\echo :ERROR :ROW_COUNT
\echo == transactions
BEGIN;
INSERT INTO things (id) VALUES (100);
SAVEPOINT s;
INSERT INTO things (id) VALUES (101);
ROLLBACK TO s;
RELEASE s;
SELECT id FROM things WHERE id >= 100;
ROLLBACK;
\set ON_ERROR_ROLLBACK on
BEGIN;
INSERT INTO things (id) VALUES (100);
SELECT 1/0;
INSERT INTO things (id) VALUES (101);
COMMIT;
SELECT id FROM things WHERE id >= 100 ORDER BY id;
\set ON_ERROR_ROLLBACK off
\set AUTOCOMMIT off
DELETE FROM things WHERE id >= 100;
SELECT count(*) FROM things;
ROLLBACK;
SELECT count(*) FROM things;
COMMIT;
DELETE FROM things WHERE id >= 100;
COMMIT;
\set AUTOCOMMIT on
BEGIN;
CREATE TABLE fresh (id int4);
INSERT INTO fresh VALUES (1), (2);
\d fresh
SELECT sum(id) FROM fresh;
ALTER TABLE fresh RENAME TO fresher;
UPDATE fresher SET id = id + 1;
SELECT * FROM fresher ORDER BY id;
COMMIT;
SELECT * FROM fresher ORDER BY id;
BEGIN;
DROP TABLE fresher;
SELECT * FROM fresher;
ROLLBACK;
DROP TABLE fresher;
\echo == settings
\encoding
SHOW client_encoding;
SET client_min_messages = warning;
DROP TABLE IF EXISTS nosuch;
RESET client_min_messages;
DROP TABLE IF EXISTS nosuch;
SET application_name = 'psql suite';
SHOW application_name;
\echo :AUTOCOMMIT :ENCODING :DBNAME :USER
\if :{?my_n}
\echo there is a variable
\else
\echo there is none
\endif
PREPARE by_id (int4) AS SELECT name FROM things WHERE id = $1;
EXECUTE by_id (1);
DEALLOCATE by_id;
SELECT 1 AS a \; SELECT 2 AS b;
SELECT 1 AS "a b", 'x' AS "C" \g (format=csv)
