-- Queries that run ad hoc as in PostgreSQL, but that no index on a view maintains yet: CREATE INDEX refuses them with 0A000.
-- In the form of corpus.sql, over the tables of schema.sql.

-- Recursive terms that give, for all rows together, something else than round by round.

-- name: recursive_distinct_in_step
WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT DISTINCT n + 1 FROM r WHERE n < 5) SELECT n FROM r;

-- name: recursive_limit_in_step
WITH RECURSIVE r(n) AS (SELECT a FROM t3 UNION (SELECT n + 1 FROM r WHERE n < 5 ORDER BY n LIMIT 1)) SELECT n FROM r;

-- name: recursive_window_in_step
WITH RECURSIVE r(n, i) AS (SELECT a, 0::bigint FROM t3 UNION SELECT n + 1, row_number() OVER (ORDER BY n) FROM r WHERE n < 5)
    SELECT n, i FROM r;
