-- Queries that run ad hoc as in PostgreSQL, but that no index on a view maintains yet: CREATE INDEX refuses them with 0A000.
-- In the form of corpus.sql, over the tables of schema.sql.

-- Set operations.

-- Window functions.

-- GROUPING SETS, ROLLUP, CUBE.

-- name: grouping_sets_two
SELECT g, s, count(*) AS n FROM t1 GROUP BY GROUPING SETS ((g), (s));

-- name: grouping_sets_empty
SELECT g, sum(x) AS total FROM t1 GROUP BY GROUPING SETS ((g), ());

-- name: rollup_two
SELECT g, s, count(*) AS n, sum(x) AS total FROM t1 GROUP BY ROLLUP (g, s);

-- name: rollup_one
SELECT k, sum(y) AS total FROM t2 GROUP BY ROLLUP (k);

-- name: cube_two
SELECT g, b, count(*) AS n FROM t1 GROUP BY CUBE (g, b);

-- name: rollup_of_join
SELECT t1.g, t4.v, count(*) AS n FROM t1 JOIN t4 ON t4.k = t1.g GROUP BY ROLLUP (t1.g, t4.v);

-- name: cube_having
SELECT g, s, count(*) AS n FROM t1 GROUP BY CUBE (g, s) HAVING count(*) > 2;

-- DISTINCT ON.

-- Functions that give several rows.

-- name: unnest_constant
SELECT t1.id, u.v FROM t1 CROSS JOIN unnest(ARRAY[1, 2, 3]) AS u(v);

-- name: unnest_selected
SELECT id, unnest(ARRAY[g, x]) AS v FROM t1;

-- name: unnest_array_agg
SELECT q.g, unnest(q.xs) AS x FROM (SELECT g, array_agg(x ORDER BY x) AS xs FROM t1 GROUP BY g) q;

-- name: generate_series_joined
SELECT n.i, count(t1.id) AS n FROM generate_series(0, 4) AS n(i) LEFT JOIN t1 ON t1.g = n.i GROUP BY n.i;

-- name: generate_series_only
SELECT i * i AS square FROM generate_series(1, 5) AS n(i);

-- name: generate_series_per_row
SELECT t4.k, n.i FROM t4, generate_series(1, t4.k) AS n(i);

-- name: generate_series_selected
SELECT id, generate_series(1, 2) AS i FROM t1;

-- name: generate_series_dates
SELECT s.day::date AS day, count(t2.id) AS n FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-05',
    INTERVAL '1 day') AS s(day) LEFT JOIN t2 ON t2.d = s.day::date GROUP BY s.day::date;

-- name: string_to_table
SELECT k, unnest(string_to_array('a,' || v, ',')) AS part FROM t4;

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

-- name: correlated_not_in
SELECT id, x FROM t1 WHERE x NOT IN (SELECT y FROM t2 WHERE t2.id = t1.id);
