-- The tables that the queries of corpus.sql and later.sql read. Rows are for the test to make: small and random, with
-- many NULLs and many equal rows.

CREATE TABLE t1 (id int4, g int4, x int4, s text, b bool);

CREATE TABLE t2 (id int4, k int4, y int8, n numeric(12,2), d date);

-- The edges of a graph.
CREATE TABLE t3 (a int4, c int4);

CREATE TABLE t4 (k int4 NOT NULL, v text, f float8, ts timestamp);
