-- Queries that run ad hoc as in PostgreSQL, but that no index on a view maintains yet: CREATE INDEX refuses them with 0A000.
-- In the form of corpus.sql, over the tables of schema.sql.

-- WITH RECURSIVE.

-- name: recursive_counter
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT i FROM n;

-- name: recursive_reachability
WITH RECURSIVE r(a, c) AS (SELECT a, c FROM t3 UNION SELECT r.a, t3.c FROM r JOIN t3 ON r.c = t3.a) SELECT a, c FROM
    r;

-- name: recursive_from_one
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n) SELECT n FROM r;

-- name: recursive_depth
WITH RECURSIVE r(n, depth) AS (SELECT 1, 0 UNION SELECT t3.c, r.depth + 1 FROM r JOIN t3 ON t3.a = r.n WHERE r.depth
    < 3) SELECT n, min(depth) AS depth FROM r GROUP BY n;

-- name: recursive_joined
WITH RECURSIVE r(a, c) AS (SELECT a, c FROM t3 UNION SELECT r.a, t3.c FROM r JOIN t3 ON r.c = t3.a) SELECT r.a,
    count(*) AS reach, min(t4.v) AS v FROM r LEFT JOIN t4 ON t4.k = r.c GROUP BY r.a;
