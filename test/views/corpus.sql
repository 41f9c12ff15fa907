-- Queries that an index on a view maintains, over the tables of schema.sql. Each has a name and ends with a semicolon; blank
-- lines separate them. Each gives the same rows in PostgreSQL, ad hoc, and from its index, whatever the tables hold.

-- Filters.

-- name: filter_eq_const
SELECT id, g, x FROM t1 WHERE g = 2;

-- name: filter_is_null
SELECT id, x, s FROM t1 WHERE g IS NULL;

-- name: filter_is_not_null
SELECT * FROM t1 WHERE x IS NOT NULL AND s IS NOT NULL;

-- name: filter_distinct_from_const
SELECT id, g FROM t1 WHERE g IS DISTINCT FROM 1;

-- name: filter_not_distinct_from_columns
SELECT id, g, x FROM t1 WHERE g IS NOT DISTINCT FROM x;

-- name: filter_between
SELECT id, x FROM t1 WHERE x BETWEEN 1 AND 5;

-- name: filter_not_between
SELECT id, x FROM t1 WHERE x NOT BETWEEN 2 AND 4;

-- name: filter_between_columns
SELECT id, g, x FROM t1 WHERE x BETWEEN g AND g + 3;

-- name: filter_in_list
SELECT id, s FROM t1 WHERE s IN ('a', 'c', 'e');

-- name: filter_not_in_list
SELECT id, g FROM t1 WHERE g NOT IN (0, 3);

-- name: filter_in_list_with_null
SELECT id, g FROM t1 WHERE g IN (1, NULL, 2);

-- name: filter_not_in_list_with_null
SELECT id, g FROM t1 WHERE g NOT IN (1, NULL);

-- name: filter_in_long_list
SELECT a, c FROM t3 WHERE a IN (0, 1, 2, 3, 5, 7, 9, 11) AND c IN (1, 2, 4, 6, 8);

-- name: filter_like_prefix
SELECT k, v FROM t4 WHERE v LIKE 'a%';

-- name: filter_not_like
SELECT k, v FROM t4 WHERE v NOT LIKE '%b%';

-- name: filter_like_underscore
SELECT k, v FROM t4 WHERE v LIKE '_';

-- name: filter_ilike
SELECT id, s FROM t1 WHERE s ILIKE 'A%' OR s ILIKE '%B';

-- name: filter_case
SELECT id, g, x FROM t1 WHERE CASE WHEN g = 1 THEN x > 2 WHEN g = 2 THEN x < 3 ELSE b END;

-- name: filter_bool_column
SELECT id, b FROM t1 WHERE b;

-- name: filter_not_bool_column
SELECT id, b FROM t1 WHERE NOT b;

-- name: filter_bool_is_true
SELECT id, b FROM t1 WHERE b IS TRUE;

-- name: filter_bool_is_not_true
SELECT id, b FROM t1 WHERE b IS NOT TRUE;

-- name: filter_bool_is_not_false
SELECT id, b FROM t1 WHERE b IS NOT FALSE;

-- name: filter_bool_unknown
SELECT id, b FROM t1 WHERE (g > 2) IS UNKNOWN OR b IS UNKNOWN;

-- name: filter_or_and_mix
SELECT id, g, x, s FROM t1 WHERE (g = 1 OR x > 3) AND (s = 'a' OR s IS NULL OR b);

-- name: filter_not_or_nulls
SELECT id, g, x FROM t1 WHERE NOT (g = 1 OR x = 2);

-- name: filter_columns_compared
SELECT id, g, x FROM t1 WHERE x > g;

-- name: filter_arithmetic
SELECT id, g, x FROM t1 WHERE (x * 2 + g) % 3 = 1;

-- name: filter_guarded_division
SELECT id, g, x FROM t1 WHERE x / nullif(g, 0) > 1;

-- name: filter_coalesce
SELECT id, g, x FROM t1 WHERE coalesce(g, x, -1) < 2;

-- name: filter_date
SELECT id, d FROM t2 WHERE d >= DATE '2024-01-03' AND d < DATE '2024-01-09';

-- name: filter_date_part
SELECT id, d FROM t2 WHERE extract(day FROM d) IN (1, 2, 3, 4, 5);

-- name: filter_timestamp
SELECT k, ts FROM t4 WHERE ts > TIMESTAMP '2024-01-02 12:00:00';

-- name: filter_float
SELECT k, f FROM t4 WHERE f > 0.5 AND f <= 3;

-- name: filter_float_special
SELECT k, v FROM t4 WHERE f = 1.5 OR f IS NULL;

-- name: filter_numeric
SELECT id, n FROM t2 WHERE n > 1.25 AND n <> 3.50;

-- name: filter_bigint_vs_int
SELECT id, k, y FROM t2 WHERE y > k AND y::numeric < 100.5;

-- name: filter_text_order
SELECT id, s FROM t1 WHERE s > 'a' AND s <= 'd';

-- name: filter_row_in
SELECT id, g, x FROM t1 WHERE (g, x) IN ((1, 2), (2, 3), (0, 0));

-- name: filter_row_eq
SELECT id, g, x FROM t1 WHERE g = 1 AND x = 1 OR g = 2 AND x = 2;

-- name: filter_always_false
SELECT id, g FROM t1 WHERE 1 = 2;

-- name: filter_always_true
SELECT id, g FROM t1 WHERE 1 = 1;

-- name: filter_null_condition
SELECT id, g FROM t1 WHERE NULL::bool;

-- name: filter_twice
SELECT q.id, q.x FROM (SELECT id, x, g FROM t1 WHERE g < 4) AS q WHERE q.x > 0 AND q.g <> 2;

-- name: filter_length
SELECT k, v FROM t4 WHERE length(v) = 1 AND upper(v) <> 'B';

-- name: filter_sign
SELECT id, x FROM t1 WHERE abs(x) > 2 AND sign(x) = 1;

-- name: filter_contradiction
SELECT id, x FROM t1 WHERE x > 5 AND x < 3;

-- name: filter_is_null_or_equal
SELECT id, g, x FROM t1 WHERE (g IS NULL) = (x IS NULL);

-- name: filter_bool_comparison
SELECT id, b, g FROM t1 WHERE b = (g > 1);

-- Projections.

-- name: project_swapped_columns
SELECT c AS first, a AS second FROM t3;

-- name: project_same_column_twice
SELECT id AS id1, id AS id2, id + 0 AS id3 FROM t1;

-- name: project_arithmetic
SELECT id, g + x AS plus, g - x AS minus, g * x AS times, x / nullif(g, 0) AS quotient, x % nullif(g, 0) AS
    remainder FROM t1;

-- name: project_case_searched
SELECT id, CASE WHEN x IS NULL THEN 'none' WHEN x < 3 THEN 'small' ELSE 'big' END AS size FROM t1;

-- name: project_case_simple
SELECT id, CASE g WHEN 0 THEN 'zero' WHEN 1 THEN 'one' END AS word FROM t1;

-- name: project_case_nested
SELECT id, CASE WHEN b THEN CASE WHEN g > 2 THEN 1 ELSE 2 END ELSE CASE s WHEN 'a' THEN 3 ELSE 4 END END AS code
    FROM t1;

-- name: project_coalesce_nullif
SELECT id, coalesce(g, x, 0) AS first_known, nullif(g, x) AS differs, coalesce(s, 'none') AS letter FROM t1;

-- name: project_concat
SELECT id, s || '-' || s AS twice, concat(s, g, '!') AS joined FROM t1;

-- name: project_text_functions
SELECT k, upper(v) AS up, length(v) AS len, substring(v FROM 1 FOR 1) AS head, replace(v, 'a', 'zz') AS replaced,
    lower(v) AS low FROM t4;

-- name: project_text_functions_more
SELECT k, left(v, 1) AS l, right(v, 1) AS r, lpad(v, 3, '.') AS lp, rpad(v, 3, '.') AS rp, reverse(v) AS rev,
    repeat(v, 2) AS rep, strpos(v, 'a') AS pos FROM t4;

-- name: project_trim
SELECT k, trim(both 'a' FROM v) AS t, ltrim(v, 'b') AS lt, rtrim(v, 'c') AS rt FROM t4;

-- name: project_booleans
SELECT id, b AND g > 1 AS both_true, b OR g > 1 AS any_true, NOT b AS negated, b IS NULL AS unknown FROM t1;

-- name: project_comparisons
SELECT id, g = x AS eq, g < x AS lt, g >= x AS ge, g IS DISTINCT FROM x AS differs FROM t1;

-- name: project_casts
SELECT id, g::int8 AS g8, x::text AS xt, b::int4 AS b4, (x::numeric(10,2)) AS xn, id::int2 AS i2 FROM t1;

-- name: project_casts_float
SELECT k, f::int4 AS fi, (f * 2) AS twice, f::text AS ft FROM t4 WHERE f BETWEEN -1000 AND 1000;

-- name: project_numeric
SELECT id, n + 1 AS plus, n * 2 AS twice, -n AS neg, round(n, 1) AS rounded, abs(n) AS absolute FROM t2;

-- name: project_numeric_rounding
SELECT id, floor(n) AS fl, ceil(n) AS ce, round(n) AS ro, trunc(n) AS tr FROM t2;

-- name: project_date_parts
SELECT id, extract(year FROM d)::int4 AS y4, extract(month FROM d)::int4 AS m, extract(day FROM d)::int4 AS dd FROM
    t2;

-- name: project_date_arithmetic
SELECT id, d + 7 AS week_later, d - DATE '2024-01-01' AS days FROM t2;

-- name: project_date_trunc
SELECT k, date_trunc('day', ts) AS day, date_trunc('hour', ts) AS hour FROM t4;

-- name: project_timestamp_cast
SELECT k, ts::date AS d, extract(hour FROM ts)::int4 AS h FROM t4;

-- name: project_interval
SELECT k, ts + INTERVAL '1 day' AS tomorrow, d + INTERVAL '1 month' AS next_month FROM t4 JOIN t2 USING (k);

-- name: project_greatest_least
SELECT id, greatest(g, x) AS hi, least(g, x) AS lo, greatest(g, x, 2) AS hi3 FROM t1;

-- name: project_constants
SELECT id, 1 AS one, 'x' AS letter, NULL::int4 AS nothing, TRUE AS yes, 1.50 AS number FROM t1;

-- name: project_only_constant
SELECT 7 AS seven FROM t1;

-- name: project_modulo_negative
SELECT id, x, (x - 3) % 2 AS m, (x - 3) / 2 AS d, abs(x - 3) AS ab FROM t1;

-- name: project_power_sqrt
SELECT id, power(x::float8, 2) AS sq FROM t1 WHERE x IS NOT NULL;

-- name: project_bit_operators
SELECT id, g & 1 AS low_bit, g | 4 AS with_four, g # 3 AS flipped, g << 2 AS shifted FROM t1;

-- name: project_all_tables_types
SELECT k, v, f, ts FROM t4;

-- name: project_star
SELECT * FROM t2;

-- name: project_between_in_as_values
SELECT id, x BETWEEN 1 AND 3 AS middle, g IN (1, 2) AS low, s LIKE 'a%' AS is_a FROM t1;

-- name: project_row_of_nulls
SELECT NULL::int4 AS a, NULL::text AS b, NULL::date AS c, id FROM t1;

-- name: project_md5
SELECT id, md5(s) AS hash FROM t1;

-- name: project_split_part
SELECT k, split_part('x,' || v || ',y', ',', 2) AS part FROM t4;

-- name: project_to_char_free
SELECT id, 'id ' || id::text || ' on ' || coalesce(d::text, 'never') AS label FROM t2;

-- Inner and cross joins.

-- name: join_inner_eq
SELECT t1.id, t1.x, t2.y FROM t1 JOIN t2 ON t1.id = t2.id;

-- name: join_using
SELECT k, id, y, v FROM t2 JOIN t4 USING (k);

-- name: join_natural
SELECT k, id, v FROM t2 NATURAL JOIN t4;

-- name: join_comma
SELECT t1.id AS i1, t2.id AS i2, t1.g, t2.y FROM t1, t2 WHERE t1.g = t2.k;

-- name: join_eq_and_residual
SELECT t1.id, t1.x, t2.y FROM t1 JOIN t2 ON t1.id = t2.id AND t1.x < t2.y;

-- name: join_two_columns
SELECT t1.id, t1.g, t2.n FROM t1 JOIN t2 ON t1.id = t2.id AND t1.g = t2.k;

-- name: join_expression_keys
SELECT t1.id AS i1, t2.id AS i2 FROM t1 JOIN t2 ON t1.g + 1 = t2.k * 1;

-- name: join_mixed_types
SELECT t1.id AS i1, t2.id AS i2, t2.y FROM t1 JOIN t2 ON t1.x = t2.y;

-- name: join_mixed_numeric
SELECT t1.id AS i1, t2.id AS i2, t2.n FROM t1 JOIN t2 ON t1.x = t2.n;

-- name: join_inequality_only
SELECT t1.id AS i1, t2.id AS i2 FROM t1 JOIN t2 ON t1.x < t2.y;

-- name: join_range
SELECT t1.id AS i1, t2.id AS i2 FROM t1 JOIN t2 ON t2.y BETWEEN t1.g AND t1.x;

-- name: join_not_equal
SELECT p.a AS pa, q.c AS qc FROM t3 p JOIN t3 q ON p.a <> q.c;

-- name: join_cross
SELECT t1.id, t3.a FROM t1 CROSS JOIN t3;

-- name: join_cross_filtered
SELECT t1.id, t3.a FROM t1 CROSS JOIN t3 WHERE t1.g > 2 AND t3.a < 3;

-- name: join_on_true
SELECT t1.id, t4.k FROM t1 JOIN t4 ON true;

-- name: join_on_false
SELECT t1.id, t4.k FROM t1 JOIN t4 ON false;

-- name: join_on_one_side_only
SELECT t1.id, t4.k FROM t1 JOIN t4 ON t1.g = 1 AND t4.k > 1;

-- name: join_self
SELECT p.id AS pid, q.id AS qid FROM t1 p JOIN t1 q ON p.g = q.g AND p.id < q.id;

-- name: join_self_same_key
SELECT p.id, p.x AS px, q.x AS qx FROM t1 p JOIN t1 q ON p.id = q.id;

-- name: join_edges_two_hops
SELECT p.a AS src, q.c AS dst FROM t3 p JOIN t3 q ON p.c = q.a;

-- name: join_edges_three_hops
SELECT p.a AS src, p.c AS m1, q.c AS m2, r.c AS dst FROM t3 p JOIN t3 q ON p.c = q.a JOIN t3 r ON q.c = r.a;

-- name: join_triangles
SELECT p.a AS v1, q.a AS v2, r.a AS v3 FROM t3 p, t3 q, t3 r WHERE p.c = q.a AND q.c = r.a AND r.c = p.a;

-- name: join_edge_both_ways
SELECT p.a, p.c FROM t3 p JOIN t3 q ON p.a = q.c AND p.c = q.a;

-- name: join_three_way
SELECT t1.id, t2.y, t3.c FROM t1 JOIN t2 ON t1.id = t2.id JOIN t3 ON t3.a = t1.g;

-- name: join_four_way
SELECT t1.id, t2.y, t3.c, t4.v FROM t1 JOIN t2 ON t1.id = t2.id JOIN t3 ON t3.a = t2.k JOIN t4 ON t4.k = t3.c;

-- name: join_star_shape
SELECT t2.id, t1.s, t3.c, t4.v FROM t2 JOIN t1 ON t1.id = t2.id JOIN t3 ON t3.a = t2.k JOIN t4 ON t4.k = t2.k;

-- name: join_not_distinct
SELECT t1.id AS i1, t2.id AS i2, t1.g, t2.k FROM t1 JOIN t2 ON t1.g IS NOT DISTINCT FROM t2.k;

-- name: join_not_distinct_and_eq
SELECT p.id AS pid, q.x FROM t1 p JOIN t1 q ON p.id = q.id AND p.s IS NOT DISTINCT FROM q.s;

-- name: join_or_condition
SELECT t1.id AS i1, t2.id AS i2 FROM t1 JOIN t2 ON t1.id = t2.id OR t1.g = t2.k;

-- name: join_subqueries
SELECT l.id, l.x, r.y FROM (SELECT id, x FROM t1 WHERE x > 1) l JOIN (SELECT id, y FROM t2 WHERE y > 2) r ON l.id =
    r.id;

-- name: join_filter_after
SELECT t1.id, t2.y FROM t1 JOIN t2 ON t1.id = t2.id WHERE t1.x + t2.y > 4 AND t2.n IS NOT NULL;

-- name: join_coalesced_key
SELECT t1.id AS i1, t2.id AS i2 FROM t1 JOIN t2 ON coalesce(t1.g, -1) = coalesce(t2.k, -1);

-- name: join_text_key
SELECT t1.id, t1.s, t4.k FROM t1 JOIN t4 ON t1.s = t4.v;

-- name: join_text_function_key
SELECT t1.id, t4.k FROM t1 JOIN t4 ON upper(t1.s) = upper(t4.v);

-- name: join_bool_key
SELECT p.id AS pid, q.id AS qid FROM t1 p JOIN t1 q ON p.b = q.b AND p.g = q.x;

-- name: join_date_key
SELECT t2.id, t2.d, t4.k FROM t2 JOIN t4 ON t2.d = t4.ts::date;

-- name: join_date_timestamp
SELECT t2.id, t4.k FROM t2 JOIN t4 ON t4.ts >= t2.d;

-- name: join_float_int
SELECT t1.id, t4.k, t4.f FROM t1 JOIN t4 ON t1.x = t4.f;

-- name: join_float_key
SELECT p.k AS pk, q.k AS qk FROM t4 p JOIN t4 q ON p.f = q.f;

-- name: join_projects_only_left
SELECT t1.id FROM t1 JOIN t3 ON t1.g = t3.a;

-- name: join_projects_constant
SELECT 1 AS one FROM t1 JOIN t3 ON t1.g = t3.a;

-- name: join_computed_column
SELECT t1.id, t1.x * t2.y AS product, t1.s || coalesce(t4.v, '') AS letters FROM t1 JOIN t2 ON t1.id = t2.id JOIN t4
    ON t4.k = t1.g;

-- name: join_case_key
SELECT t1.id AS i1, t3.c FROM t1 JOIN t3 ON CASE WHEN t1.b THEN t1.g ELSE t1.x END = t3.a;

-- name: join_both_keys_same_column
SELECT t1.id, t3.a, t3.c FROM t1 JOIN t3 ON t1.g = t3.a AND t1.g = t3.c;

-- name: join_key_is_constant
SELECT t1.id, t2.y FROM t1 JOIN t2 ON t1.id = t2.id WHERE t1.id = 3;

-- name: join_key_in_list
SELECT t1.id, t2.y FROM t1 JOIN t2 ON t1.id = t2.id AND t1.id IN (1, 2, 3);

-- name: join_with_empty
SELECT t1.id, e.a FROM t1 JOIN (SELECT a FROM t3 WHERE false) e ON t1.g = e.a;

-- name: join_like_pattern
SELECT t1.id, t4.k FROM t1 JOIN t4 ON t4.v LIKE t1.s || '%';

-- name: join_three_inequalities
SELECT p.a AS x1, q.a AS x2, r.a AS x3 FROM t3 p JOIN t3 q ON p.a < q.a JOIN t3 r ON q.a < r.a AND p.c = r.c;

-- Outer joins.

-- name: left_join_eq
SELECT t1.id, t2.y FROM t1 LEFT JOIN t2 ON t1.id = t2.id;

-- name: left_join_residual
SELECT t1.id, t1.x, t2.y FROM t1 LEFT JOIN t2 ON t1.id = t2.id AND t2.y > t1.x;

-- name: left_join_left_only_condition
SELECT t1.id, t1.g, t2.y FROM t1 LEFT JOIN t2 ON t1.id = t2.id AND t1.g = 1;

-- name: left_join_right_only_condition
SELECT t1.id, t2.y FROM t1 LEFT JOIN t2 ON t1.id = t2.id AND t2.y > 2;

-- name: left_join_inequality
SELECT t1.id, t1.x, t2.id AS id2 FROM t1 LEFT JOIN t2 ON t1.x > t2.y;

-- name: left_join_on_true
SELECT t1.id, t3.a FROM t1 LEFT JOIN t3 ON true;

-- name: left_join_on_false
SELECT t1.id, t3.a FROM t1 LEFT JOIN t3 ON false;

-- name: left_join_anti
SELECT t1.id, t1.g FROM t1 LEFT JOIN t3 ON t1.g = t3.a WHERE t3.a IS NULL;

-- name: left_join_null_checks
SELECT t1.id, t3.a IS NULL AS missing, t3.c IS NULL AS unknown FROM t1 LEFT JOIN t3 ON t1.g = t3.a;

-- name: left_join_where_right
SELECT t1.id, t2.y FROM t1 LEFT JOIN t2 ON t1.id = t2.id WHERE t2.y > 1;

-- name: left_join_where_or_null
SELECT t1.id, t2.y FROM t1 LEFT JOIN t2 ON t1.id = t2.id WHERE t2.y > 1 OR t2.y IS NULL;

-- name: left_join_using
SELECT k, y, v, f FROM t2 LEFT JOIN t4 USING (k);

-- name: left_join_chain
SELECT t1.id, t2.y, t3.c FROM t1 LEFT JOIN t2 ON t1.id = t2.id LEFT JOIN t3 ON t2.k = t3.a;

-- name: left_join_chain_of_four
SELECT t1.id, t2.y, t3.c, t4.v FROM t1 LEFT JOIN t2 ON t1.id = t2.id LEFT JOIN t3 ON t1.g = t3.a LEFT JOIN t4 ON
    t4.k = t3.c;

-- name: left_then_inner
SELECT t1.id, t2.y, t4.v FROM t1 LEFT JOIN t2 ON t1.id = t2.id JOIN t4 ON t4.k = t1.g;

-- name: left_join_nested_right
SELECT t1.id, j.y, j.v FROM t1 LEFT JOIN (SELECT t2.id, t2.y, t4.v FROM t2 JOIN t4 ON t2.k = t4.k) j ON t1.id = j.id;

-- name: left_join_constant_column
SELECT t1.id, r.flag, coalesce(r.flag, 0) AS known FROM t1 LEFT JOIN (SELECT a, 1 AS flag FROM t3) r ON t1.g = r.a;

-- name: left_join_coalesce_inside
SELECT t1.id, r.y0 FROM t1 LEFT JOIN (SELECT id, coalesce(y, 0) AS y0 FROM t2) r ON t1.id = r.id;

-- name: left_join_not_distinct
SELECT t1.id, t2.id AS id2 FROM t1 LEFT JOIN t2 ON t1.g IS NOT DISTINCT FROM t2.k;

-- name: left_join_two_keys
SELECT t1.id, t1.g, t2.n FROM t1 LEFT JOIN t2 ON t1.id = t2.id AND t1.g = t2.k;

-- name: left_join_self
SELECT p.id AS pid, q.id AS qid FROM t1 p LEFT JOIN t1 q ON p.x = q.g AND p.id <> q.id;

-- name: left_join_distinct_right
SELECT t1.id, r.a FROM t1 LEFT JOIN (SELECT DISTINCT a FROM t3) r ON t1.g = r.a;

-- name: left_join_empty_right
SELECT t1.id, e.a FROM t1 LEFT JOIN (SELECT a FROM t3 WHERE a > 1000000) e ON t1.g = e.a;

-- name: left_join_or
SELECT t1.id, t3.a, t3.c FROM t1 LEFT JOIN t3 ON t1.g = t3.a OR t1.x = t3.c;

-- name: right_join_eq
SELECT t1.id, t2.id AS id2, t2.y FROM t1 RIGHT JOIN t2 ON t1.id = t2.id;

-- name: right_join_residual
SELECT t1.id, t1.x, t2.y FROM t1 RIGHT JOIN t2 ON t1.id = t2.id AND t1.x < t2.y;

-- name: right_join_inequality
SELECT t1.x, t2.y FROM t1 RIGHT JOIN t2 ON t1.x > t2.y;

-- name: right_join_on_true
SELECT t1.id, t3.a FROM t1 RIGHT JOIN t3 ON true;

-- name: right_join_using
SELECT k, id, v, ts FROM t2 RIGHT JOIN t4 USING (k);

-- name: right_join_anti
SELECT t3.a, t3.c FROM t1 RIGHT JOIN t3 ON t1.g = t3.a WHERE t1.id IS NULL;

-- name: right_join_chain
SELECT t1.id, t2.y, t4.v FROM t1 RIGHT JOIN t2 ON t1.id = t2.id RIGHT JOIN t4 ON t4.k = t2.k;

-- name: right_join_left_join
SELECT t1.id, t2.y, t3.c FROM t1 RIGHT JOIN t2 ON t1.id = t2.id LEFT JOIN t3 ON t3.a = t1.g;

-- name: full_join_eq
SELECT t1.id AS i1, t2.id AS i2, t1.x, t2.y FROM t1 FULL JOIN t2 ON t1.id = t2.id;

-- name: full_join_using
SELECT id, x, y FROM t1 FULL JOIN t2 USING (id);

-- name: full_join_residual
SELECT l.id AS i1, r.id AS i2 FROM t1 l FULL JOIN t2 r ON l.id = r.id AND l.x < r.y;

-- name: full_join_two_keys
SELECT l.id AS i1, r.id AS i2 FROM t1 l FULL JOIN t2 r ON l.id = r.id AND l.g = r.k;

-- name: full_join_on_true
SELECT l.a AS la, r.v AS rv FROM t3 l FULL JOIN t4 r ON true;

-- name: full_join_where_one_side
SELECT t1.id AS i1, t2.id AS i2 FROM t1 FULL JOIN t2 ON t1.id = t2.id WHERE t1.id IS NULL OR t2.id IS NULL;

-- name: full_join_where_left
SELECT t1.id AS i1, t2.id AS i2 FROM t1 FULL JOIN t2 ON t1.id = t2.id WHERE t1.g > 1;

-- name: full_join_three
SELECT coalesce(t1.id, t2.id) AS id12, t1.x, t2.y, t3.c FROM t1 FULL JOIN t2 ON t1.id = t2.id FULL JOIN t3 ON t3.a =
    coalesce(t1.id, t2.id);

-- name: full_join_self
SELECT p.a AS pa, p.c AS pc, q.a AS qa, q.c AS qc FROM t3 p FULL JOIN t3 q ON p.a = q.c;

-- name: full_join_groups
SELECT l.g, l.n1, r.k, r.n2 FROM (SELECT g, count(*) AS n1 FROM t1 GROUP BY g) l FULL JOIN (SELECT k, count(*) AS n2
    FROM t2 GROUP BY k) r ON l.g = r.k;

-- name: left_join_aggregated_right
SELECT t1.id, a.total, coalesce(a.cnt, 0) AS cnt FROM t1 LEFT JOIN (SELECT k, sum(y) AS total, count(*) AS cnt FROM
    t2 GROUP BY k) a ON a.k = t1.g;

-- name: outer_join_of_union
SELECT u.i, t3.c FROM (SELECT id AS i FROM t1 UNION ALL SELECT id FROM t2) u LEFT JOIN t3 ON t3.a = u.i;

-- name: left_join_filter_both_sides
SELECT l.id, r.y FROM (SELECT id, g FROM t1 WHERE b) l LEFT JOIN (SELECT id, y, k FROM t2 WHERE d IS NOT NULL) r ON
    l.id = r.id AND l.g >= r.k WHERE coalesce(r.y, 0) < 6;

-- Semi and anti joins.

-- name: semi_in
SELECT id, g FROM t1 WHERE id IN (SELECT id FROM t2);

-- name: semi_in_filtered
SELECT id, g FROM t1 WHERE g IN (SELECT k FROM t2 WHERE y > 2);

-- name: semi_in_expression
SELECT id, x FROM t1 WHERE x + 1 IN (SELECT a * 2 FROM t3);

-- name: semi_in_same_table
SELECT a, c FROM t3 WHERE a IN (SELECT c FROM t3);

-- name: semi_in_correlated
SELECT id, x FROM t1 WHERE x IN (SELECT y FROM t2 WHERE t2.id = t1.id);

-- name: semi_in_aggregated
SELECT id, g FROM t1 WHERE g IN (SELECT k FROM t2 GROUP BY k HAVING count(*) > 1);

-- name: semi_in_union
SELECT id FROM t1 WHERE id IN (SELECT id FROM t2 UNION SELECT a FROM t3);

-- name: semi_in_join
SELECT id, s FROM t1 WHERE id IN (SELECT t2.id FROM t2 JOIN t4 ON t2.k = t4.k);

-- name: semi_in_nested
SELECT id FROM t1 WHERE id IN (SELECT id FROM t2 WHERE k IN (SELECT a FROM t3 WHERE c IN (SELECT k FROM t4)));

-- name: semi_two_ins
SELECT id, g, x FROM t1 WHERE g IN (SELECT a FROM t3) AND x IN (SELECT c FROM t3);

-- name: semi_exists
SELECT id, g FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id);

-- name: semi_exists_residual
SELECT id, x FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id AND t2.y > t1.x);

-- name: semi_exists_inequality
SELECT id, x FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.y < t1.x);

-- name: semi_exists_not_equal
SELECT p.id, p.g FROM t1 p WHERE EXISTS (SELECT 1 FROM t1 q WHERE q.g = p.g AND q.id <> p.id);

-- name: semi_exists_uncorrelated
SELECT id, g FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE y > 5);

-- name: anti_not_exists
SELECT id, g FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id);

-- name: anti_not_exists_residual
SELECT id, x FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id AND t2.y > t1.x);

-- name: anti_not_exists_inequality
SELECT id, x FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t2 WHERE t2.y > t1.x);

-- name: anti_not_exists_uncorrelated
SELECT id FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t3 WHERE a = 1);

-- name: anti_last_of_group
SELECT p.id, p.g, p.x FROM t1 p WHERE NOT EXISTS (SELECT 1 FROM t1 q WHERE q.g = p.g AND q.x > p.x);

-- name: anti_not_exists_two
SELECT id FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id) AND NOT EXISTS (SELECT 1 FROM t3 WHERE
    t3.a = t1.g);

-- name: semi_and_anti
SELECT id FROM t1 WHERE EXISTS (SELECT 1 FROM t3 WHERE t3.a = t1.g) AND NOT EXISTS (SELECT 1 FROM t4 WHERE t4.k =
    t1.g);

-- name: anti_not_in_with_nulls
SELECT id, g FROM t1 WHERE g NOT IN (SELECT k FROM t2);

-- name: anti_not_in_without_nulls
SELECT id, g FROM t1 WHERE g NOT IN (SELECT k FROM t2 WHERE k IS NOT NULL);

-- name: anti_not_in_not_null_column
SELECT id, g FROM t1 WHERE g NOT IN (SELECT k FROM t4);

-- name: anti_not_in_filtered
SELECT id, x FROM t1 WHERE x NOT IN (SELECT a FROM t3 WHERE c = 1);

-- name: anti_not_in_empty
SELECT id, g FROM t1 WHERE g NOT IN (SELECT k FROM t2 WHERE false);

-- name: anti_not_in_no_nulls_either_side
SELECT k, v FROM t4 WHERE k NOT IN (SELECT a FROM t3 WHERE a IS NOT NULL);

-- name: anti_not_in_expression
SELECT id, g FROM t1 WHERE g + 1 NOT IN (SELECT k - 1 FROM t2);

-- name: anti_not_in_aggregated
SELECT id, x FROM t1 WHERE x NOT IN (SELECT max(y) FROM t2 GROUP BY k);

-- name: anti_not_in_same_table
SELECT a, c FROM t3 WHERE a NOT IN (SELECT c FROM t3);

-- name: anti_not_in_and_filter
SELECT id, g FROM t1 WHERE b AND g NOT IN (SELECT k FROM t2) AND x > 1;

-- name: anti_not_in_twice
SELECT id FROM t1 WHERE g NOT IN (SELECT k FROM t4) AND x NOT IN (SELECT a FROM t3 WHERE a IS NOT NULL);

-- name: anti_not_in_text
SELECT id, s FROM t1 WHERE s NOT IN (SELECT v FROM t4);

-- name: any_equals
SELECT id, x FROM t1 WHERE x = ANY (SELECT a FROM t3);

-- name: any_less
SELECT id, x FROM t1 WHERE x < ANY (SELECT a FROM t3);

-- name: any_greater_some
SELECT id, x FROM t1 WHERE x > SOME (SELECT c FROM t3 WHERE c IS NOT NULL);

-- name: all_greater
SELECT id, x FROM t1 WHERE x > ALL (SELECT a FROM t3 WHERE a IS NOT NULL);

-- name: all_greater_with_nulls
SELECT id, x FROM t1 WHERE x >= ALL (SELECT a FROM t3);

-- name: all_not_equal
SELECT id, x FROM t1 WHERE x <> ALL (SELECT a FROM t3);

-- name: any_not_equal
SELECT id, x FROM t1 WHERE x <> ANY (SELECT a FROM t3);

-- name: any_array_constant
SELECT id, x FROM t1 WHERE x = ANY (ARRAY[1, 2, 3]);

-- name: semi_of_join
SELECT t1.id, t2.y FROM t1 JOIN t2 ON t1.id = t2.id WHERE EXISTS (SELECT 1 FROM t3 WHERE t3.a = t2.k AND t3.c = t1.g);

-- name: semi_in_distinct
SELECT id FROM t1 WHERE g IN (SELECT DISTINCT a FROM t3);

-- name: semi_in_limit
SELECT id, g FROM t1 WHERE g IN (SELECT a FROM t3 ORDER BY a, c LIMIT 2);

-- name: semi_exists_join_inside
SELECT id FROM t1 WHERE EXISTS (SELECT 1 FROM t2 JOIN t4 ON t2.k = t4.k WHERE t2.id = t1.id);

-- name: anti_exists_nested
SELECT id FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id AND NOT EXISTS (SELECT 1 FROM t4 WHERE t4.k
    = t2.k));

-- name: semi_exists_group_inside
SELECT id, g FROM t1 WHERE EXISTS (SELECT k FROM t2 WHERE k = t1.g GROUP BY k HAVING sum(y) > 5);

-- name: anti_except_style
SELECT DISTINCT a FROM t3 p WHERE NOT EXISTS (SELECT 1 FROM t3 q WHERE q.c = p.a);

-- name: semi_not_distinct
SELECT id, g FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.k IS NOT DISTINCT FROM t1.g);

-- name: anti_not_distinct
SELECT id, g FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t3 WHERE t3.a IS NOT DISTINCT FROM t1.g);

-- name: semi_exists_correlated_left_filter
SELECT id, g FROM t1 WHERE EXISTS (SELECT 1 FROM t3 WHERE t3.a = t1.g AND t1.b);

-- Mark joins: EXISTS and IN as values.

-- name: mark_exists_or
SELECT id, x FROM t1 WHERE x > 4 OR EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id);

-- name: mark_in_or
SELECT id, g FROM t1 WHERE g = 0 OR id IN (SELECT a FROM t3 WHERE a IS NOT NULL);

-- name: mark_two_exists_or
SELECT id FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id) OR EXISTS (SELECT 1 FROM t3 WHERE t3.a = t1.g);

-- name: mark_not_exists_or
SELECT id FROM t1 WHERE b OR NOT EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id);

-- name: mark_exists_selected
SELECT id, EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id) AS has FROM t1;

-- name: mark_not_exists_selected
SELECT id, NOT EXISTS (SELECT 1 FROM t3 WHERE t3.a = t1.g) AS lonely FROM t1;

-- name: mark_in_selected
SELECT k, k IN (SELECT a FROM t3 WHERE a IS NOT NULL) AS is_source FROM t4;

-- name: mark_in_selected_nulls
SELECT id, g IN (SELECT k FROM t2) AS known FROM t1;

-- name: mark_not_in_selected_nulls
SELECT id, g NOT IN (SELECT k FROM t2) AS unknown FROM t1;

-- name: mark_in_or_nulls
SELECT id, g FROM t1 WHERE b OR g IN (SELECT k FROM t2);

-- name: mark_exists_case
SELECT id, CASE WHEN EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id) THEN 'yes' ELSE 'no' END AS has FROM t1;

-- name: mark_two_selected
SELECT id, EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id) AS e1, EXISTS (SELECT 1 FROM t3 WHERE t3.a = t1.g) AS e2
    FROM t1;

-- name: mark_uncorrelated_selected
SELECT id, EXISTS (SELECT 1 FROM t3 WHERE a = 2) AS any_two FROM t1;

-- name: mark_filter_count
SELECT has, count(*) AS n FROM (SELECT EXISTS (SELECT 1 FROM t3 WHERE t3.a = t1.g) AS has FROM t1) q GROUP BY has;

-- name: mark_exists_xor
SELECT id FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id) <> EXISTS (SELECT 1 FROM t3 WHERE t3.a = t1.g);

-- name: mark_in_or_in
SELECT id, g, x FROM t1 WHERE g IN (SELECT a FROM t3) OR x IN (SELECT c FROM t3);

-- name: mark_exists_and_or
SELECT id FROM t1 WHERE (EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id) AND b) OR (NOT EXISTS (SELECT 1 FROM t3 WHERE
    t3.a = t1.g) AND NOT b);

-- name: mark_not_in_selected_literal
SELECT k, k NOT IN (SELECT a FROM t3 WHERE a IS NOT NULL) AS absent FROM t4;

-- name: mark_in_case_branch
SELECT id, CASE WHEN g IN (SELECT a FROM t3) THEN 1 WHEN g IN (SELECT c FROM t3) THEN 2 ELSE 3 END AS code FROM t1;

-- Scalar subqueries.

-- name: scalar_uncorrelated_selected
SELECT id, (SELECT max(y) FROM t2) AS top FROM t1;

-- name: scalar_uncorrelated_filter
SELECT id, x FROM t1 WHERE x > (SELECT avg(a) FROM t3);

-- name: scalar_uncorrelated_equal_max
SELECT id, x FROM t1 WHERE x = (SELECT max(x) FROM t1);

-- name: scalar_uncorrelated_count
SELECT id, (SELECT count(*) FROM t3) AS edges FROM t1 WHERE (SELECT count(*) FROM t4) > 2;

-- name: scalar_two_uncorrelated
SELECT id, (SELECT min(y) FROM t2) AS lo, (SELECT max(y) FROM t2) AS hi, (SELECT count(*) FROM t3) AS n FROM t1;

-- name: scalar_arithmetic
SELECT id, x - (SELECT min(x) FROM t1) AS above, x * (SELECT count(*) FROM t1) AS scaled FROM t1;

-- name: scalar_without_from
SELECT (SELECT count(*) FROM t1) AS n1, (SELECT count(*) FROM t2) AS n2, (SELECT sum(y) FROM t2) AS total;

-- name: scalar_between
SELECT id, x FROM t1 WHERE x BETWEEN (SELECT min(a) FROM t3) AND (SELECT max(c) FROM t3);

-- name: scalar_limit_one
SELECT id, (SELECT a FROM t3 ORDER BY a, c LIMIT 1) AS first_edge FROM t1;

-- name: scalar_correlated_sum
SELECT id, (SELECT sum(y) FROM t2 WHERE t2.id = t1.id) AS total FROM t1;

-- name: scalar_correlated_count
SELECT id, (SELECT count(*) FROM t2 WHERE t2.id = t1.id) AS n FROM t1;

-- name: scalar_correlated_count_column
SELECT id, (SELECT count(y) FROM t2 WHERE t2.k = t1.g) AS n FROM t1;

-- name: scalar_correlated_max
SELECT id, (SELECT max(c) FROM t3 WHERE a = t1.g) AS top FROM t1;

-- name: scalar_correlated_filter
SELECT id, g, x FROM t1 WHERE x > (SELECT avg(y) FROM t2 WHERE t2.k = t1.g);

-- name: scalar_correlated_count_filter
SELECT id, g FROM t1 WHERE (SELECT count(*) FROM t3 WHERE t3.a = t1.g) = 0;

-- name: scalar_correlated_coalesce
SELECT id, coalesce((SELECT sum(c) FROM t3 WHERE a = t1.g), 0) AS total FROM t1;

-- name: scalar_correlated_two
SELECT id, (SELECT min(y) FROM t2 WHERE t2.id = t1.id) AS lo, (SELECT max(y) FROM t2 WHERE t2.id = t1.id) AS hi FROM
    t1;

-- name: scalar_correlated_self
SELECT p.id, p.g, p.x FROM t1 p WHERE p.x = (SELECT max(q.x) FROM t1 q WHERE q.g = p.g);

-- name: scalar_correlated_two_columns
SELECT id, (SELECT sum(y) FROM t2 WHERE t2.id = t1.id AND t2.k = t1.g) AS total FROM t1;

-- name: scalar_in_having
SELECT g, sum(x) AS total FROM t1 GROUP BY g HAVING sum(x) > (SELECT avg(y) FROM t2);

-- name: scalar_in_case
SELECT id, CASE WHEN x > (SELECT min(y) FROM t2) THEN 'over' ELSE 'under' END AS side FROM t1;

-- name: scalar_in_join_condition
SELECT t1.id AS i1, t2.id AS i2 FROM t1 JOIN t2 ON t1.id = t2.id WHERE t2.y >= (SELECT min(y) FROM t2 WHERE k IS NOT
    NULL);

-- name: scalar_nested
SELECT id, x FROM t1 WHERE x > (SELECT avg(a) FROM t3 WHERE a < (SELECT max(k) FROM t4));

-- name: scalar_empty
SELECT id, (SELECT max(a) FROM t3 WHERE false) AS nothing FROM t1;

-- name: scalar_inside_aggregate
SELECT g, sum(x * (SELECT count(*) FROM t4)) AS weighted FROM t1 GROUP BY g;

-- name: scalar_correlated_in_aggregate_join
SELECT t1.g, count(*) AS n FROM t1 WHERE (SELECT count(*) FROM t2 WHERE t2.k = t1.g) > 1 GROUP BY t1.g;

-- name: scalar_correlated_expression
SELECT id, (SELECT max(y) + 1 FROM t2 WHERE t2.id = t1.id) AS next FROM t1;

-- name: scalar_correlated_bool_or
SELECT id, (SELECT bool_or(c > 2) FROM t3 WHERE a = t1.g) AS any_big FROM t1;

-- name: scalar_correlated_count_plus
SELECT id, (SELECT count(*) FROM t3 WHERE a = t1.g) + (SELECT count(*) FROM t3 WHERE c = t1.g) AS degree FROM t1;

-- name: scalar_no_rows_means_null
SELECT id, (SELECT v FROM t4 WHERE false) AS nothing FROM t1;

-- Set operations.

-- name: union_all
SELECT id, g FROM t1 UNION ALL SELECT id, k FROM t2;

-- name: union_all_same_table
SELECT id, x FROM t1 UNION ALL SELECT id, x FROM t1;

-- name: union_all_three
SELECT id AS i FROM t1 UNION ALL SELECT id FROM t2 UNION ALL SELECT a FROM t3;

-- name: union_all_filtered
SELECT id, 'low' AS kind FROM t1 WHERE x < 3 UNION ALL SELECT id, 'high' FROM t1 WHERE x >= 3;

-- name: union_all_constants
SELECT id, x FROM t1 UNION ALL SELECT 0, 0 UNION ALL SELECT NULL, 1;

-- name: union_all_types
SELECT id AS i, x AS val FROM t1 UNION ALL SELECT id, y FROM t2;

-- name: union_all_numeric
SELECT g AS key, x::numeric(12,2) AS val FROM t1 UNION ALL SELECT k, n FROM t2;

-- name: union_distinct
SELECT g FROM t1 UNION SELECT k FROM t2;

-- name: union_two_columns
SELECT id, g FROM t1 UNION SELECT id, k FROM t2;

-- name: union_same_table
SELECT a FROM t3 UNION SELECT c FROM t3;

-- name: union_mixed_all
SELECT a AS n FROM t3 UNION ALL (SELECT c FROM t3 UNION SELECT k FROM t4);

-- name: union_then_filter
SELECT q.v FROM (SELECT s AS v FROM t1 UNION SELECT v FROM t4) q WHERE q.v IS NOT NULL AND q.v <> 'b';

-- name: union_then_group
SELECT q.v, count(*) AS n FROM (SELECT s AS v FROM t1 UNION ALL SELECT v FROM t4) q GROUP BY q.v;

-- name: union_of_aggregates
SELECT 't1' AS tab, count(*) AS n FROM t1 UNION ALL SELECT 't2', count(*) FROM t2 UNION ALL SELECT 't3', count(*)
    FROM t3;

-- name: union_of_joins
SELECT t1.id, t2.y FROM t1 JOIN t2 ON t1.id = t2.id UNION SELECT t1.id, t2.y FROM t1 JOIN t2 ON t1.g = t2.k;

-- name: intersect_plain
SELECT g FROM t1 INTERSECT SELECT k FROM t2;

-- name: intersect_two_columns
SELECT id, g FROM t1 INTERSECT SELECT id, k FROM t2;

-- name: intersect_three
SELECT g FROM t1 INTERSECT SELECT a FROM t3 INTERSECT SELECT k FROM t4;

-- name: except_plain
SELECT g FROM t1 EXCEPT SELECT k FROM t2;

-- name: except_reversed
SELECT k FROM t2 EXCEPT SELECT g FROM t1;

-- name: except_two_columns
SELECT a, c FROM t3 EXCEPT SELECT c, a FROM t3;

-- name: except_then_union
(SELECT a FROM t3 EXCEPT SELECT k FROM t4) UNION ALL (SELECT k FROM t4 EXCEPT SELECT a FROM t3);

-- name: except_of_groups
SELECT g, count(*) AS n FROM t1 GROUP BY g EXCEPT SELECT k, count(*) FROM t2 GROUP BY k;

-- name: intersect_of_joins
SELECT t1.id FROM t1 JOIN t2 ON t1.id = t2.id INTERSECT SELECT t1.id FROM t1 JOIN t3 ON t1.g = t3.a;

-- name: union_intersect_precedence
SELECT g FROM t1 UNION SELECT a FROM t3 INTERSECT SELECT k FROM t4;

-- name: set_operation_joined
SELECT q.g, t4.v FROM (SELECT g FROM t1 EXCEPT SELECT a FROM t3) q JOIN t4 ON t4.k = q.g;

-- name: set_operation_counted
SELECT count(*) AS n FROM (SELECT g FROM t1 INTERSECT SELECT k FROM t2) q;

-- name: union_all_nulls
SELECT id, NULL::text AS v FROM t1 UNION ALL SELECT k, v FROM t4;

-- name: union_ordered_branch
SELECT id FROM t1 WHERE g = 1 UNION ALL (SELECT id FROM t2 ORDER BY id LIMIT 2);

-- name: union_distinct_text_null
SELECT s FROM t1 UNION SELECT NULL;

-- name: intersect_empty
SELECT g FROM t1 INTERSECT SELECT g FROM t1 WHERE false;

-- name: except_empty
SELECT g FROM t1 EXCEPT SELECT g FROM t1 WHERE false;

-- name: union_numeric_scales
SELECT n FROM t2 UNION SELECT 1.5::numeric(12,2);

-- DISTINCT.

-- name: distinct_column
SELECT DISTINCT g FROM t1;

-- name: distinct_two_columns
SELECT DISTINCT g, s FROM t1;

-- name: distinct_all
SELECT DISTINCT * FROM t3;

-- name: distinct_expression
SELECT DISTINCT x % 2 AS parity, g IS NULL AS no_group FROM t1;

-- name: distinct_of_join
SELECT DISTINCT t1.g, t2.k FROM t1 JOIN t2 ON t1.id = t2.id;

-- name: distinct_of_left_join
SELECT DISTINCT t1.g, t3.c FROM t1 LEFT JOIN t3 ON t1.g = t3.a;

-- name: distinct_constant
SELECT DISTINCT 1 AS one FROM t1;

-- name: distinct_of_union_all
SELECT DISTINCT q.i FROM (SELECT id AS i FROM t1 UNION ALL SELECT id FROM t2) q;

-- name: distinct_of_group
SELECT DISTINCT count(*) AS n FROM t1 GROUP BY g;

-- name: distinct_float
SELECT DISTINCT f FROM t4;

-- name: distinct_dates
SELECT DISTINCT d, extract(month FROM d)::int4 AS m FROM t2;

-- name: distinct_bool
SELECT DISTINCT b, x > 2 AS big FROM t1;

-- name: distinct_numeric
SELECT DISTINCT n FROM t2 WHERE n IS NOT NULL;

-- name: distinct_joined
SELECT p.g, q.a FROM (SELECT DISTINCT g FROM t1) p JOIN (SELECT DISTINCT a FROM t3) q ON p.g = q.a;

-- GROUP BY.

-- name: group_count
SELECT g, count(*) AS n FROM t1 GROUP BY g;

-- name: group_count_column
SELECT g, count(x) AS n, count(s) AS ns FROM t1 GROUP BY g;

-- name: group_sum
SELECT g, sum(x) AS total FROM t1 GROUP BY g;

-- name: group_sum_bigint
SELECT k, sum(y) AS total FROM t2 GROUP BY k;

-- name: group_sum_numeric
SELECT k, sum(n) AS total FROM t2 GROUP BY k;

-- name: group_avg
SELECT g, avg(x)::numeric(20,6) AS mean FROM t1 GROUP BY g;

-- name: group_avg_bigint
SELECT k, avg(y)::numeric(20,6) AS mean FROM t2 GROUP BY k;

-- name: group_avg_numeric
SELECT k, avg(n)::numeric(20,6) AS mean FROM t2 GROUP BY k;

-- name: group_min_max
SELECT g, min(x) AS lo, max(x) AS hi FROM t1 GROUP BY g;

-- name: group_min_max_text
SELECT g, min(s) AS lo, max(s) AS hi FROM t1 GROUP BY g;

-- name: group_min_max_dates
SELECT k, min(d) AS first, max(d) AS last FROM t2 GROUP BY k;

-- name: group_min_max_floats
SELECT v, min(f) AS lo, max(f) AS hi, min(ts) AS first, max(ts) AS last FROM t4 GROUP BY v;

-- name: group_min_max_numeric
SELECT k, min(n) AS lo, max(n) AS hi, max(y) - min(y) AS spread FROM t2 GROUP BY k;

-- name: group_bool
SELECT g, bool_and(b) AS every_b, bool_or(b) AS any_b FROM t1 GROUP BY g;

-- name: group_bool_expression
SELECT g, bool_and(x > 1) AS all_big, bool_or(x IS NULL) AS has_null, every(b) AS e FROM t1 GROUP BY g;

-- name: group_stddev
SELECT g, stddev_samp(x)::numeric(20,6) AS sd, stddev_pop(x)::numeric(20,6) AS sp FROM t1 GROUP BY g;

-- name: group_variance
SELECT g, var_pop(x)::numeric(20,6) AS vp, var_samp(x)::numeric(20,6) AS vs FROM t1 GROUP BY g;

-- name: group_count_distinct
SELECT g, count(DISTINCT x) AS n, count(DISTINCT s) AS ns FROM t1 GROUP BY g;

-- name: group_sum_distinct
SELECT g, sum(DISTINCT x) AS total FROM t1 GROUP BY g;

-- name: group_avg_distinct
SELECT g, avg(DISTINCT x)::numeric(20,6) AS mean FROM t1 GROUP BY g;

-- name: group_distinct_and_plain
SELECT g, sum(DISTINCT x) AS total_once, sum(x) AS total, count(DISTINCT x) AS kinds, count(x) AS n FROM t1 GROUP BY
    g;

-- name: group_filter
SELECT g, count(*) FILTER (WHERE x > 2) AS big, count(*) AS n FROM t1 GROUP BY g;

-- name: group_filter_several
SELECT g, sum(x) FILTER (WHERE b) AS with_b, sum(x) FILTER (WHERE NOT b) AS without_b, max(x) FILTER (WHERE s = 'a')
    AS top_a FROM t1 GROUP BY g;

-- name: group_filter_distinct
SELECT g, count(DISTINCT s) FILTER (WHERE x IS NOT NULL) AS letters FROM t1 GROUP BY g;

-- name: group_sum_case
SELECT g, sum(CASE WHEN b THEN x ELSE 0 END) AS total_b, sum(CASE WHEN s = 'a' THEN 1 ELSE 0 END) AS a_count FROM t1
    GROUP BY g;

-- name: group_many_aggregates
SELECT g, count(*) AS n, sum(x) AS total, min(x) AS lo, max(x) AS hi, avg(x)::numeric(20,6) AS mean, bool_or(b) AS
    any_b, count(DISTINCT s) AS letters FROM t1 GROUP BY g;

-- name: group_two_columns
SELECT g, s, count(*) AS n, sum(x) AS total FROM t1 GROUP BY g, s;

-- name: group_three_columns
SELECT g, s, b, count(*) AS n FROM t1 GROUP BY g, s, b;

-- name: group_by_expression
SELECT x % 3 AS r, count(*) AS n, sum(id) AS ids FROM t1 GROUP BY x % 3;

-- name: group_by_case
SELECT CASE WHEN x < 2 THEN 'low' WHEN x < 5 THEN 'mid' ELSE 'rest' END AS band, count(*) AS n FROM t1 GROUP BY 1;

-- name: group_by_bool
SELECT b, count(*) AS n, min(id) AS first FROM t1 GROUP BY b;

-- name: group_by_bool_expression
SELECT x > 2 AS big, g IS NULL AS nog, count(*) AS n FROM t1 GROUP BY x > 2, g IS NULL;

-- name: group_by_date_month
SELECT extract(month FROM d)::int4 AS m, count(*) AS n, sum(y) AS total FROM t2 GROUP BY extract(month FROM d)::int4;

-- name: group_by_date_trunc
SELECT date_trunc('day', ts) AS day, count(*) AS n FROM t4 GROUP BY date_trunc('day', ts);

-- name: group_by_float
SELECT f, count(*) AS n FROM t4 GROUP BY f;

-- name: group_by_text_function
SELECT upper(s) AS u, count(*) AS n FROM t1 GROUP BY upper(s);

-- name: group_by_numeric
SELECT n, count(*) AS cnt FROM t2 GROUP BY n;

-- name: group_by_no_aggregate
SELECT g, b FROM t1 GROUP BY g, b;

-- name: group_by_position
SELECT k, d, count(*) AS n FROM t2 GROUP BY 1, 2;

-- name: group_key_not_selected
SELECT count(*) AS n, sum(x) AS total FROM t1 GROUP BY g;

-- name: group_key_in_expression
SELECT g * 10 AS g10, sum(x) + g AS shifted FROM t1 GROUP BY g;

-- name: group_aggregate_arithmetic
SELECT g, sum(x) - count(*) AS d, max(x) * 2 AS m2, (sum(x) * 100) / nullif(count(x), 0) AS pct FROM t1 GROUP BY g;

-- name: group_aggregate_of_expression
SELECT g, sum(x * x) AS squares, max(x + id) AS top, min(-x) AS neg FROM t1 GROUP BY g;

-- name: group_having_count
SELECT g, count(*) AS n FROM t1 GROUP BY g HAVING count(*) > 2;

-- name: group_having_sum
SELECT g, max(x) AS hi FROM t1 GROUP BY g HAVING sum(x) BETWEEN 3 AND 20;

-- name: group_having_key
SELECT g, count(*) AS n FROM t1 GROUP BY g HAVING g > 1;

-- name: group_having_null
SELECT g, sum(x) AS total FROM t1 GROUP BY g HAVING sum(x) IS NULL;

-- name: group_having_or
SELECT g, s, count(*) AS n FROM t1 GROUP BY g, s HAVING count(*) > 1 OR min(x) < 2;

-- name: group_having_without_select
SELECT g FROM t1 GROUP BY g HAVING bool_or(b) AND count(DISTINCT s) > 1;

-- name: group_where_and_having
SELECT g, count(*) AS n FROM t1 WHERE x > 0 AND s IS NOT NULL GROUP BY g HAVING count(*) >= 2;

-- name: group_string_agg
SELECT g, string_agg(s, ',' ORDER BY s) AS letters FROM t1 GROUP BY g;

-- name: group_string_agg_desc
SELECT g, string_agg(s, '' ORDER BY s DESC) AS letters FROM t1 GROUP BY g;

-- name: group_string_agg_distinct
SELECT g, string_agg(DISTINCT s, ',' ORDER BY s) AS letters FROM t1 GROUP BY g;

-- name: group_string_agg_two_keys
SELECT g, string_agg(s, ',' ORDER BY x, s) AS letters FROM t1 GROUP BY g;

-- name: group_string_agg_cast
SELECT g, string_agg(x::text, '|' ORDER BY x DESC) AS numbers FROM t1 GROUP BY g;

-- name: group_string_agg_filter
SELECT g, string_agg(s, ',' ORDER BY s) FILTER (WHERE b) AS letters FROM t1 GROUP BY g;

-- name: group_array_agg
SELECT g, array_agg(x ORDER BY x) AS xs FROM t1 GROUP BY g;

-- name: group_array_agg_desc_nulls
SELECT g, array_agg(x ORDER BY x DESC NULLS LAST) AS xs FROM t1 GROUP BY g;

-- name: group_array_agg_text
SELECT g, array_agg(s ORDER BY s) AS letters FROM t1 GROUP BY g;

-- name: group_array_agg_distinct
SELECT g, array_agg(DISTINCT x ORDER BY x) AS xs FROM t1 GROUP BY g;

-- name: group_array_agg_two_keys
SELECT g, array_agg(s ORDER BY x, s, id) AS letters FROM t1 GROUP BY g;

-- name: group_bit_aggregates
SELECT g, bit_and(x) AS ba, bit_or(x) AS bo FROM t1 GROUP BY g;

-- name: group_covar_free
SELECT k, count(*) AS n, sum(y * y) AS sq, sum(y) * sum(y) AS sq2 FROM t2 GROUP BY k;

-- name: group_of_filtered
SELECT k, sum(n) AS total FROM t2 WHERE d > DATE '2024-01-02' GROUP BY k;

-- name: group_sum_smallint
SELECT g, sum(x::int2) AS total, avg(x::int2)::numeric(20,6) AS mean FROM t1 GROUP BY g;

-- name: group_all_null_group
SELECT g, sum(NULL::int4) AS nothing, count(NULL::int4) AS zero, max(NULL::text) AS none FROM t1 GROUP BY g;

-- name: group_by_coalesce
SELECT coalesce(g, -1) AS gg, count(*) AS n FROM t1 GROUP BY coalesce(g, -1);

-- name: group_by_constant
SELECT 'all' AS label, count(*) AS n FROM t1 GROUP BY 1;

-- Global aggregates.

-- name: global_count
SELECT count(*) AS n FROM t1;

-- name: global_many
SELECT count(*) AS n, count(x) AS nx, sum(x) AS total, min(x) AS lo, max(x) AS hi, avg(x)::numeric(20,6) AS mean
    FROM t1;

-- name: global_empty_input
SELECT count(*) AS n, sum(x) AS total, min(s) AS lo, bool_and(b) AS every_b FROM t1 WHERE false;

-- name: global_filtered
SELECT count(*) AS n, sum(y) AS total FROM t2 WHERE k = 1;

-- name: global_numeric
SELECT sum(n) AS total, min(n) AS lo, max(n) AS hi, avg(n)::numeric(20,6) AS mean FROM t2;

-- name: global_distinct
SELECT count(DISTINCT g) AS gs, count(DISTINCT x) AS xs, sum(DISTINCT x) AS total FROM t1;

-- name: global_filter_clauses
SELECT count(*) FILTER (WHERE b) AS bs, sum(x) FILTER (WHERE g = 1) AS one, count(DISTINCT s) FILTER (WHERE g IS
    NULL) AS letters FROM t1;

-- name: global_having
SELECT count(*) AS n FROM t1 HAVING count(*) > 3;

-- name: global_having_false
SELECT sum(x) AS total FROM t1 HAVING sum(x) > 1000000;

-- name: global_string_agg
SELECT string_agg(s, ',' ORDER BY s) AS letters FROM t1;

-- name: global_array_agg
SELECT array_agg(g ORDER BY g DESC) AS gs FROM t1;

-- name: global_array_agg_empty
SELECT array_agg(g ORDER BY g) AS gs, string_agg(s, '' ORDER BY s) AS letters FROM t1 WHERE false;

-- name: global_min_max_everything
SELECT min(v) AS v0, max(v) AS v1, min(f) AS f0, max(f) AS f1, min(ts) AS ts0, max(ts) AS ts1 FROM t4;

-- name: global_dates
SELECT min(d) AS first, max(d) AS last, max(d) - min(d) AS days FROM t2;

-- name: global_stddev
SELECT stddev_samp(x)::numeric(20,6) AS sd, var_pop(x)::numeric(20,6) AS vp, variance(x)::numeric(20,6) AS va,
    stddev(x)::numeric(20,6) AS st FROM t1;

-- name: global_bool
SELECT bool_and(b) AS every_b, bool_or(b) AS any_b, bool_and(x >= 0) AS non_negative FROM t1;

-- name: global_expression
SELECT coalesce(sum(x), 0) * 2 + count(*) AS score FROM t1;

-- name: global_of_constant
SELECT sum(1) AS ones, max(5) AS five, count(1) AS n FROM t1;

-- name: global_of_join
SELECT count(*) AS n, sum(t1.x * t2.y) AS total FROM t1 JOIN t2 ON t1.id = t2.id;

-- name: global_of_cross
SELECT count(*) AS n FROM t1 CROSS JOIN t3;

-- name: global_of_union
SELECT count(*) AS n, count(q.v) AS known, max(q.v) AS top FROM (SELECT x AS v FROM t1 UNION ALL SELECT k FROM t4) q;

-- Aggregates of joins, joins of aggregates, aggregates of aggregates.

-- name: agg_of_inner_join
SELECT t1.g, count(*) AS n, sum(t2.y) AS total FROM t1 JOIN t2 ON t1.id = t2.id GROUP BY t1.g;

-- name: agg_of_left_join
SELECT t1.g, count(*) AS n, count(t2.id) AS matched, sum(t2.y) AS total FROM t1 LEFT JOIN t2 ON t1.id = t2.id GROUP
    BY t1.g;

-- name: agg_of_full_join
SELECT coalesce(t1.g, t2.k) AS key, count(*) AS n, count(t1.id) AS n1, count(t2.id) AS n2 FROM t1 FULL JOIN t2 ON
    t1.g = t2.k GROUP BY coalesce(t1.g, t2.k);

-- name: agg_of_three_joins
SELECT t4.v, count(*) AS n, sum(t2.y) AS total FROM t2 JOIN t3 ON t2.k = t3.a JOIN t4 ON t4.k = t3.c GROUP BY t4.v;

-- name: agg_of_self_join
SELECT p.g, count(*) AS pairs FROM t1 p JOIN t1 q ON p.g = q.g AND p.x < q.x GROUP BY p.g;

-- name: agg_of_inequality_join
SELECT t1.id, count(t2.id) AS below FROM t1 LEFT JOIN t2 ON t2.y < t1.x GROUP BY t1.id;

-- name: agg_degree
SELECT a, count(*) AS outgoing, count(DISTINCT c) AS targets FROM t3 GROUP BY a;

-- name: agg_degree_both
SELECT n, sum(o) AS outgoing, sum(i) AS incoming FROM (SELECT a AS n, 1 AS o, 0 AS i FROM t3 UNION ALL SELECT c, 0,
    1 FROM t3) e GROUP BY n;

-- name: agg_two_hops_count
SELECT p.a AS src, q.c AS dst, count(*) AS paths FROM t3 p JOIN t3 q ON p.c = q.a GROUP BY p.a, q.c;

-- name: agg_triangle_count
SELECT count(*) AS triangles FROM t3 p JOIN t3 q ON p.c = q.a JOIN t3 r ON q.c = r.a AND r.c = p.a;

-- name: join_of_aggregates
SELECT l.g, l.total AS x_total, r.total AS y_total FROM (SELECT g, sum(x) AS total FROM t1 GROUP BY g) l JOIN
    (SELECT k, sum(y) AS total FROM t2 GROUP BY k) r ON l.g = r.k;

-- name: join_aggregate_with_table
SELECT t1.id, t1.x, a.hi FROM t1 JOIN (SELECT g, max(x) AS hi FROM t1 GROUP BY g) a ON t1.g = a.g AND t1.x = a.hi;

-- name: join_aggregate_residual
SELECT t1.id, t1.x FROM t1 JOIN (SELECT g, avg(x) AS mean FROM t1 GROUP BY g) a ON t1.g = a.g WHERE t1.x > a.mean;

-- name: join_aggregate_global
SELECT t1.id, t1.x, a.hi - t1.x AS below_top FROM t1 CROSS JOIN (SELECT max(x) AS hi FROM t1) a;

-- name: join_aggregates_left
SELECT l.g, l.n, r.n AS edges FROM (SELECT g, count(*) AS n FROM t1 GROUP BY g) l LEFT JOIN (SELECT a, count(*) AS n
    FROM t3 GROUP BY a) r ON l.g = r.a;

-- name: join_three_aggregates
SELECT x.g, x.n AS n1, y.n AS n2, z.n AS n3 FROM (SELECT g, count(*) AS n FROM t1 GROUP BY g) x JOIN (SELECT k,
    count(*) AS n FROM t2 GROUP BY k) y ON y.k = x.g JOIN (SELECT a, count(*) AS n FROM t3 GROUP BY a) z ON z.a =
    x.g;

-- name: join_on_aggregate_value
SELECT a.g, t3.c FROM (SELECT g, count(*) AS n FROM t1 GROUP BY g) a JOIN t3 ON t3.a = a.n;

-- name: agg_of_agg
SELECT n, count(*) AS groups FROM (SELECT g, count(*) AS n FROM t1 GROUP BY g) q GROUP BY n;

-- name: agg_of_agg_max
SELECT max(total) AS best, min(total) AS worst, sum(total) AS whole FROM (SELECT k, sum(y) AS total FROM t2 GROUP BY
    k) q;

-- name: agg_of_agg_two_level
SELECT s, sum(n) AS n, max(hi) AS hi FROM (SELECT s, g, count(*) AS n, max(x) AS hi FROM t1 GROUP BY s, g) q GROUP
    BY s;

-- name: agg_of_agg_three_level
SELECT count(*) AS n FROM (SELECT n, count(*) AS m FROM (SELECT g, count(*) AS n FROM t1 GROUP BY g) q GROUP BY n
    HAVING count(*) > 1) r;

-- name: agg_of_distinct
SELECT g, count(*) AS n FROM (SELECT DISTINCT g, s, x FROM t1) q GROUP BY g;

-- name: agg_of_join_of_agg
SELECT t4.v, sum(a.total) AS total FROM t4 JOIN (SELECT k, sum(y) AS total FROM t2 GROUP BY k) a ON a.k = t4.k GROUP
    BY t4.v;

-- name: agg_filtered_by_agg
SELECT g, sum(x) AS total FROM t1 WHERE g IN (SELECT k FROM t2 GROUP BY k HAVING count(*) >= 2) GROUP BY g;

-- name: agg_of_semi
SELECT g, count(*) AS n FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id) GROUP BY g;

-- name: agg_of_anti
SELECT g, count(*) AS n FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t3 WHERE t3.a = t1.g) GROUP BY g;

-- name: agg_string_of_agg
SELECT string_agg(q.s, ',' ORDER BY q.n DESC, q.s) AS ranking FROM (SELECT s, count(*) AS n FROM t1 GROUP BY s) q;

-- name: agg_min_of_join
SELECT t1.s, min(t2.d) AS first, max(t2.n) AS top FROM t1 JOIN t2 ON t1.id = t2.id GROUP BY t1.s;

-- name: agg_sum_expression_of_join
SELECT t2.k, sum(t2.y * t1.x) AS dot, avg(t2.n + t1.x)::numeric(20,6) AS mean FROM t2 JOIN t1 ON t1.g = t2.k GROUP
    BY t2.k;

-- name: agg_bool_of_left_join
SELECT t1.g, bool_or(t3.a IS NULL) AS any_missing FROM t1 LEFT JOIN t3 ON t1.g = t3.a GROUP BY t1.g;

-- name: agg_having_join
SELECT t1.g, count(*) AS n FROM t1 JOIN t3 ON t1.g = t3.a GROUP BY t1.g HAVING count(DISTINCT t3.c) > 1;

-- ORDER BY with LIMIT and OFFSET.

-- name: limit_first
SELECT id, x FROM t1 ORDER BY id, x LIMIT 3;

-- name: limit_desc
SELECT x, id FROM t1 ORDER BY x DESC, id DESC LIMIT 4;

-- name: limit_nulls_first
SELECT x, id FROM t1 ORDER BY x NULLS FIRST, id LIMIT 3;

-- name: limit_desc_nulls_last
SELECT g, x, id FROM t1 ORDER BY g DESC NULLS LAST, x DESC NULLS LAST, id LIMIT 5;

-- name: limit_offset
SELECT id, g FROM t1 ORDER BY id, g LIMIT 3 OFFSET 2;

-- name: offset_only
SELECT a, c FROM t3 ORDER BY a, c OFFSET 3;

-- name: limit_zero
SELECT id FROM t1 ORDER BY id LIMIT 0;

-- name: limit_one
SELECT id, g, x, s, b FROM t1 ORDER BY x DESC, id, g, s, b LIMIT 1;

-- name: limit_larger_than_table
SELECT a, c FROM t3 ORDER BY a, c LIMIT 1500;

-- name: limit_duplicates
SELECT g FROM t1 ORDER BY g LIMIT 4;

-- name: limit_filtered
SELECT id, x FROM t1 WHERE b ORDER BY x, id LIMIT 2;

-- name: limit_expression
SELECT x * 2 AS x2, id FROM t1 ORDER BY x * 2 DESC, id LIMIT 3;

-- name: limit_text
SELECT s, id FROM t1 ORDER BY s DESC NULLS LAST, id LIMIT 4;

-- name: limit_float
SELECT f, k, v FROM t4 ORDER BY f DESC NULLS LAST, k, v LIMIT 3;

-- name: limit_numeric
SELECT n, id FROM t2 ORDER BY n, id LIMIT 3;

-- name: limit_date
SELECT d, id, k FROM t2 ORDER BY d DESC, id, k LIMIT 3;

-- name: limit_bool
SELECT b, id FROM t1 ORDER BY b, id LIMIT 5;

-- name: limit_of_groups
SELECT g, count(*) AS n FROM t1 GROUP BY g ORDER BY n DESC, g LIMIT 2;

-- name: limit_of_groups_sum
SELECT k, sum(y) AS total FROM t2 GROUP BY k ORDER BY total DESC NULLS LAST, k LIMIT 3;

-- name: limit_of_join
SELECT t1.id, t2.y FROM t1 JOIN t2 ON t1.id = t2.id ORDER BY t2.y DESC, t1.id LIMIT 3;

-- name: limit_of_left_join
SELECT t1.id, t2.y FROM t1 LEFT JOIN t2 ON t1.id = t2.id ORDER BY t2.y NULLS FIRST, t1.id LIMIT 4;

-- name: limit_of_distinct
SELECT DISTINCT g, s FROM t1 ORDER BY g, s LIMIT 4;

-- name: limit_of_union
SELECT id AS i FROM t1 UNION ALL SELECT id FROM t2 ORDER BY i LIMIT 5;

-- name: limit_of_union_distinct
SELECT g AS i FROM t1 UNION SELECT k FROM t2 ORDER BY i DESC LIMIT 3;

-- name: limit_subquery
SELECT q.id, q.x + 1 AS next FROM (SELECT id, x FROM t1 ORDER BY x DESC, id LIMIT 5) q WHERE q.id > 1;

-- name: limit_subquery_joined
SELECT q.id, t2.y FROM (SELECT id, x FROM t1 ORDER BY x, id LIMIT 4) q JOIN t2 ON q.id = t2.id;

-- name: limit_subquery_left_joined
SELECT t2.id, q.x FROM t2 LEFT JOIN (SELECT id, x FROM t1 ORDER BY id, x LIMIT 3) q ON q.id = t2.id;

-- name: limit_subquery_aggregated
SELECT count(*) AS n, sum(q.x) AS total FROM (SELECT x, id FROM t1 ORDER BY x DESC NULLS LAST, id LIMIT 4) q;

-- name: limit_subquery_grouped
SELECT q.g, count(*) AS n FROM (SELECT g, id FROM t1 ORDER BY id, g LIMIT 6) q GROUP BY q.g;

-- name: limit_of_limit
SELECT q.id, q.x FROM (SELECT id, x FROM t1 ORDER BY id, x LIMIT 8) q ORDER BY q.x DESC, q.id LIMIT 3;

-- name: limit_of_limit_offset
SELECT q.a, q.c FROM (SELECT a, c FROM t3 ORDER BY a, c LIMIT 6 OFFSET 1) q ORDER BY q.c, q.a LIMIT 3 OFFSET 1;

-- name: limit_two_joined
SELECT l.id AS i1, r.id AS i2 FROM (SELECT id FROM t1 ORDER BY id LIMIT 3) l CROSS JOIN (SELECT id FROM t2 ORDER BY
    id DESC LIMIT 2) r;

-- name: limit_hidden_sort_key
SELECT id FROM t1 ORDER BY id % 3, id LIMIT 4;

-- name: limit_except
(SELECT a FROM t3 ORDER BY a LIMIT 5) EXCEPT (SELECT k FROM t4 ORDER BY k LIMIT 2);

-- name: offset_beyond
SELECT id FROM t1 ORDER BY id OFFSET 1000;

-- name: order_without_limit
SELECT id, x FROM t1 ORDER BY x, id;

-- name: fetch_first
SELECT k, v FROM t4 ORDER BY k, v FETCH FIRST 2 ROWS ONLY;

-- name: limit_top_of_group_join
SELECT t1.id, t1.g FROM t1 JOIN (SELECT g FROM t1 GROUP BY g ORDER BY count(*) DESC, g LIMIT 1) q ON t1.g = q.g;

-- CTEs.

-- name: cte_once
WITH q AS (SELECT id, x FROM t1 WHERE g = 1) SELECT q.id, q.x + 1 AS next FROM q;

-- name: cte_twice
WITH q AS (SELECT g, count(*) AS n FROM t1 GROUP BY g) SELECT l.g AS g1, r.g AS g2 FROM q l JOIN q r ON l.n = r.n;

-- name: cte_three_times
WITH e AS (SELECT DISTINCT a, c FROM t3) SELECT p.a AS v1, q.c AS v2, r.c AS v3 FROM e p JOIN e q ON p.c = q.a JOIN
    e r ON q.c = r.a;

-- name: cte_chain
WITH p AS (SELECT id, g, x FROM t1 WHERE x IS NOT NULL), q AS (SELECT g, sum(x) AS total FROM p GROUP BY g), r AS
    (SELECT g, total FROM q WHERE total > 2) SELECT r.g, r.total FROM r;

-- name: cte_union_self
WITH q AS (SELECT g, x FROM t1 WHERE b) SELECT g FROM q UNION ALL SELECT x FROM q;

-- name: cte_compared_with_max
WITH q AS (SELECT k, sum(y) AS total FROM t2 GROUP BY k) SELECT q.k, q.total FROM q WHERE q.total = (SELECT
    max(total) FROM q);

-- name: cte_joined_with_its_source
WITH m AS (SELECT g, max(x) AS hi FROM t1 GROUP BY g) SELECT t1.id, m.hi - t1.x AS below FROM t1 JOIN m ON m.g = t1.g;

-- name: cte_materialized
WITH q AS MATERIALIZED (SELECT id, y FROM t2 WHERE y > 1) SELECT q.id, count(*) AS n FROM q GROUP BY q.id;

-- name: cte_not_materialized
WITH q AS NOT MATERIALIZED (SELECT id, y FROM t2 WHERE y > 1) SELECT p.id, q.y FROM q AS p JOIN q ON p.id = q.id;

-- name: cte_unused
WITH q AS (SELECT id FROM t1), r AS (SELECT id FROM t2) SELECT id FROM r;

-- name: cte_column_names
WITH q(i, v) AS (SELECT id, x FROM t1) SELECT i, v FROM q WHERE v > 1;

-- name: cte_limit_twice
WITH q AS (SELECT id, x FROM t1 ORDER BY id, x LIMIT 5) SELECT l.id, r.x FROM q l JOIN q r ON l.id = r.id;

-- name: cte_values
WITH names(k, name) AS (VALUES (0, 'zero'), (1, 'one'), (2, 'two')) SELECT t1.id, names.name FROM t1 LEFT JOIN names
    ON names.k = t1.g;

-- name: cte_in_semi
WITH q AS (SELECT k FROM t2 WHERE y > 2) SELECT id FROM t1 WHERE g IN (SELECT k FROM q) OR x IN (SELECT k FROM q);

-- name: cte_nested
WITH outer_q AS (WITH inner_q AS (SELECT a, c FROM t3 WHERE a < c) SELECT a, count(*) AS n FROM inner_q GROUP BY a)
    SELECT a, n FROM outer_q WHERE n > 1;

-- name: cte_except_self
WITH q AS (SELECT a, c FROM t3) SELECT a FROM q EXCEPT SELECT c FROM q;

-- name: cte_share_of_total
WITH q AS (SELECT g, sum(x) AS s FROM t1 GROUP BY g), tot AS (SELECT sum(s) AS t FROM q) SELECT q.g, round(q.s *
    100.0 / nullif(tot.t, 0), 4)::numeric(20,4) AS share FROM q CROSS JOIN tot;

-- VALUES and constants.

-- name: values_joined
SELECT t1.id, l.label FROM t1 JOIN (VALUES (1, 'one'), (2, 'two'), (3, 'three')) AS l(k, label) ON l.k = t1.g;

-- name: values_left_joined
SELECT l.k, l.label, t1.id FROM (VALUES (0, 'zero'), (1, 'one'), (9, 'nine')) AS l(k, label) LEFT JOIN t1 ON t1.g =
    l.k;

-- name: values_cross
SELECT t3.a, l.m, t3.a * l.m AS product FROM t3 CROSS JOIN (VALUES (1), (10)) AS l(m);

-- name: values_with_nulls
SELECT l.k, count(t1.id) AS n FROM (VALUES (0), (1), (NULL), (1)) AS l(k) LEFT JOIN t1 ON t1.g = l.k GROUP BY l.k;

-- name: values_only
SELECT q.a, q.b FROM (VALUES (1, 'x'), (2, NULL), (1, 'x')) AS q(a, b);

-- name: values_statement
VALUES (1, 'a'), (2, 'b'), (3, NULL);

-- name: values_union
SELECT id AS i FROM t1 UNION ALL SELECT v.i FROM (VALUES (100), (200)) AS v(i);

-- name: values_ranges
SELECT r.name, count(t1.id) AS n FROM (VALUES ('low', 0, 2), ('mid', 3, 5), ('high', 6, 99)) AS r(name, lo, hi) LEFT
    JOIN t1 ON t1.x BETWEEN r.lo AND r.hi GROUP BY r.name;

-- name: values_mixed_numeric
SELECT v.w, t2.id FROM (VALUES (1.5), (2), (3.25)) AS v(w) JOIN t2 ON t2.n > v.w;

-- name: constant_row
SELECT 1 AS one, 'a' AS letter, NULL::int4 AS nothing, DATE '2024-01-01' AS day, TRUE AS yes;

-- name: constant_expression
SELECT 1 + 2 * 3 AS seven, upper('abc') AS up, 7 / 2 AS half, 2.50 * 2 AS five;

-- name: constant_union
SELECT 1 AS v UNION ALL SELECT 2 UNION ALL SELECT 2 UNION ALL SELECT NULL;

-- name: constant_union_distinct
SELECT 1 AS v UNION SELECT 2 UNION SELECT 2;

-- name: constant_empty
SELECT 1 AS one WHERE false;

-- name: constant_aggregate
SELECT count(*) AS n, sum(v) AS total, max(v) AS hi FROM (VALUES (1), (2), (NULL)) AS q(v);

-- name: constant_limit
SELECT q.v FROM (VALUES (3), (1), (2)) AS q(v) ORDER BY q.v LIMIT 2;

-- name: constant_joined
SELECT t1.id, c.one FROM t1 CROSS JOIN (SELECT 1 AS one) c;

-- name: constant_left_joined
SELECT c.one, t1.id FROM (SELECT 1 AS one) c LEFT JOIN t1 ON t1.g = c.one;

-- name: constant_exists
SELECT 1 AS one WHERE EXISTS (SELECT 1 FROM t1 WHERE g = 1);

-- name: constant_not_exists
SELECT 'empty' AS state WHERE NOT EXISTS (SELECT 1 FROM t2);

-- Nested subqueries.

-- name: nested_three_filters
SELECT r.id FROM (SELECT q.id, q.x FROM (SELECT id, x, g FROM t1 WHERE g < 4) q WHERE q.x > 0) r WHERE r.id < 20;

-- name: nested_join_group_join
SELECT t4.v, q.total FROM (SELECT j.g, sum(j.y) AS total FROM (SELECT t1.g, t2.y FROM t1 JOIN t2 ON t1.id = t2.id) j
    GROUP BY j.g) q JOIN t4 ON t4.k = q.g;

-- name: nested_four_deep
SELECT w.n, count(*) AS m FROM (SELECT q.g, count(*) AS n FROM (SELECT DISTINCT p.g, p.c FROM (SELECT t1.g, t3.c
    FROM t1 JOIN t3 ON t1.g = t3.a WHERE t1.x > 0) p) q GROUP BY q.g) w GROUP BY w.n;

-- name: nested_union_group_limit
SELECT q.v, q.n FROM (SELECT u.v, count(*) AS n FROM (SELECT s AS v FROM t1 UNION ALL SELECT v FROM t4) u GROUP BY
    u.v) q ORDER BY q.n DESC, q.v LIMIT 3;

-- name: nested_exists_in_subquery
SELECT q.g, sum(q.x) AS total FROM (SELECT id, g, x FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id)) q
    WHERE q.g NOT IN (SELECT k FROM t4 WHERE v = 'a') GROUP BY q.g;

-- name: nested_left_join_of_left_join
SELECT q.id, q.y, t4.v FROM (SELECT t1.id, t2.y, t2.k FROM t1 LEFT JOIN t2 ON t1.id = t2.id) q LEFT JOIN t4 ON t4.k
    = q.k WHERE q.y IS NULL OR t4.v IS NOT NULL;

-- name: nested_agg_filter_agg
SELECT max(q.n) AS most FROM (SELECT r.g, count(*) AS n FROM (SELECT g, x FROM t1 WHERE x IS NOT NULL) r GROUP BY
    r.g HAVING count(*) > 1) q;

-- name: nested_distinct_union_except
SELECT z.i FROM (SELECT DISTINCT y.i FROM (SELECT id AS i FROM t1 UNION ALL SELECT a FROM t3) y) z EXCEPT SELECT k
    FROM t4;

-- name: nested_renamed
SELECT q.b1 AS c1, q.b2 AS c2 FROM (SELECT r.a1 AS b1, r.a2 AS b2 FROM (SELECT id AS a1, x AS a2 FROM t1) r WHERE
    r.a2 > 1) q WHERE q.b1 < 50;

-- name: nested_limit_in_middle
SELECT w.g, count(*) AS n FROM (SELECT q.g, q.id FROM (SELECT t1.g, t1.id FROM t1 JOIN t2 ON t1.id = t2.id) q ORDER
    BY q.id DESC, q.g LIMIT 6) w GROUP BY w.g;

-- name: nested_full_of_groups
SELECT coalesce(l.key, r.key) AS key, coalesce(l.n, 0) - coalesce(r.n, 0) AS diff FROM (SELECT a AS key, count(*) AS
    n FROM t3 GROUP BY a) l FULL JOIN (SELECT c AS key, count(*) AS n FROM t3 GROUP BY c) r ON l.key = r.key;

-- name: nested_scalar_of_group
SELECT q.g, q.n, q.n - (SELECT max(r.n) FROM (SELECT count(*) AS n FROM t1 GROUP BY g) r) AS behind FROM (SELECT g,
    count(*) AS n FROM t1 GROUP BY g) q;

-- name: nested_semi_of_limit_of_group
SELECT id, g, x FROM t1 WHERE g IN (SELECT q.k FROM (SELECT k, sum(y) AS total FROM t2 WHERE k IS NOT NULL GROUP BY
    k ORDER BY total DESC NULLS LAST, k LIMIT 2) q);

-- name: nested_cross_of_globals
SELECT l.n AS n1, r.n AS n2, l.n * r.n AS product FROM (SELECT count(*) AS n FROM t1) l CROSS JOIN (SELECT count(*)
    AS n FROM t2) r;

-- name: nested_case_over_left_join
SELECT q.kind, count(*) AS n FROM (SELECT CASE WHEN t3.a IS NULL THEN 'sink' WHEN t3.c IS NULL THEN 'dangling' ELSE
    'node' END AS kind FROM t4 LEFT JOIN t3 ON t3.a = t4.k) q GROUP BY q.kind;

-- name: nested_mark_then_group
SELECT q.g, bool_or(q.e) AS any_e, bool_and(q.e) AS all_e FROM (SELECT t1.g, EXISTS (SELECT 1 FROM t2 WHERE t2.id =
    t1.id) AS e FROM t1) q GROUP BY q.g;

-- Shapes of TPC-H, over these tables.

-- name: tpch_q1
SELECT s, b, sum(x) AS sum_x, sum(x * (1 + g)) AS charge, avg(x)::numeric(20,6) AS avg_x, count(*) AS n FROM t1
    WHERE id <= 40 GROUP BY s, b;

-- name: tpch_q2
SELECT t1.id, t2.y, t4.v FROM t1, t2, t4 WHERE t1.id = t2.id AND t2.k = t4.k AND t2.y = (SELECT min(i.y) FROM t2 i
    JOIN t4 j ON i.k = j.k WHERE i.id = t1.id);

-- name: tpch_q3
SELECT t1.id, sum(t2.n * (1 - t1.g)) AS revenue, t2.d FROM t1, t2 WHERE t1.id = t2.id AND t2.d < DATE '2024-01-09'
    AND t1.b GROUP BY t1.id, t2.d ORDER BY revenue DESC NULLS LAST, t2.d, t1.id LIMIT 5;

-- name: tpch_q4
SELECT s, count(*) AS order_count FROM t1 WHERE x >= 0 AND EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id AND t2.y <
    t2.k) GROUP BY s;

-- name: tpch_q5
SELECT t4.v, sum(t2.n) AS revenue FROM t1, t2, t3, t4 WHERE t1.id = t2.id AND t3.a = t1.g AND t3.c = t2.k AND t4.k =
    t3.c GROUP BY t4.v;

-- name: tpch_q6
SELECT sum(n * y) AS revenue FROM t2 WHERE d >= DATE '2024-01-01' AND d < DATE '2024-01-08' AND y BETWEEN 1 AND 6
    AND n < 24;

-- name: tpch_q7
SELECT q.v1, q.v2, q.m, sum(q.vol) AS revenue FROM (SELECT n1.v AS v1, n2.v AS v2, extract(day FROM t2.d)::int4 AS
    m, t2.n AS vol FROM t2, t1, t4 n1, t4 n2 WHERE t1.id = t2.id AND n1.k = t1.g AND n2.k = t2.k AND ((n1.v = 'a'
    AND n2.v = 'b') OR (n1.v = 'b' AND n2.v = 'a'))) q GROUP BY q.v1, q.v2, q.m;

-- name: tpch_q8
SELECT q.m, (sum(CASE WHEN q.v = 'a' THEN q.vol ELSE 0 END) / nullif(sum(q.vol), 0))::numeric(20,4) AS share FROM
    (SELECT extract(day FROM t2.d)::int4 AS m, t2.n AS vol, t4.v FROM t2 JOIN t1 ON t1.id = t2.id JOIN t4 ON t4.k =
    t1.g) q GROUP BY q.m;

-- name: tpch_q9
SELECT q.v, q.m, sum(q.amount) AS profit FROM (SELECT t4.v, extract(month FROM t2.d)::int4 AS m, t2.n * 2 - t2.y AS
    amount FROM t2, t3, t4 WHERE t3.a = t2.k AND t4.k = t3.c) q GROUP BY q.v, q.m;

-- name: tpch_q10
SELECT t1.id, t1.s, sum(t2.n) AS revenue FROM t1 JOIN t2 ON t1.id = t2.id JOIN t4 ON t4.k = t1.g WHERE t2.d >= DATE
    '2024-01-02' GROUP BY t1.id, t1.s ORDER BY revenue DESC NULLS LAST, t1.id, t1.s LIMIT 4;

-- name: tpch_q11
SELECT t2.k, sum(t2.n * t2.y) AS val FROM t2 JOIN t4 ON t2.k = t4.k GROUP BY t2.k HAVING sum(t2.n * t2.y) > (SELECT
    sum(i.n * i.y) * 0.2 FROM t2 i JOIN t4 j ON i.k = j.k);

-- name: tpch_q12
SELECT t1.s, sum(CASE WHEN t2.y > 3 THEN 1 ELSE 0 END) AS high, sum(CASE WHEN t2.y <= 3 THEN 1 ELSE 0 END) AS low
    FROM t1, t2 WHERE t1.id = t2.id AND t1.s IN ('a', 'b') GROUP BY t1.s;

-- name: tpch_q13
SELECT q.n, count(*) AS dist FROM (SELECT t1.id, count(t2.id) AS n FROM t1 LEFT JOIN t2 ON t1.id = t2.id AND t2.d IS
    NOT NULL GROUP BY t1.id) q GROUP BY q.n;

-- name: tpch_q14
SELECT (100.00 * sum(CASE WHEN t4.v LIKE 'a%' THEN t2.n ELSE 0 END) / nullif(sum(t2.n), 0))::numeric(20,4) AS promo
    FROM t2 JOIN t4 ON t2.k = t4.k WHERE t2.d >= DATE '2024-01-01';

-- name: tpch_q15
WITH revenue AS (SELECT k, sum(n) AS total FROM t2 GROUP BY k) SELECT t4.k, t4.v, revenue.total FROM t4 JOIN revenue
    ON t4.k = revenue.k WHERE revenue.total = (SELECT max(total) FROM revenue);

-- name: tpch_q16
SELECT t1.s, t1.g, count(DISTINCT t2.k) AS suppliers FROM t2 JOIN t1 ON t1.id = t2.id WHERE t1.s <> 'c' AND t2.k NOT
    IN (SELECT k FROM t4 WHERE v LIKE '%b%') GROUP BY t1.s, t1.g;

-- name: tpch_q17
SELECT sum(t2.n) AS total FROM t2 JOIN t1 ON t1.id = t2.id WHERE t1.b AND t2.y < (SELECT avg(i.y) FROM t2 i WHERE
    i.id = t1.id) + 1;

-- name: tpch_q18
SELECT t1.id, t1.s, sum(t2.y) AS total FROM t1 JOIN t2 ON t1.id = t2.id WHERE t1.id IN (SELECT id FROM t2 GROUP BY
    id HAVING sum(y) > 4) GROUP BY t1.id, t1.s;

-- name: tpch_q19
SELECT sum(t2.n) AS revenue FROM t1 JOIN t2 ON t1.id = t2.id WHERE (t1.s = 'a' AND t2.y BETWEEN 1 AND 3) OR (t1.s =
    'b' AND t2.y BETWEEN 2 AND 5) OR (t1.s = 'c' AND t2.y > 4);

-- name: tpch_q20
SELECT t4.k, t4.v FROM t4 WHERE t4.k IN (SELECT t3.a FROM t3 WHERE t3.c IN (SELECT k FROM t2 WHERE n > 1) AND t3.c >
    (SELECT 0.5 * sum(x) FROM t1 WHERE t1.g = t3.a));

-- name: tpch_q21
SELECT t4.v, count(*) AS numwait FROM t4, t2 l1 WHERE l1.k = t4.k AND l1.y > 1 AND EXISTS (SELECT 1 FROM t2 l2 WHERE
    l2.id = l1.id AND l2.k <> l1.k) AND NOT EXISTS (SELECT 1 FROM t2 l3 WHERE l3.id = l1.id AND l3.k <> l1.k AND
    l3.y > 1) GROUP BY t4.v;

-- name: tpch_q22
SELECT q.s, count(*) AS n, sum(q.x) AS total FROM (SELECT s, x FROM t1 WHERE s IN ('a', 'b', 'c') AND x > (SELECT
    avg(x) FROM t1 WHERE x > 0) AND NOT EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id)) q GROUP BY q.s;

-- Mixtures.

-- name: mix_join_union_distinct
SELECT DISTINCT q.i FROM (SELECT t1.id AS i FROM t1 JOIN t3 ON t1.g = t3.a UNION ALL SELECT t2.id FROM t2 LEFT JOIN
    t4 ON t2.k = t4.k WHERE t4.k IS NULL) q;

-- name: mix_reachable_in_three
SELECT a AS src, c AS dst FROM t3 UNION SELECT p.a, q.c FROM t3 p JOIN t3 q ON p.c = q.a UNION SELECT p.a, r.c FROM
    t3 p JOIN t3 q ON p.c = q.a JOIN t3 r ON q.c = r.a;

-- name: mix_isolated_nodes
SELECT k FROM t4 WHERE k NOT IN (SELECT a FROM t3 WHERE a IS NOT NULL UNION SELECT c FROM t3 WHERE c IS NOT NULL);

-- name: mix_top_per_group_by_join
SELECT t1.g, t1.id, t1.x FROM t1 LEFT JOIN t1 better ON better.g = t1.g AND (better.x > t1.x OR (better.x = t1.x AND
    better.id < t1.id)) WHERE better.id IS NULL;

-- name: mix_pivot
SELECT g, count(*) FILTER (WHERE s = 'a') AS a, count(*) FILTER (WHERE s = 'b') AS b, count(*) FILTER (WHERE s IS
    NULL) AS none FROM t1 GROUP BY g;

-- name: mix_unpivot
SELECT id, 'g' AS name, g AS val FROM t1 UNION ALL SELECT id, 'x', x FROM t1;

-- name: mix_duplicates
SELECT id, g, x, s, b, count(*) AS copies FROM t1 GROUP BY id, g, x, s, b HAVING count(*) > 1;

-- name: mix_running_total_by_join
SELECT p.id, sum(q.y) AS running FROM (SELECT DISTINCT id FROM t2) p JOIN t2 q ON q.id <= p.id GROUP BY p.id;

-- name: mix_rank_by_count
SELECT p.id, p.x, (SELECT count(*) FROM t1 q WHERE q.g = p.g) AS size FROM t1 p;

-- name: mix_difference_of_counts
SELECT l.key, l.n - coalesce(r.n, 0) AS diff FROM (SELECT g AS key, count(*) AS n FROM t1 GROUP BY g) l LEFT JOIN
    (SELECT k AS key, count(*) AS n FROM t2 GROUP BY k) r ON r.key IS NOT DISTINCT FROM l.key;

-- name: mix_semi_anti_mark
SELECT id, g, EXISTS (SELECT 1 FROM t4 WHERE t4.k = t1.g) AS e FROM t1 WHERE id IN (SELECT id FROM t2) AND NOT
    EXISTS (SELECT 1 FROM t3 WHERE t3.c = t1.g);

-- name: mix_all_tables_count
SELECT t1.g, count(DISTINCT t1.id) AS n1, count(DISTINCT t2.id) AS n2, count(DISTINCT t3.c) AS n3, count(DISTINCT
    t4.v) AS n4 FROM t1 LEFT JOIN t2 ON t2.k = t1.g LEFT JOIN t3 ON t3.a = t1.g LEFT JOIN t4 ON t4.k = t1.g GROUP BY
    t1.g;

-- name: mix_case_join_group
SELECT CASE WHEN t2.y IS NULL THEN 'none' WHEN t2.y > 3 THEN 'high' ELSE 'low' END AS band, count(*) AS n, min(t1.s)
    AS s0 FROM t1 LEFT JOIN t2 ON t1.id = t2.id GROUP BY 1;

-- name: mix_mutual_edges
SELECT least(a, c) AS lo, greatest(a, c) AS hi, count(*) AS n FROM t3 WHERE a IS NOT NULL AND c IS NOT NULL GROUP BY
    least(a, c), greatest(a, c) HAVING count(DISTINCT a) = 2 OR min(a) = max(c);

-- name: mix_latest_per_key
SELECT t2.k, t2.id, t2.d FROM t2 JOIN (SELECT k, max(d) AS last FROM t2 GROUP BY k) m ON t2.k = m.k AND t2.d = m.last;

-- name: mix_median_free_extremes
SELECT q.g, q.lo, q.hi, p.id FROM (SELECT g, min(x) AS lo, max(x) AS hi FROM t1 GROUP BY g) q LEFT JOIN t1 p ON p.g
    = q.g AND p.x IN (q.lo, q.hi);

-- name: mix_union_all_of_limits
(SELECT id, x FROM t1 ORDER BY x, id LIMIT 2) UNION ALL (SELECT id, x FROM t1 ORDER BY x DESC, id LIMIT 2);

-- name: mix_not_in_group_having
SELECT a, c FROM t3 WHERE c NOT IN (SELECT g FROM t1 WHERE g IS NOT NULL GROUP BY g HAVING count(*) > 2);

-- name: mix_join_keys_swapped
SELECT p.id, p.g, q.id AS qid FROM t1 p JOIN t1 q ON p.g = q.x AND p.x = q.g;

-- name: mix_global_over_left_join_empty
SELECT count(*) AS n, count(q.a) AS matched FROM t1 LEFT JOIN (SELECT a FROM t3 WHERE a > 1000000) q ON true;

-- name: mix_text_join_agg
SELECT t4.v, string_agg(t1.s, '' ORDER BY t1.s) AS letters, count(*) AS n FROM t4 LEFT JOIN t1 ON t1.g = t4.k GROUP
    BY t4.v;

-- name: mix_having_exists
SELECT g, count(*) AS n FROM t1 GROUP BY g HAVING EXISTS (SELECT 1 FROM t3 WHERE t3.a = t1.g);

-- name: mix_join_group_both_levels
SELECT l.g, sum(l.n * r.n) AS pairs FROM (SELECT g, s, count(*) AS n FROM t1 GROUP BY g, s) l JOIN (SELECT v,
    count(*) AS n FROM t4 GROUP BY v) r ON l.s = r.v GROUP BY l.g;

-- name: mix_full_join_coalesce_group
SELECT coalesce(t1.s, t4.v) AS letter, count(t1.id) AS n1, count(t4.k) AS n4 FROM t1 FULL JOIN t4 ON t1.s = t4.v
    GROUP BY coalesce(t1.s, t4.v);

-- name: mix_division_guarded
SELECT g, sum(x) / nullif(count(x) - 2, 0) AS q FROM t1 GROUP BY g;

-- name: mix_in_subquery_with_outer_join
SELECT id FROM t2 WHERE k IN (SELECT t4.k FROM t4 LEFT JOIN t3 ON t3.a = t4.k WHERE t3.c IS NULL);

-- More of everything.

-- name: join_not_distinct_two_columns_bare
SELECT p.id AS pid, q.id AS qid FROM t1 p JOIN t1 q ON (p.g IS NOT DISTINCT FROM q.g) AND (p.x IS NOT DISTINCT FROM
    q.x);

-- name: join_distinct_from_and_eq
SELECT p.a AS pa, q.a AS qa FROM t3 p JOIN t3 q ON (p.a IS DISTINCT FROM q.a) AND p.c = q.c;

-- name: left_join_not_distinct_two_columns
SELECT p.id AS pid, q.id AS qid FROM t1 p LEFT JOIN t1 q ON (p.g IS NOT DISTINCT FROM q.g) AND (p.s IS NOT DISTINCT
    FROM q.s) AND p.x < q.x;

-- name: left_join_not_distinct_residual
SELECT t1.id, t1.x, t2.y FROM t1 LEFT JOIN t2 ON (t1.g IS NOT DISTINCT FROM t2.k) AND t2.y > t1.x;

-- name: semi_exists_two_columns
SELECT id, g FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id AND t2.k = t1.g);

-- name: anti_exists_two_columns
SELECT id, g FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id AND t2.k = t1.g);

-- name: left_join_group_key
SELECT q.over, count(*) AS n FROM (SELECT x > (SELECT avg(y) FROM t2) AS over FROM t1) q GROUP BY q.over;

-- name: group_filter_count_bool
SELECT g, count(*) FILTER (WHERE b) AS bs, count(s) FILTER (WHERE x > g) AS ss FROM t1 GROUP BY g;

-- name: group_filter_sum_not_null_mask
SELECT g, sum(x) FILTER (WHERE b IS TRUE) AS total FROM t1 GROUP BY g;

-- name: group_filter_min_null_mask
SELECT g, min(x) FILTER (WHERE x > 2) AS lo FROM t1 GROUP BY g;

-- name: group_filter_avg
SELECT k, (avg(y) FILTER (WHERE id IS NOT NULL))::numeric(20,6) AS mean FROM t2 GROUP BY k;

-- name: global_filter_max
SELECT max(x) FILTER (WHERE g = 1) AS hi FROM t1;

-- name: full_join_duplicates_residual
SELECT p.a AS pa, p.c AS pc, q.a AS qa, q.c AS qc FROM t3 p FULL JOIN t3 q ON p.a = q.c AND p.c <> q.a;

-- name: full_join_text
SELECT t1.s, t1.id, t4.v, t4.k FROM t1 FULL JOIN t4 ON t1.s = t4.v;

-- name: full_join_of_distinct
SELECT l.a, r.c FROM (SELECT DISTINCT a FROM t3) l FULL JOIN (SELECT DISTINCT c FROM t3) r ON l.a = r.c;

-- name: right_join_two_keys_residual
SELECT t1.id, t2.id AS id2, t2.k FROM t1 RIGHT JOIN t2 ON t1.id = t2.id AND t1.g = t2.k AND t1.x <= t2.y;

-- name: right_join_aggregated
SELECT t2.k, count(t1.id) AS n, max(t1.x) AS hi FROM t1 RIGHT JOIN t2 ON t1.g = t2.k GROUP BY t2.k;

-- name: left_join_limit_right
SELECT t1.id, r.v FROM t1 LEFT JOIN (SELECT k, v FROM t4 ORDER BY k DESC, v LIMIT 4) r ON r.k = t1.g;

-- name: left_join_mixed_types
SELECT t1.id, t2.n FROM t1 LEFT JOIN t2 ON t1.x = t2.y AND t2.n > t1.g;

-- name: left_join_text_expression
SELECT t1.id, t4.k FROM t1 LEFT JOIN t4 ON t1.s || '' = lower(t4.v);

-- name: join_five_way
SELECT p.id AS pid, t2.y, t3.c, t4.v, q.id AS qid FROM t1 p JOIN t2 ON t2.id = p.id JOIN t3 ON t3.a = t2.k JOIN t4
    ON t4.k = t3.c JOIN t1 q ON q.g = t4.k WHERE p.x < 4 AND q.b;

-- name: join_edges_squares
SELECT p.a AS v1, q.a AS v2, r.a AS v3, z.a AS v4 FROM t3 p JOIN t3 q ON p.c = q.a JOIN t3 r ON q.c = r.a JOIN t3 z
    ON r.c = z.a AND z.c = p.a WHERE p.a < r.a AND q.a < z.a;

-- name: join_self_left_null_safe
SELECT p.id, count(q.id) AS n FROM t1 p LEFT JOIN t1 q ON q.g IS NOT DISTINCT FROM p.g GROUP BY p.id;

-- name: group_numeric_cast_key
SELECT n::int4 AS ni, count(*) AS cnt, sum(n) AS total FROM t2 GROUP BY n::int4;

-- name: group_stddev_bigint
SELECT k, stddev_samp(y)::numeric(20,6) AS sd, var_pop(y)::numeric(20,6) AS vp FROM t2 GROUP BY k;

-- name: group_max_minus_min_having
SELECT k, max(y) - min(y) AS spread FROM t2 GROUP BY k HAVING max(y) - min(y) > 2 OR count(y) = 0;

-- name: group_by_interval_of_days
SELECT (d - DATE '2024-01-01') / 3 AS bucket, count(*) AS n, min(y) AS lo FROM t2 GROUP BY (d - DATE '2024-01-01') /
    3;

-- name: group_by_timestamp_hour
SELECT extract(hour FROM ts)::int4 AS h, count(*) AS n, max(v) AS v FROM t4 GROUP BY extract(hour FROM ts)::int4;

-- name: group_by_null_constant
SELECT NULL::int4 AS nothing, count(*) AS n FROM t1 GROUP BY 1;

-- name: group_of_group_join_self
SELECT l.g, l.n, (SELECT count(*) FROM t1) - l.n AS others FROM (SELECT g, count(*) AS n FROM t1 GROUP BY g) l;

-- name: group_array_agg_then_compare
SELECT q.xs, count(*) AS n FROM (SELECT g, array_agg(x ORDER BY x) AS xs FROM t1 GROUP BY g) q GROUP BY q.xs;

-- name: group_string_agg_as_key
SELECT q.letters, count(*) AS n FROM (SELECT g, string_agg(s, '' ORDER BY s) AS letters FROM t1 GROUP BY g) q GROUP
    BY q.letters;

-- name: group_array_agg_having
SELECT g, array_agg(s ORDER BY s DESC NULLS LAST) AS letters FROM t1 GROUP BY g HAVING count(*) BETWEEN 2 AND 4;

-- name: distinct_of_window_free_join
SELECT DISTINCT p.s AS s1, q.s AS s2 FROM t1 p JOIN t1 q ON p.g = q.g AND p.s <> q.s;

-- name: distinct_arrays
SELECT DISTINCT q.xs FROM (SELECT array_agg(b ORDER BY b) AS xs FROM t1 GROUP BY g) q;

-- name: union_of_limit_and_group
(SELECT 'top' AS kind, id AS v FROM t1 ORDER BY id DESC NULLS LAST LIMIT 1) UNION ALL SELECT 'count', count(*)::int4
    FROM t1 UNION ALL SELECT 'group', g FROM t1 GROUP BY g;

-- name: union_all_then_except
(SELECT g FROM t1 UNION ALL SELECT k FROM t2) EXCEPT SELECT a FROM t3;

-- name: intersect_then_except
(SELECT g FROM t1 INTERSECT SELECT k FROM t2) EXCEPT SELECT a FROM t3;

-- name: except_whole_rows
SELECT id, g, x, s, b FROM t1 WHERE x > 1 EXCEPT SELECT id, g, x, s, b FROM t1 WHERE b;

-- name: intersect_text
SELECT s FROM t1 INTERSECT SELECT v FROM t4;

-- name: except_dates
SELECT d FROM t2 EXCEPT SELECT ts::date FROM t4;

-- name: limit_inside_in_and_join
SELECT t1.id, t2.y FROM t1 JOIN t2 ON t1.id = t2.id WHERE t1.g IN (SELECT k FROM t4 ORDER BY k DESC, v LIMIT 3) AND
    t2.y > 0;

-- name: limit_offset_of_groups
SELECT q.s, q.n FROM (SELECT s, count(*) AS n FROM t1 GROUP BY s ORDER BY count(*), s LIMIT 3 OFFSET 1) q;

-- name: limit_of_full_join
SELECT t1.id AS i1, t2.id AS i2 FROM t1 FULL JOIN t2 ON t1.id = t2.id ORDER BY t1.id NULLS FIRST, t2.id LIMIT 6;

-- name: limit_of_except
SELECT q.g FROM (SELECT g FROM t1 EXCEPT SELECT k FROM t2) q ORDER BY q.g LIMIT 2;

-- name: limit_many_duplicates_offset
SELECT s FROM t1 ORDER BY s DESC LIMIT 5 OFFSET 3;

-- name: limit_union_branches_joined
SELECT q.id, t3.c FROM ((SELECT id FROM t1 ORDER BY id LIMIT 2) UNION (SELECT id FROM t2 ORDER BY id DESC LIMIT 2))
    q JOIN t3 ON t3.a = q.id;

-- name: scalar_limit_offset
SELECT id, (SELECT y FROM t2 ORDER BY y DESC NULLS LAST, id LIMIT 1 OFFSET 1) AS second FROM t1;

-- name: scalar_of_scalar
SELECT id, (SELECT max(y) - (SELECT min(a) FROM t3) FROM t2) AS v FROM t1;

-- name: scalar_in_values
SELECT v.name, v.n FROM (SELECT 'edges' AS name, (SELECT count(*) FROM t3) AS n UNION ALL SELECT 'rows', (SELECT
    count(*) FROM t1)) v;

-- name: scalar_in_limit_order
SELECT id, x FROM t1 ORDER BY abs(x - (SELECT min(y) FROM t2)), id, x LIMIT 3;

-- name: scalar_in_union_branch
SELECT id, (SELECT count(*) FROM t4) AS n FROM t1 UNION ALL SELECT k, (SELECT count(*) FROM t3) FROM t2;

-- name: scalar_correlated_avg
SELECT id, (SELECT avg(y) FROM t2 WHERE t2.k = t1.g)::numeric(20,6) AS mean FROM t1;

-- name: scalar_correlated_in_where_and_select
SELECT id, (SELECT count(*) FROM t3 WHERE t3.a = t1.g) AS n FROM t1 WHERE (SELECT count(*) FROM t3 WHERE t3.c =
    t1.g) > 0;

-- name: scalar_correlated_coalesced_count_join
SELECT t1.id, t2.y, (SELECT count(*) FROM t4 WHERE t4.k = t2.k) AS n FROM t1 JOIN t2 ON t1.id = t2.id;

-- name: mark_in_and_scalar
SELECT id, g IN (SELECT a FROM t3) AS known, (SELECT max(c) FROM t3) AS hi FROM t1 WHERE id > 2;

-- name: mark_exists_or_is_null
SELECT id, g FROM t1 WHERE g IS NULL OR EXISTS (SELECT 1 FROM t3 WHERE t3.a = t1.g AND t3.c > 2);

-- name: mark_not_exists_and_in_or
SELECT id FROM t1 WHERE (NOT EXISTS (SELECT 1 FROM t4 WHERE t4.k = t1.x)) OR (x IN (SELECT a FROM t3 WHERE a IS NOT
    NULL) AND b);

-- name: semi_in_of_left_join
SELECT id FROM t1 WHERE g IN (SELECT t3.c FROM t4 LEFT JOIN t3 ON t3.a = t4.k);

-- name: anti_not_in_of_left_join
SELECT id, g FROM t1 WHERE g NOT IN (SELECT t3.c FROM t4 LEFT JOIN t3 ON t3.a = t4.k);

-- name: anti_not_in_duplicates
SELECT g, x FROM t1 WHERE g NOT IN (SELECT a FROM t3 WHERE a > 2);

-- name: anti_not_in_date
SELECT id, d FROM t2 WHERE d NOT IN (SELECT ts::date FROM t4 WHERE ts IS NOT NULL);

-- name: anti_not_in_of_group
SELECT g, count(*) AS n FROM t1 WHERE g NOT IN (SELECT c FROM t3 WHERE a < 3) GROUP BY g;

-- name: anti_left_rows_duplicated
SELECT p.a, p.c FROM t3 p WHERE NOT EXISTS (SELECT 1 FROM t3 q WHERE q.a = p.c AND q.c > p.a);

-- name: semi_left_rows_duplicated
SELECT p.a, p.c FROM t3 p WHERE EXISTS (SELECT 1 FROM t3 q WHERE q.a = p.c AND q.c > p.a);

-- name: all_less_than_group_max
SELECT id, x FROM t1 WHERE x < ALL (SELECT max(y) FROM t2 GROUP BY k HAVING max(y) IS NOT NULL);

-- name: any_of_union
SELECT id, x FROM t1 WHERE x = ANY (SELECT a FROM t3 UNION ALL SELECT k FROM t4);

-- name: cte_join_group_limit
WITH j AS (SELECT t1.g, t2.y FROM t1 JOIN t2 ON t1.id = t2.id), a AS (SELECT g, sum(y) AS total FROM j GROUP BY g),
    l AS (SELECT g, total FROM a ORDER BY total DESC NULLS LAST, g LIMIT 2) SELECT l.g, l.total, j.y FROM l JOIN j
    ON j.g = l.g;

-- name: cte_anti_join_of_itself
WITH q AS (SELECT a, c, count(*) AS n FROM t3 GROUP BY a, c) SELECT p.a, p.c, p.n FROM q p WHERE NOT EXISTS (SELECT
    1 FROM q r WHERE r.a = p.c AND r.n >= p.n);

-- name: cte_four_uses
WITH q AS (SELECT g, max(x) AS hi FROM t1 WHERE x IS NOT NULL GROUP BY g) SELECT 'max' AS what, max(hi) AS v FROM q
    UNION ALL SELECT 'min', min(hi) FROM q UNION ALL SELECT 'groups', count(*)::int4 FROM q UNION ALL SELECT 'sum',
    sum(hi)::int4 FROM q;

-- name: values_in_semi_and_join
SELECT t1.id, l.w FROM t1 JOIN (VALUES (0, 10), (1, 20), (NULL, 30)) AS l(k, w) ON l.k IS NOT DISTINCT FROM t1.g
    WHERE t1.x IN (1, 2, 3, 4);

-- name: values_full_join
SELECT l.k, t4.k AS k4, t4.v FROM (VALUES (1), (3), (3), (12)) AS l(k) FULL JOIN t4 ON t4.k = l.k;

-- name: values_anti
SELECT l.k FROM (VALUES (0), (1), (2), (3), (4)) AS l(k) WHERE NOT EXISTS (SELECT 1 FROM t1 WHERE t1.g = l.k);

-- name: values_not_in_table
SELECT l.k FROM (VALUES (0), (1), (2), (NULL)) AS l(k) WHERE l.k NOT IN (SELECT g FROM t1);

-- name: values_except_table
SELECT l.k FROM (VALUES (0), (1), (2), (3)) AS l(k) EXCEPT SELECT a FROM t3;

-- name: constant_in_table
SELECT 'taken' AS state WHERE 3 IN (SELECT a FROM t3);

-- name: constant_scalar_compared
SELECT 'many' AS state WHERE (SELECT count(*) FROM t1) > 10;

-- name: nested_union_of_semi_and_anti
SELECT q.id, q.kind FROM (SELECT id, 'in' AS kind FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id) UNION
    ALL SELECT id, 'out' FROM t1 WHERE NOT EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id)) q;

-- name: nested_group_of_full_of_left
SELECT q.key, sum(q.n) AS n FROM (SELECT coalesce(l.g, r.k) AS key, coalesce(l.n, 0) + coalesce(r.n, 0) AS n FROM
    (SELECT t1.g, count(t2.id) AS n FROM t1 LEFT JOIN t2 ON t1.id = t2.id GROUP BY t1.g) l FULL JOIN (SELECT k,
    count(*) AS n FROM t4 GROUP BY k) r ON l.g = r.k) q GROUP BY q.key;

-- name: nested_avg_of_counts
SELECT avg(q.n)::numeric(20,6) AS mean, stddev_samp(q.n)::numeric(20,6) AS sd FROM (SELECT g, count(*) AS n FROM t1
    GROUP BY g) q;

-- name: mix_anti_join_of_limit
SELECT id, g FROM t1 WHERE NOT EXISTS (SELECT 1 FROM (SELECT a FROM t3 ORDER BY a, c LIMIT 3) q WHERE q.a = t1.g);

-- name: mix_friends_of_friends
SELECT DISTINCT p.a AS who, q.c AS suggestion FROM t3 p JOIN t3 q ON p.c = q.a WHERE p.a <> q.c AND NOT EXISTS
    (SELECT 1 FROM t3 r WHERE r.a = p.a AND r.c = q.c);

-- name: mix_edge_weights
SELECT t3.a, t3.c, coalesce(p.x, 0) + coalesce(q.x, 0) AS weight FROM t3 LEFT JOIN (SELECT g, max(x) AS x FROM t1
    GROUP BY g) p ON p.g = t3.a LEFT JOIN (SELECT g, min(x) AS x FROM t1 GROUP BY g) q ON q.g = t3.c;

-- name: mix_histogram
SELECT b.lo, count(t1.id) AS n FROM (VALUES (-2), (0), (2), (4), (6)) AS b(lo) LEFT JOIN t1 ON t1.x >= b.lo AND t1.x
    < b.lo + 2 GROUP BY b.lo;

-- name: mix_best_partner
SELECT t1.id, t2.id AS id2, t2.y FROM t1 JOIN t2 ON t1.g = t2.k WHERE t2.y = (SELECT max(i.y) FROM t2 i WHERE i.k =
    t1.g);

-- name: mix_three_level_semi
SELECT v, count(*) AS n FROM t4 WHERE k IN (SELECT a FROM t3 WHERE c IN (SELECT g FROM t1 WHERE id IN (SELECT id
    FROM t2))) GROUP BY v;

-- Correlated subqueries and rows from subqueries.

-- name: lateral_left_aggregate
SELECT t1.id, q.n FROM t1 LEFT JOIN LATERAL (SELECT count(*) AS n FROM t2 WHERE t2.id = t1.id) q ON true;

-- name: lateral_expression
SELECT t1.id, q.v FROM t1 CROSS JOIN LATERAL (SELECT t1.x * 2 AS v) q;

-- name: lateral_filter
SELECT t1.id, q.y FROM t1, LATERAL (SELECT y FROM t2 WHERE t2.id = t1.id) q;

-- name: correlated_scalar_limit
SELECT id, (SELECT y FROM t2 WHERE t2.id = t1.id ORDER BY y LIMIT 1) AS first FROM t1;

-- name: correlated_exists_aggregate
SELECT id FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id HAVING count(*) > 1);

-- name: correlated_all
SELECT id, x FROM t1 WHERE x >= ALL (SELECT y FROM t2 WHERE t2.id = t1.id);

-- name: correlated_any
SELECT id, x FROM t1 WHERE x < ANY (SELECT y FROM t2 WHERE t2.id = t1.id);

-- name: any_selected
SELECT id, x > ANY (SELECT a FROM t3) AS above_some FROM t1;

-- name: all_selected
SELECT id, x > ALL (SELECT a FROM t3) AS above_all FROM t1;

-- name: correlated_in_selected
SELECT id, x IN (SELECT y FROM t2 WHERE t2.id = t1.id) AS has FROM t1;

-- name: correlated_scalar_string_agg
SELECT id, (SELECT string_agg(v, ',' ORDER BY v) FROM t4 WHERE t4.k = t1.g) AS vs FROM t1;

-- name: bit_xor_aggregate
SELECT g, bit_xor(x) AS bx FROM t1 GROUP BY g;

-- name: array_subquery
SELECT id, ARRAY(SELECT y FROM t2 WHERE t2.id = t1.id ORDER BY y) AS ys FROM t1;

-- Correlation that does not become a join.

-- Window functions.

-- name: window_row_number
SELECT id, g, x, row_number() OVER (PARTITION BY g ORDER BY x, id, s, b) AS rn FROM t1;

-- name: window_rank
SELECT id, g, x, rank() OVER (PARTITION BY g ORDER BY x) AS r, dense_rank() OVER (PARTITION BY g ORDER BY x) AS dr
    FROM t1;

-- name: window_rank_global
SELECT id, x, rank() OVER (ORDER BY x DESC) AS r FROM t1;

-- name: window_percent_rank
SELECT id, x, percent_rank() OVER (ORDER BY x)::numeric(20,6) AS pr, cume_dist() OVER (ORDER BY x)::numeric(20,6) AS
    cd FROM t1;

-- name: window_sum_partition
SELECT id, g, sum(x) OVER (PARTITION BY g) AS total FROM t1;

-- name: window_sum_running
SELECT id, k, y, sum(y) OVER (PARTITION BY k ORDER BY id) AS running FROM t2;

-- name: window_count_partition
SELECT a, c, count(*) OVER (PARTITION BY a) AS n FROM t3;

-- name: window_count_global
SELECT id, count(*) OVER () AS n FROM t1;

-- name: window_min_max
SELECT id, g, min(x) OVER (PARTITION BY g) AS lo, max(x) OVER (PARTITION BY g) AS hi FROM t1;

-- name: window_avg
SELECT id, g, avg(x) OVER (PARTITION BY g)::numeric(20,6) AS mean FROM t1;

-- name: window_lag_lead
SELECT id, g, x, lag(x) OVER (PARTITION BY g ORDER BY id, x, s, b) AS prev, lead(x) OVER (PARTITION BY g ORDER BY
    id, x, s, b) AS next FROM t1;

-- name: window_lag_default
SELECT id, y, lag(y, 2, 0::int8) OVER (ORDER BY id, y, k, n, d) AS before FROM t2;

-- name: window_first_last_value
SELECT id, g, first_value(x) OVER (PARTITION BY g ORDER BY x, id) AS lo, last_value(x) OVER (PARTITION BY g ORDER BY
    x, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS hi FROM t1;

-- name: window_nth_value
SELECT id, g, nth_value(x, 2) OVER (PARTITION BY g ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED
    FOLLOWING) AS second FROM t1;

-- name: window_ntile
SELECT a, c, ntile(3) OVER (ORDER BY a, c) AS bucket FROM t3;

-- name: window_rows_frame
SELECT id, x, sum(x) OVER (ORDER BY id, x, g, s, b ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near FROM t1;

-- name: window_range_frame
SELECT id, x, count(*) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near FROM t1 WHERE x IS NOT
    NULL;

-- name: window_of_group
SELECT g, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS r FROM t1 GROUP BY g;

-- name: window_top_n_per_group
SELECT q.g, q.x FROM (SELECT g, x, row_number() OVER (PARTITION BY g ORDER BY x DESC NULLS LAST) AS rn FROM t1) q
    WHERE q.rn <= 2;

-- name: window_top_1_per_key
SELECT q.k, q.d, q.id FROM (SELECT k, d, id, row_number() OVER (PARTITION BY k ORDER BY d DESC, id) AS rn FROM t2) q
    WHERE q.rn = 1;

-- name: window_share
SELECT k, n, round(n * 100 / nullif(sum(n) OVER (PARTITION BY k), 0), 4)::numeric(20,4) AS share FROM t2;

-- name: window_of_join
SELECT t1.id, t2.y, rank() OVER (PARTITION BY t1.g ORDER BY t2.y DESC) AS r FROM t1 JOIN t2 ON t1.id = t2.id;

-- name: window_joined
SELECT q.id, q.r, t4.v FROM (SELECT id, g, rank() OVER (ORDER BY x) AS r FROM t1) q JOIN t4 ON t4.k = q.r;

-- name: window_aggregated
SELECT q.r, count(*) AS n FROM (SELECT dense_rank() OVER (ORDER BY x) AS r FROM t1) q GROUP BY q.r;

-- name: window_filter
SELECT id, g, count(*) FILTER (WHERE b) OVER (PARTITION BY g) AS bs FROM t1;

-- name: window_difference_to_previous
SELECT id, y - lag(y) OVER (ORDER BY id, y, k, n, d) AS step FROM t2;

-- name: window_gaps_and_islands
SELECT q.grp, min(q.a) AS first, max(q.a) AS last, count(*) AS n FROM (SELECT e.a, e.a - row_number() OVER (ORDER BY
    e.a) AS grp FROM (SELECT DISTINCT a FROM t3 WHERE a IS NOT NULL) e) q GROUP BY q.grp;

-- INTERSECT ALL, EXCEPT ALL, DISTINCT ON.

-- name: intersect_all
SELECT g FROM t1 INTERSECT ALL SELECT k FROM t2;

-- name: except_all
SELECT g FROM t1 EXCEPT ALL SELECT k FROM t2;

-- name: except_all_same_table
SELECT a FROM t3 EXCEPT ALL SELECT c FROM t3;

-- name: except_all_filtered
SELECT id, g FROM t1 EXCEPT ALL SELECT id, g FROM t1 WHERE b;

-- name: intersect_all_filtered
SELECT id, g FROM t1 INTERSECT ALL SELECT id, g FROM t1 WHERE x > 1;

-- name: distinct_on_one
SELECT DISTINCT ON (g) g, x, id FROM t1 ORDER BY g, x, id;

-- name: distinct_on_desc
SELECT DISTINCT ON (k) k, d, id FROM t2 ORDER BY k, d DESC NULLS LAST, id;

-- name: distinct_on_two
SELECT DISTINCT ON (g, s) g, s, x FROM t1 ORDER BY g, s, x DESC;

-- name: distinct_on_expression
SELECT DISTINCT ON (x % 2) x % 2 AS parity, x, id FROM t1 ORDER BY x % 2, x, id;

-- name: distinct_on_joined
SELECT q.g, q.x, t4.v FROM (SELECT DISTINCT ON (g) g, x FROM t1 ORDER BY g, x DESC NULLS LAST) q JOIN t4 ON t4.k =
    q.g;

-- name: distinct_on_of_join
SELECT DISTINCT ON (t1.g) t1.g, t2.y FROM t1 JOIN t2 ON t1.id = t2.id ORDER BY t1.g, t2.y;

-- name: window_named
SELECT id, sum(x) OVER w AS total, count(*) OVER w AS n FROM t1 WINDOW w AS (PARTITION BY g);

-- name: correlated_not_in
SELECT id, x FROM t1 WHERE x NOT IN (SELECT y FROM t2 WHERE t2.id = t1.id);

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

-- name: grouping_function
SELECT g, s, grouping(g) AS no_g, grouping(s) AS no_s, grouping(g, s) AS both, grouping(s, g) AS other, count(*) AS n
    FROM t1 GROUP BY ROLLUP (g, s);

-- name: grouping_function_plain
SELECT g, grouping(g) AS none, count(*) AS n FROM t1 GROUP BY g;

-- name: grouping_function_in_expression
SELECT CASE WHEN grouping(g) = 1 THEN 'all' ELSE coalesce(g::text, 'none') END AS label, sum(x) AS total FROM t1
    GROUP BY ROLLUP (g);

-- name: grouping_function_having
SELECT g, b, max(x) AS most FROM t1 GROUP BY CUBE (g, b) HAVING grouping(g, b) IN (1, 2);

-- name: grouping_function_aggregated
SELECT q.lost, count(*) AS n FROM (SELECT grouping(g, s, b) AS lost FROM t1 GROUP BY CUBE (g, s, b)) q GROUP BY q.lost;

-- name: grouping_sets_repeated
SELECT g, count(*) AS n FROM t1 GROUP BY GROUPING SETS ((g), (g), ());

-- name: grouping_sets_repeated_total
SELECT count(*) AS n, sum(x) AS total FROM t1 GROUP BY GROUPING SETS ((), ());

-- name: grouping_sets_total_only
SELECT count(*) AS n, max(s) AS s FROM t1 WHERE x > 15 GROUP BY GROUPING SETS (());

-- name: grouping_sets_nested
SELECT g, s, b, count(*) AS n FROM t1 GROUP BY GROUPING SETS ((g), ROLLUP (s, b), CUBE (g, b));

-- name: grouping_sets_beside_key
SELECT g, s, b, count(*) AS n FROM t1 GROUP BY g, ROLLUP (s, b);

-- name: grouping_sets_multiplied
SELECT g, s, b, count(*) AS n, grouping(g, s, b) AS lost FROM t1 GROUP BY GROUPING SETS ((g), (s)), CUBE (b, g);

-- name: rollup_composite
SELECT g, s, b, count(*) AS n FROM t1 GROUP BY ROLLUP ((g, s), b);

-- name: rollup_expression
SELECT x % 3 AS rest, g + 1 AS next, count(*) AS n FROM t1 GROUP BY ROLLUP (x % 3, g + 1);

-- name: rollup_position
SELECT g, s, min(x) AS least FROM t1 GROUP BY ROLLUP (1, 2);

-- name: rollup_aggregates_of_keys
SELECT g, count(g) AS n, sum(g) AS total, min(g) AS least FROM t1 GROUP BY ROLLUP (g);

-- name: rollup_floats
SELECT f, v, count(*) AS n, max(k) AS k FROM t4 GROUP BY ROLLUP (f, v);

-- name: rollup_numerics
SELECT n, d, count(*) AS c, sum(y) AS total FROM t2 GROUP BY CUBE (n, d);

-- name: rollup_distinct_aggregate
SELECT g, count(DISTINCT x) AS xs, count(DISTINCT s) AS ss, count(*) AS n FROM t1 GROUP BY ROLLUP (g);

-- name: rollup_single_distinct
SELECT g, count(DISTINCT x) AS xs FROM t1 GROUP BY ROLLUP (g);

-- name: rollup_filter_clause
SELECT g, count(*) FILTER (WHERE b) AS bs, max(x) FILTER (WHERE NOT b) AS most FROM t1 GROUP BY ROLLUP (g);

-- name: rollup_ordered_aggregate
SELECT g, array_agg(x ORDER BY x, id) AS xs, string_agg(s, '-' ORDER BY s) AS ss FROM t1 GROUP BY ROLLUP (g);

-- name: rollup_of_nothing
SELECT g, count(*) AS n FROM t1 WHERE g > 100 GROUP BY ROLLUP (g);

-- name: rollup_joined
SELECT q.g, q.n, t4.v FROM (SELECT g, count(*) AS n FROM t1 GROUP BY ROLLUP (g)) q JOIN t4 ON t4.k = q.g;

-- name: rollup_windowed
SELECT g, count(*) AS n, rank() OVER (PARTITION BY grouping(g) ORDER BY count(*) DESC) AS r FROM t1 GROUP BY ROLLUP (g);

-- name: rollup_distinct
SELECT DISTINCT g, grouping(g) AS lost FROM t1 GROUP BY ROLLUP (g, s);

-- name: rollup_of_negative_intermediates
SELECT q.g, count(*) AS n FROM (SELECT g, x FROM t1 EXCEPT ALL SELECT k, id FROM t2) q GROUP BY ROLLUP (q.g);

-- name: rollup_of_error_rows
SELECT g, sum(10 / x) AS total FROM t1 WHERE x IS NOT NULL GROUP BY ROLLUP (g);

-- name: cube_three
SELECT g, s, b, count(*) AS n, avg(x)::numeric(20,6) AS mean FROM t1 GROUP BY CUBE (g, s, b);

-- name: cube_empty
SELECT count(*) AS n FROM t3 GROUP BY CUBE (a), ();

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

-- name: unnest_two_lists
SELECT t1.id, u.a, u.b FROM t1, unnest(ARRAY[t1.g, t1.x], ARRAY['p', 'q', t1.s]) AS u(a, b);

-- name: unnest_ordinality
SELECT t1.id, u.v, u.n FROM t1, unnest(ARRAY[t1.g, t1.x, t1.g]) WITH ORDINALITY AS u(v, n);

-- name: unnest_duplicates
SELECT unnest(ARRAY[1, 1, NULL, NULL]) AS v FROM t3;

-- name: unnest_null_list
SELECT id, unnest(CASE WHEN g > 2 THEN ARRAY[g, x] WHEN g = 1 THEN ARRAY[]::int[] END) AS v FROM t1;

-- name: unnest_two_selected
SELECT id, unnest(ARRAY[g, x]) AS v, unnest(ARRAY['a', 'b', s]) AS w FROM t1;

-- name: unnest_filtered
SELECT q.id, q.v FROM (SELECT id, unnest(ARRAY[g, x]) AS v FROM t1) q WHERE q.v > 2 AND q.id < 6;

-- name: unnest_grouped
SELECT q.v, count(*) AS n, min(q.id) AS first FROM (SELECT id, unnest(ARRAY[g, x, g]) AS v FROM t1) q GROUP BY q.v;

-- name: unnest_distinct
SELECT DISTINCT unnest(ARRAY[a, c]) AS node FROM t3;

-- name: unnest_joined
SELECT t1.id, t2.y FROM t1 CROSS JOIN unnest(ARRAY[t1.g, t1.x]) AS u(v) JOIN t2 ON t2.k = u.v;

-- name: unnest_left_of_join
SELECT u.v, t4.v AS name FROM unnest(ARRAY[0, 1, 2, 9]) AS u(v) LEFT JOIN t4 ON t4.k = u.v;

-- name: unnest_in_subquery
SELECT id FROM t1 WHERE g IN (SELECT unnest(ARRAY[k, 1]) FROM t2);

-- name: unnest_exists
SELECT t4.k FROM t4 WHERE EXISTS (SELECT 1 FROM unnest(ARRAY[1, 3, 5]) AS u(v) WHERE u.v = t4.k);

-- name: unnest_aggregate_of_aggregate
SELECT q.v, count(*) AS n FROM (SELECT unnest(array_agg(x)) AS v FROM t1 GROUP BY g) q GROUP BY q.v;

-- name: unnest_of_limit
SELECT q.id, unnest(ARRAY[q.id, q.x]) AS v FROM (SELECT id, x FROM t1 ORDER BY x, id, g LIMIT 3) q;

-- name: unnest_limited
SELECT id, unnest(ARRAY[g, x]) AS v FROM t1 ORDER BY 2, 1 LIMIT 4;

-- name: unnest_union
SELECT unnest(ARRAY[a, c]) AS v FROM t3 UNION ALL SELECT g FROM t1;

-- name: unnest_except_all
SELECT unnest(ARRAY[a, c]) AS v FROM t3 EXCEPT ALL SELECT g FROM t1;

-- name: unnest_texts
SELECT id, unnest(ARRAY[s, s || 'x', '']) AS v FROM t1;

-- name: unnest_numerics
SELECT q.id, q.v::numeric(20,2) AS v FROM (SELECT id, unnest(ARRAY[n, n * 2]) AS v FROM t2) q;

-- name: unnest_twice
SELECT t3.a, u.v, w.v AS w FROM t3, unnest(ARRAY[1, 2]) AS u(v), unnest(ARRAY[t3.a, u.v]) AS w(v);

-- name: unnest_windowed
SELECT q.v, row_number() OVER (ORDER BY q.v, q.id) AS n FROM (SELECT id, unnest(ARRAY[g, x]) AS v FROM t1) q;

-- name: generate_series_down
SELECT t4.k, n.i FROM t4, generate_series(t4.k, 0, -2) AS n(i);

-- name: generate_series_null
SELECT t1.id, n.i FROM t1, generate_series(1, t1.g) AS n(i);

-- name: generate_series_bigint
SELECT t2.id, i FROM t2, generate_series(1::int8, t2.y, 7) AS i;

-- name: generate_series_ordinality
SELECT t4.k, n.i, n.o FROM t4, generate_series(10, 10 + t4.k) WITH ORDINALITY AS n(i, o);

-- name: generate_series_error_rows
SELECT t1.id, n.i FROM t1, generate_series(1, 3, t1.g) AS n(i) WHERE t1.g IS NOT NULL;

-- name: generate_series_histogram
SELECT n.i * 5 AS low, count(t1.x) AS c FROM generate_series(0, 4) AS n(i) LEFT JOIN t1 ON t1.x >= n.i * 5 AND t1.x <
    n.i * 5 + 5 GROUP BY n.i;

-- name: generate_series_days_without
SELECT s.day::date AS day FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-03-01', INTERVAL '1 day') AS
    s(day) WHERE s.day::date NOT IN (SELECT d FROM t2 WHERE d IS NOT NULL);

-- name: generate_series_timestamps_per_row
SELECT t4.k, s.t FROM t4, generate_series(t4.ts, t4.ts + INTERVAL '3 days', INTERVAL '1 day') AS s(t);

-- name: generate_series_full_join
SELECT n.i, t3.a FROM generate_series(2, 8) AS n(i) FULL JOIN t3 ON t3.a = n.i;

-- name: generate_series_cross
SELECT x.i, y.i AS j FROM generate_series(1, 3) AS x(i), generate_series(1, x.i) AS y(i);

-- name: generate_subscripts
SELECT q.g, generate_subscripts(q.xs, 1) AS at FROM (SELECT g, array_agg(x) AS xs FROM t1 GROUP BY g) q;

-- name: string_to_table_function
SELECT t4.k, p.part FROM t4, string_to_table(t4.v || ',' || t4.v, ',') AS p(part);

-- name: regexp_split_to_table
SELECT id, regexp_split_to_table('1' || s || '2', 'b') AS part FROM t1;

-- name: regexp_matches
SELECT id, (regexp_matches(s || 'ab', '(a)(b)', 'g'))[2] AS part FROM t1;

-- name: json_array_elements
SELECT t1.id, e.v FROM t1, jsonb_array_elements(jsonb_build_array(t1.g, t1.s, NULL)) AS e(v);

-- name: json_array_elements_text
SELECT id, jsonb_array_elements_text(jsonb_build_array(g, s)) AS v FROM t1;

-- name: json_object_keys
SELECT k, jsonb_object_keys(jsonb_build_object('k', k, 'v', v)) AS key FROM t4;

-- Aggregates of every kind together: totals, least and greatest values, the rest.

-- name: kinds_all
SELECT g, count(*) AS n, sum(x) AS total, min(x) AS least, max(s) AS last, array_agg(x ORDER BY x) AS xs, bool_and(b)
    AS every, avg(x)::numeric(20,6) AS mean FROM t1 GROUP BY g;

-- name: kinds_all_global
SELECT max(x) AS most, string_agg(s, ',' ORDER BY s) AS ss, count(x) AS n, min(s) AS first, bool_or(b) AS some FROM t1
    WHERE x > 8;

-- name: kinds_order_of_columns
SELECT k, max(y) AS a, count(*) AS b, min(n) AS c, sum(y) AS d, array_agg(y ORDER BY y) AS e, min(d) AS f, max(d) AS g
    FROM t2 GROUP BY k;

-- name: kinds_filtered
SELECT g, min(x) FILTER (WHERE b) AS a, max(x) FILTER (WHERE NOT b) AS c, count(*) FILTER (WHERE s = 'a') AS n,
    sum(x) FILTER (WHERE x > 10) AS total, bool_and(b) FILTER (WHERE x < 5) AS every FROM t1 GROUP BY g;

-- name: kinds_filtered_global
SELECT min(x) FILTER (WHERE x > 100) AS none, max(y) AS most, count(*) AS n FROM t1, t2 WHERE t1.id = t2.id;

-- name: kinds_distinct
SELECT g, count(DISTINCT x) AS xs, count(DISTINCT s) AS ss, sum(DISTINCT x) AS total, count(*) AS n, min(DISTINCT x) AS
    least FROM t1 GROUP BY g;

-- name: kinds_distinct_filtered
SELECT g, count(DISTINCT x) FILTER (WHERE b) AS xs, sum(DISTINCT x) FILTER (WHERE NOT b) AS total, count(x) AS n FROM
    t1 GROUP BY g;

-- name: kinds_distinct_global
SELECT count(DISTINCT n) AS ns, sum(DISTINCT n)::numeric(20,2) AS total, avg(DISTINCT y)::numeric(20,6) AS mean,
    bool_or(DISTINCT y > 20) AS some, count(DISTINCT d) AS ds FROM t2;

-- name: kinds_distinct_floats
SELECT k, count(DISTINCT f) AS fs, count(DISTINCT f * f) AS squares, count(*) AS n FROM t4 GROUP BY k;

-- name: kinds_distinct_bool
SELECT g, bool_and(DISTINCT b) AS every, count(DISTINCT b) AS bs, string_agg(DISTINCT s, '') AS ss FROM t1 GROUP BY g;

-- name: extremes_of_all_types
SELECT min(t4.f) AS f0, max(t4.f) AS f1, min(t4.ts) AS t0, max(t4.ts) AS t1, min(t4.v) AS v0, max(t4.v) AS v1, min(t2.n)
    AS n0, max(t2.n) AS n1, min(t2.d) AS d0, max(t2.d) AS d1, min(t2.y) AS y0, max(t2.y) AS y1 FROM t4, t2;

-- name: extremes_of_long_texts
SELECT g, min(s || repeat('x', x)) AS a, max(s || repeat('x', x)) AS b, max(repeat('y', x * 3)) AS c FROM t1 GROUP BY
    g;

-- name: extremes_of_numerics
SELECT k, min(y * 1.5) AS a, max(y / 7.0)::numeric(20,6) AS b, min(-n) AS c FROM t2 GROUP BY k;

-- name: extremes_of_nulls
SELECT g, min(CASE WHEN x > 15 THEN x END) AS a, max(NULL::int) AS b FROM t1 GROUP BY g;

-- name: extremes_nested
SELECT max(q.least) AS most, min(q.most) AS least FROM (SELECT g, min(x) AS least, max(x) AS most FROM t1 GROUP BY g) q;

-- name: extremes_of_expressions_of_keys
SELECT g % 2 AS parity, min(x + g) AS a, max(x * g) AS b FROM t1 GROUP BY g % 2;

-- name: extremes_having
SELECT g, max(x) - min(x) AS spread FROM t1 GROUP BY g HAVING max(x) > 2 * min(x);

-- name: extremes_join_back
SELECT t1.id, t1.x FROM t1 JOIN (SELECT g, max(x) AS most FROM t1 GROUP BY g) q ON q.g = t1.g AND q.most = t1.x;

-- name: extremes_of_negative_intermediates
SELECT min(q.v) AS a, max(q.v) AS b, count(*) AS n FROM (SELECT x AS v FROM t1 EXCEPT ALL SELECT y::int FROM t2) q;

-- name: extremes_error_rows
SELECT g, min(10 / x) AS a, count(*) AS n FROM t1 WHERE x IS NOT NULL GROUP BY g;

-- name: extremes_filter_guards_errors
SELECT g, max(CASE WHEN x <> 0 THEN 100 / x END) AS a, sum(x) AS total FROM t1 GROUP BY g;

-- name: sums_of_wide_numerics
SELECT k, sum(n * 1000000000000.000001) AS a, sum(y::numeric) AS b, avg(n * y)::numeric(30,6) AS c FROM t2 GROUP BY k;

-- name: sums_of_numerics_distinct
SELECT sum(DISTINCT n * 3.25)::numeric(30,6) AS a, count(DISTINCT n * 3.25) AS b FROM t2;

-- name: sums_overflow
SELECT sum(2147483647::int8 * 2147483647 * x) AS total FROM t1;

-- name: sums_overflow_bigint
SELECT g, sum(CASE WHEN x > 18 THEN 2147483647 ELSE x END) AS total FROM t1 GROUP BY g;

-- name: bools_of_comparisons
SELECT g, bool_and(x > 2) AS a, bool_or(x > 18) AS c, every(s <> 'a') AS d FROM t1 GROUP BY g;

-- name: bools_global_empty
SELECT bool_and(b) AS a, bool_or(b) AS c FROM t1 WHERE x > 1000;

-- name: bits_mixed
SELECT g, bit_and(x) AS a, bit_or(x) AS b, bit_xor(x) AS c, count(*) AS n, max(x) AS m FROM t1 GROUP BY g;

-- name: spreads_mixed
SELECT k, round(stddev(y), 6) AS a, round(var_pop(y), 6) AS b, min(y) AS c, sum(y) AS d FROM t2 GROUP BY k;

-- name: floats_mixed
SELECT k, sum(f)::numeric(30,6) AS a, avg(f)::numeric(30,6) AS b, max(f) AS c, count(f) AS d FROM t4 GROUP BY k;

-- name: existence_of_many
SELECT id FROM t1 WHERE EXISTS (SELECT 1 FROM t2) AND g IN (SELECT k FROM t4);

-- name: limit_offset_changes
SELECT x, id FROM t1 ORDER BY x, id, s, g, b LIMIT 3 OFFSET 2;

-- name: limit_one_of_many
SELECT y, id FROM t2 ORDER BY y DESC NULLS LAST, id, k, n, d LIMIT 1;

-- JSON from groups.

-- name: json_agg_ordered
SELECT g, json_agg(x ORDER BY x, s)::text AS xs, jsonb_agg(s ORDER BY s DESC NULLS LAST) AS ss FROM t1 GROUP BY g;

-- name: json_agg_global
SELECT json_agg(x ORDER BY x)::text AS xs, count(*) AS n FROM t1 WHERE x > 17;

-- name: json_agg_filtered
SELECT g, (json_agg(x ORDER BY x) FILTER (WHERE b))::text AS xs FROM t1 GROUP BY g;

-- name: json_agg_distinct
SELECT g, jsonb_agg(DISTINCT x) AS xs, json_agg(DISTINCT s ORDER BY s)::text AS ss FROM t1 GROUP BY g;

-- name: json_agg_of_objects
SELECT k, jsonb_agg(jsonb_build_object('id', id, 'y', y) ORDER BY id, y) AS rows FROM t2 GROUP BY k;

-- name: json_agg_numerics
SELECT k, json_agg(n ORDER BY n, id)::text AS ns, json_agg(d ORDER BY d)::text AS ds FROM t2 GROUP BY k;

-- name: json_agg_of_arrays
SELECT a, json_agg(ARRAY[a, c] ORDER BY c)::text AS edges FROM t3 GROUP BY a;

-- name: json_object_agg_ordered
SELECT g, json_object_agg(coalesce(s, '-') || coalesce(x, 0), x ORDER BY x, s, id, b)::text AS o FROM t1 WHERE x IS NOT NULL
    GROUP BY g;

-- name: jsonb_object_agg_last_wins
SELECT g, jsonb_object_agg(s, x ORDER BY x, id) FILTER (WHERE s IS NOT NULL) AS o FROM t1 GROUP BY g;

-- name: json_object_agg_null_keys
SELECT g, json_object_agg(s, x ORDER BY s, x)::text AS o FROM t1 WHERE g = 2 GROUP BY g;

-- name: json_agg_element
SELECT g, (jsonb_agg(x ORDER BY x) -> 0)::text AS least FROM t1 GROUP BY g;

-- name: json_agg_nested
SELECT jsonb_agg(q.xs ORDER BY q.g) AS all_of_them FROM (SELECT g, jsonb_agg(x ORDER BY x) AS xs FROM t1 GROUP BY g) q;

-- name: json_agg_rollup
SELECT g, s, jsonb_agg(x ORDER BY x) AS xs FROM t1 GROUP BY ROLLUP (g, s);

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

-- name: recursive_paths_counted
WITH RECURSIVE p(a, c) AS (SELECT a, c FROM t3 WHERE a < c UNION ALL SELECT p.a, t3.c FROM p JOIN t3 ON p.c = t3.a
    WHERE t3.a < t3.c) SELECT a, c, count(*) AS n FROM p GROUP BY a, c;

-- name: recursive_paths_all
WITH RECURSIVE p(a, c) AS (SELECT a, c FROM t3 WHERE a < c UNION ALL SELECT p.a, t3.c FROM p JOIN t3 ON p.c = t3.a
    WHERE t3.a < t3.c) SELECT a, c FROM p;

-- name: recursive_path_texts
WITH RECURSIVE p(n, path) AS (SELECT 0, '0' UNION ALL SELECT t3.c, p.path || '>' || t3.c FROM p JOIN t3 ON t3.a = p.n
    WHERE t3.c > p.n) SELECT n, path FROM p;

-- name: recursive_depth_union_all
WITH RECURSIVE p(n, depth) AS (SELECT DISTINCT a, 0 FROM t3 UNION ALL SELECT t3.c, p.depth + 1 FROM p JOIN t3 ON t3.a
    = p.n WHERE p.depth < 2) SELECT n, depth, count(*) AS c FROM p GROUP BY n, depth;

-- name: recursive_two
WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n), s(n) AS (SELECT n + 1 FROM r UNION
    SELECT s.n + 2 FROM s WHERE s.n < 8) SELECT r.n, s.n AS m FROM r JOIN s ON r.n = s.n;

-- name: recursive_beside_plain
WITH RECURSIVE e AS (SELECT DISTINCT a, c FROM t3 WHERE a IS NOT NULL), r(n) AS (SELECT 2 UNION SELECT e.c FROM r JOIN
    e ON e.a = r.n) SELECT n FROM r;

-- name: recursive_fibonacci
WITH RECURSIVE f(i, x, y) AS (SELECT 1, 0::int8, 1::int8 UNION ALL SELECT i + 1, y, x + y FROM f WHERE i < 40) SELECT
    i, x FROM f;

-- name: recursive_from_table
WITH RECURSIVE n(id, i) AS (SELECT id, g FROM t1 UNION ALL SELECT id, i - 1 FROM n WHERE i > 0) SELECT id, i FROM n;

-- name: recursive_empty_base
WITH RECURSIVE r(a, c) AS (SELECT a, c FROM t3 WHERE a > 100 UNION SELECT r.a, t3.c FROM r JOIN t3 ON r.c = t3.a)
    SELECT a, c FROM r;

-- name: recursive_left_join
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r LEFT JOIN t3 ON t3.a = r.n) SELECT n FROM r;

-- name: recursive_two_joins
WITH RECURSIVE r(a, c) AS (SELECT a, c FROM t3 WHERE a = c UNION SELECT x.a, y.a FROM r JOIN t3 x ON x.c = r.a JOIN t3
    y ON y.c = r.c) SELECT a, c FROM r;

-- name: recursive_exists_in_step
WITH RECURSIVE r(n) AS (SELECT a FROM t3 WHERE a < 2 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n WHERE EXISTS
    (SELECT 1 FROM t4 WHERE t4.k = t3.c)) SELECT n FROM r;

-- name: recursive_not_exists_in_step
WITH RECURSIVE r(n) AS (SELECT a FROM t3 WHERE a < 2 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n WHERE NOT EXISTS
    (SELECT 1 FROM t4 WHERE t4.k = t3.c)) SELECT n FROM r;

-- name: recursive_in_step
WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT t3.c FROM r, t3 WHERE t3.a = r.n AND t3.c IN (SELECT g FROM t1)) SELECT n
    FROM r;

-- name: recursive_aggregate_in_step
WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT q.most FROM r JOIN (SELECT a, max(c) AS most FROM t3 GROUP BY a) q ON q.a
    = r.n) SELECT n FROM r;

-- name: recursive_cross
WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT (r.n + t4.k) % 7 FROM r, t4) SELECT n FROM r;

-- name: recursive_values
WITH RECURSIVE r(n, s) AS (VALUES (1, 'x'), (5, 'y') UNION ALL SELECT n + 1, s || s FROM r WHERE n < 7) SELECT n, s
    FROM r;

-- name: recursive_in_subquery
SELECT id, g FROM t1 WHERE g IN (WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n)
    SELECT n FROM r);

-- name: recursive_scalar_subquery
SELECT k, (WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n) SELECT count(*) FROM r) AS
    reach FROM t4;

-- name: recursive_joined_twice
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n) SELECT x.n, y.n AS m FROM r x JOIN r y
    ON x.n < y.n;

-- name: recursive_grouped
WITH RECURSIVE r(a, c) AS (SELECT a, c FROM t3 UNION SELECT r.a, t3.c FROM r JOIN t3 ON r.c = t3.a) SELECT a, min(c) AS
    least, max(c) AS most, count(*) AS n, array_agg(c ORDER BY c) AS cs FROM r GROUP BY a;

-- name: recursive_limited
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i * 2 FROM n WHERE i < 1000) SELECT i FROM n ORDER BY i DESC LIMIT 4;

-- name: recursive_anti_joined
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n) SELECT DISTINCT a FROM t3 WHERE NOT
    EXISTS (SELECT 1 FROM r WHERE r.n = t3.a);

-- name: recursive_unioned
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n) SELECT n FROM r UNION ALL SELECT n FROM
    r UNION ALL SELECT g FROM t1;

-- name: recursive_numerics
WITH RECURSIVE r(n, v) AS (SELECT 1, 1.5::numeric(20,4) UNION ALL SELECT n + 1, (v * 1.1)::numeric(20,4) FROM r WHERE n
    < 9) SELECT n, v FROM r;

-- name: recursive_nulls
WITH RECURSIVE r(n) AS (SELECT NULL::int UNION SELECT t3.c FROM r JOIN t3 ON t3.a IS NOT DISTINCT FROM r.n) SELECT n
    FROM r;

-- name: recursive_duplicates
WITH RECURSIVE r(n) AS (SELECT a FROM t3 WHERE a < 3 UNION ALL SELECT n + 2 FROM r WHERE n < 4) SELECT n FROM r;

-- name: recursive_union_in_base
WITH RECURSIVE r(n) AS ((SELECT a FROM t3 UNION ALL SELECT c FROM t3) UNION SELECT n + 3 FROM r WHERE n < 6) SELECT n
    FROM r;

-- name: recursive_error_rows
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n WHERE 10 / (t3.c - 4) IS NOT NULL)
    SELECT n FROM r;

-- name: recursive_error_ends_it
WITH RECURSIVE r(n) AS (SELECT 2000000000 UNION ALL SELECT n + 100000000 FROM r) SELECT n FROM r;

-- name: recursive_of_negative_intermediates
WITH RECURSIVE r(n) AS ((SELECT a FROM t3 EXCEPT ALL SELECT g FROM t1) UNION ALL SELECT n + 2 FROM r WHERE n < 5) SELECT
    n FROM r;

-- name: recursive_nested
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n), q(n, m) AS (SELECT n, n FROM r UNION
    SELECT q.n, q.m + 1 FROM q JOIN r ON r.n = q.m) SELECT n, m FROM q;

-- WITH MUTUALLY RECURSIVE, which PostgreSQL does not have: it is asked for the same in other words, where it has them.

-- name: mutual_reach
-- postgres: WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n) SELECT n FROM r
WITH MUTUALLY RECURSIVE r(n int) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n) SELECT n FROM r;

-- name: mutual_closure_by_squares
-- postgres: WITH RECURSIVE r(a, c) AS (SELECT a, c FROM t3 UNION SELECT r.a, t3.c FROM r JOIN t3 ON r.c = t3.a) SELECT a,
-- postgres: c FROM r
WITH MUTUALLY RECURSIVE r(a int, c int) AS (SELECT a, c FROM t3 UNION SELECT x.a, y.c FROM r x JOIN r y ON x.c = y.a)
    SELECT a, c FROM r;

-- name: mutual_shortest_paths
-- postgres: WITH RECURSIVE r(n, d) AS (SELECT 0, 0 UNION SELECT t3.c, r.d + 1 FROM r JOIN t3 ON t3.a = r.n WHERE r.d < 9)
-- postgres: SELECT n, min(d) FROM r GROUP BY n
WITH MUTUALLY RECURSIVE d(n int, d int) AS (SELECT q.n, min(q.d) FROM (SELECT 0 AS n, 0 AS d UNION ALL SELECT t3.c, d.d
    + 1 FROM d JOIN t3 ON t3.a = d.n) q GROUP BY q.n) SELECT n, d FROM d;

-- name: mutual_components
-- postgres: WITH RECURSIVE e(a, c) AS (SELECT a, c FROM t3 WHERE a IS NOT NULL AND c IS NOT NULL UNION SELECT c, a FROM t3
-- postgres: WHERE a IS NOT NULL AND c IS NOT NULL), r(a, c) AS (SELECT a, a FROM e UNION SELECT r.a, e.c FROM r JOIN e ON
-- postgres: e.a = r.c) SELECT a, min(c) FROM r GROUP BY a
WITH MUTUALLY RECURSIVE e(a int, c int) AS (SELECT a, c FROM t3 WHERE a IS NOT NULL AND c IS NOT NULL UNION SELECT c, a
    FROM t3 WHERE a IS NOT NULL AND c IS NOT NULL), l(n int, label int) AS (SELECT q.n, min(q.label) FROM (SELECT a AS n,
    a AS label FROM e UNION ALL SELECT e.c, l.label FROM l JOIN e ON e.a = l.n) q GROUP BY q.n) SELECT n, label FROM l;

-- name: mutual_even_odd
-- postgres: WITH RECURSIVE r(n, p) AS (SELECT 0, 0 UNION SELECT t3.c, 1 - r.p FROM r JOIN t3 ON t3.a = r.n) SELECT r.n,
-- postgres: s.n FROM r JOIN r s ON s.n = r.n WHERE r.p = 0 AND s.p = 1
WITH MUTUALLY RECURSIVE even(n int) AS (SELECT 0 UNION SELECT t3.c FROM odd JOIN t3 ON t3.a = odd.n), odd(n int) AS
    (SELECT t3.c FROM even JOIN t3 ON t3.a = even.n UNION SELECT n FROM odd) SELECT even.n, odd.n AS m FROM even JOIN odd
    ON even.n = odd.n;

-- name: mutual_return_at_limit
-- postgres: SELECT i FROM generate_series(1, 12) AS s(i)
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 12) n(i int) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i
    FROM n;

-- name: mutual_return_before_limit
-- postgres: SELECT i FROM generate_series(1, 5) AS s(i)
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 100) n(i int) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5)
    SELECT i FROM n;

-- name: mutual_error_at_limit
-- postgres: none
WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 12) n(i int) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM
    n;

-- name: mutual_error_at_limit_sometimes
-- postgres: none
WITH MUTUALLY RECURSIVE (RECURSION LIMIT 4) r(n int, d int) AS (SELECT 0, 0 UNION SELECT t3.c, r.d + 1 FROM r JOIN t3 ON
    t3.a = r.n) SELECT n, d FROM r;

-- name: mutual_limit_reached_exactly
-- postgres: SELECT i FROM generate_series(1, 5) AS s(i)
WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 6) n(i int) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5)
    SELECT i FROM n;

-- name: mutual_limit_one_too_few
-- postgres: none
WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 5) n(i int) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5)
    SELECT i FROM n;

-- name: mutual_alternates
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 7) wins(n int) AS (SELECT DISTINCT a FROM t3 WHERE c NOT IN (SELECT n
    FROM wins WHERE n IS NOT NULL)) SELECT n FROM wins;

-- name: mutual_order_of_queries
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 5) x(n int) AS (SELECT n + 1 FROM z UNION ALL SELECT 0), y(n int) AS
    (SELECT n * 2 FROM x), z(n int) AS (SELECT max(n) FROM y) SELECT 'x' AS q, n FROM x UNION ALL SELECT 'y', n FROM y UNION
    ALL SELECT 'z', n FROM z;

-- name: mutual_not_recursive
-- postgres: SELECT g, count(*) AS n FROM t1 GROUP BY g
WITH MUTUALLY RECURSIVE q(g int, n bigint) AS (SELECT g, count(*) FROM t1 GROUP BY g) SELECT g, n FROM q;

-- name: mutual_types_converted
-- postgres: SELECT x::int8 AS x, (x / 2.0)::numeric(10,1) AS y, s::varchar(1) AS s FROM t1
WITH MUTUALLY RECURSIVE q(x bigint, y numeric(10,1), s varchar(1)) AS (SELECT x, x / 2.0, left(s, 1) FROM t1) SELECT x, y,
    s FROM q;

-- name: mutual_top_k
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 6) r(n int, d int) AS (SELECT q.n, q.d FROM (SELECT 0 AS n, 0 AS d
    UNION SELECT t3.c, r.d + 1 FROM r JOIN t3 ON t3.a = r.n) q ORDER BY q.d DESC, q.n LIMIT 4) SELECT n, d FROM r;

-- name: mutual_window
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 4) r(n int, i bigint) AS (SELECT q.n, row_number() OVER (ORDER BY q.n,
    q.d) FROM (SELECT a AS n, 0 AS d FROM t3 UNION SELECT t3.c, r.i::int FROM r JOIN t3 ON t3.a = r.n WHERE r.i < 4) q)
    SELECT n, i FROM r;

-- name: mutual_outer_and_anti_joins
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 5) r(n int, m int) AS (SELECT t3.a, s.n FROM t3 LEFT JOIN s ON s.n =
    t3.c), s(n int) AS (SELECT c FROM t3 WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.m = t3.c)) SELECT r.n, r.m, s.n AS o
    FROM r FULL JOIN s ON s.n = r.m;

-- name: mutual_extremes_and_totals
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 4) r(n int, lo int, hi int, c bigint, d bigint, xs text) AS (SELECT
    t3.a, min(t3.c), max(coalesce(r.hi, t3.c)), count(*), count(DISTINCT r.c), string_agg(t3.c::text, ',' ORDER BY t3.c)
    FROM t3 LEFT JOIN r ON r.n = t3.c GROUP BY t3.a) SELECT n, lo, hi, c, d, xs FROM r;

-- name: mutual_sets
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 5) r(n int) AS (SELECT a FROM t3 EXCEPT ALL SELECT n FROM s), s(n int)
    AS (SELECT c FROM t3 INTERSECT SELECT n FROM r) SELECT 'r' AS q, n FROM r UNION ALL SELECT 's', n FROM s;

-- name: mutual_scalar_subquery
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 6) r(n bigint) AS (SELECT 1 + coalesce((SELECT max(n) FROM r), 0) UNION
    SELECT n FROM r) SELECT n FROM r;

-- name: mutual_unnest_and_rollup
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3) r(n int, c bigint) AS (SELECT q.n, count(*) FROM (SELECT unnest(ARRAY[
    a, c]) AS n FROM t3 UNION ALL SELECT n FROM r) q GROUP BY ROLLUP (q.n)) SELECT n, c FROM r;

-- name: mutual_nested
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 4) x(n int) AS (SELECT 0 UNION SELECT q.n + 1 FROM (WITH MUTUALLY
    RECURSIVE y(n int) AS (SELECT n FROM x UNION SELECT t3.c FROM y JOIN t3 ON t3.a = y.n) SELECT n FROM y) q) SELECT n
    FROM x;

-- name: mutual_nested_limits
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3) x(n int) AS (SELECT max(q.n) FROM (WITH MUTUALLY RECURSIVE (RETURN AT
    RECURSION LIMIT 2) y(n int) AS (SELECT coalesce(max(n), 0) + 1 FROM x UNION ALL SELECT n + 10 FROM y) SELECT n FROM y)
    q) SELECT n FROM x;

-- name: mutual_around_recursive
-- postgres: WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n) SELECT n FROM r
WITH MUTUALLY RECURSIVE x(n int) AS (WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n)
    SELECT n FROM r UNION SELECT n FROM x) SELECT n FROM x;

-- name: mutual_in_subquery
-- postgres: WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n) SELECT id FROM t1 WHERE g IN
-- postgres: (SELECT n FROM r)
SELECT id FROM t1 WHERE g IN (WITH MUTUALLY RECURSIVE r(n int) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n)
    SELECT n FROM r);

-- name: mutual_error_rows
-- postgres: WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n) SELECT 10 / (n - 3) AS v FROM r
-- postgres: WHERE n IS NOT NULL
WITH MUTUALLY RECURSIVE r(n int) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n), q(v int) AS (SELECT 10 / (n -
    3) FROM r WHERE n IS NOT NULL) SELECT v FROM q;

-- name: mutual_error_in_the_loop
-- postgres: none
WITH MUTUALLY RECURSIVE r(n int) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n WHERE 10 / (r.n - 5) < 100)
    SELECT n FROM r;

-- name: mutual_error_in_a_round_that_passes
-- postgres: none
WITH MUTUALLY RECURSIVE a(n bigint) AS (SELECT count(*) FROM b), q(v bigint) AS (SELECT 10 / n FROM a), b(id int) AS (SELECT id
    FROM t1) SELECT v FROM q;

-- name: mutual_error_in_some_round
-- postgres: none
WITH MUTUALLY RECURSIVE b(n int) AS (SELECT 1 UNION SELECT t3.c FROM b JOIN t3 ON t3.a = b.n), a(n bigint) AS (SELECT count(*)
    FROM b), q(v bigint) AS (SELECT 10 / (n - 3) FROM a) SELECT v FROM q;

-- name: mutual_error_in_a_nested_round
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3) x(n int) AS (SELECT 0 UNION SELECT q.v::int % 9 FROM (WITH MUTUALLY
    RECURSIVE y(n int) AS (SELECT n FROM x UNION SELECT t3.c FROM y JOIN t3 ON t3.a = y.n), c(n bigint) AS (SELECT count(*) FROM
    y), z(v bigint) AS (SELECT 10 / (n - 4) FROM c) SELECT v FROM z) q) SELECT n FROM x;

-- name: recursive_correlated_in_step
WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT (SELECT max(t3.c) FROM t3 WHERE t3.a = r.n) FROM r) SELECT n FROM r;

-- name: recursive_reads_correlated
SELECT k, (SELECT count(*) FROM (WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT t3.c FROM r JOIN t3 ON t3.a = r.n) SELECT n FROM r) q
    WHERE q.n < t4.k) AS below FROM t4;

-- name: mutual_correlated_inside
-- postgres: none
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 4) r(n int) AS (SELECT 0 UNION SELECT (SELECT max(t3.c) FROM t3 WHERE t3.a > r.n)
    FROM r UNION SELECT n FROM r) SELECT n FROM r WHERE EXISTS (SELECT 1 FROM r s WHERE s.n > r.n);

-- Conditions in alternatives.

-- name: or_alternatives_share_a_key
SELECT t1.id, t2.id AS other FROM t1, t2 WHERE (t1.g = t2.k AND t1.x > 1 + 1 AND t2.y < 40)
    OR (t1.g = t2.k AND t1.b AND t2.y + t1.x > 3);

-- name: or_alternatives_share_all
SELECT id FROM t1 WHERE (g = 1 AND x > 2) OR g = 1 OR (x IS NULL AND g = 1);

-- name: or_guards_inside_alternatives
SELECT id, x FROM t1 WHERE (x <> 0 AND 10 / x > 1) OR g = 2;

-- name: or_guards_in_select_list
SELECT id, (g = 1 AND x <> 0 AND 10 / x > 1) OR (g = 1 AND x = 0) AS here FROM t1;

-- What a query reads several times.

-- name: shared_groups_of_each_other
WITH q AS (SELECT g, sum(x) AS s FROM t1 GROUP BY g) SELECT a.g, b.g AS other FROM q a JOIN q b ON a.s = b.s;

-- name: shared_groups_and_their_greatest
WITH q AS (SELECT k, sum(y) AS s FROM t2 GROUP BY k) SELECT k, s FROM q WHERE s = (SELECT max(s) FROM q);

-- name: shared_under_other_names
SELECT u.p, v.r FROM (SELECT g AS p, count(*) AS n FROM t1 GROUP BY g) u JOIN (SELECT g AS r, count(*) AS m FROM t1 GROUP BY g) v
    ON u.n = v.m;

-- name: shared_but_for_a_filter
SELECT u.g, v.g AS other FROM (SELECT g, count(*) AS n FROM t1 WHERE x > 3 GROUP BY g) u
    JOIN (SELECT g, count(*) AS n FROM t1 WHERE x > 4 GROUP BY g) v ON u.n = v.n;

-- name: shared_but_for_distinct
SELECT u.g, u.n, v.n AS other FROM (SELECT g, count(x) AS n FROM t1 GROUP BY g) u
    JOIN (SELECT g, count(DISTINCT x) AS n FROM t1 GROUP BY g) v ON u.g = v.g;

-- name: shared_but_for_an_aggregate_filter
SELECT u.g, u.n, v.n AS other FROM (SELECT g, count(x) FILTER (WHERE b) AS n FROM t1 GROUP BY g) u
    JOIN (SELECT g, count(x) AS n FROM t1 GROUP BY g) v ON u.g = v.g;

-- name: shared_but_for_an_order
SELECT u.g, u.l, v.l AS other FROM (SELECT g, string_agg(s, ',' ORDER BY s) AS l FROM t1 GROUP BY g) u
    JOIN (SELECT g, string_agg(s, ',' ORDER BY s DESC) AS l FROM t1 GROUP BY g) v ON u.g = v.g;

-- name: shared_self_join
SELECT a.id, b.x FROM t1 a JOIN t1 b ON a.g = b.g;

-- name: shared_self_join_of_two_columns
SELECT a.id, b.x FROM t1 a JOIN t1 b ON a.g = b.g AND a.x = b.x WHERE a.s <> b.s;

-- name: shared_self_join_of_three
SELECT a.id, b.id AS second, c.id AS third FROM t1 a JOIN t1 b ON a.g = b.g JOIN t1 c ON b.g = c.g WHERE c.x > 5;

-- name: shared_self_join_by_other_keys
SELECT a.a, b.c FROM t3 a JOIN t3 b ON a.c = b.a;

-- name: shared_self_join_of_all_columns
SELECT a.a, a.c, b.a AS other FROM t3 a JOIN t3 b ON a.a = b.a AND a.c = b.c;

-- name: shared_self_left_join
SELECT a.id, b.id AS other FROM t1 a LEFT JOIN t1 b ON a.x = b.x AND a.id < b.id;

-- name: shared_self_full_join
SELECT a.id, b.id AS other FROM t1 a FULL JOIN t1 b ON a.id = b.id;

-- name: shared_self_semi_join
SELECT id, x FROM t1 a WHERE EXISTS (SELECT 1 FROM t1 b WHERE b.g = a.g AND b.id <> a.id);

-- name: shared_self_anti_join
SELECT id, x FROM t1 a WHERE NOT EXISTS (SELECT 1 FROM t1 b WHERE b.g = a.g AND b.x > a.x);

-- name: shared_self_not_in
SELECT a, c FROM t3 WHERE a NOT IN (SELECT c FROM t3 WHERE c IS NOT NULL);

-- name: shared_join_grouped_twice
WITH j AS (SELECT t1.g, t2.y, t2.n FROM t1 JOIN t2 ON t1.id = t2.id)
SELECT p.g, p.s, q.m FROM (SELECT g, sum(n) AS s FROM j GROUP BY g) p LEFT JOIN (SELECT y, max(n) AS m FROM j GROUP BY y) q ON p.g = q.y;

-- name: shared_join_and_its_total
WITH j AS (SELECT t1.g, t2.n FROM t1 JOIN t2 ON t1.id = t2.id)
SELECT g, sum(n) AS s FROM j GROUP BY g HAVING sum(n) > (SELECT sum(n) * 0.2 FROM j);

-- name: shared_by_what_is_shared
WITH a AS (SELECT g, count(*) AS n FROM t1 GROUP BY g), b AS (SELECT p.g, q.n FROM a p JOIN a q ON p.g = q.n)
SELECT l.g, r.n FROM b l LEFT JOIN b r ON l.n = r.g;

-- name: shared_first_rows
WITH top AS (SELECT id, x, s FROM t1 ORDER BY x, id, s LIMIT 3) SELECT a.id, b.x FROM top a JOIN top b ON a.id = b.id;

-- name: shared_distinct
WITH d AS (SELECT DISTINCT g, s FROM t1) SELECT a.g, b.s FROM d a JOIN d b ON a.g = b.g AND a.s < b.s;

-- name: shared_union_all
WITH j AS (SELECT t1.g, t2.y FROM t1 JOIN t2 ON t1.id = t2.id) SELECT g, y FROM j UNION ALL SELECT y, g FROM j UNION ALL SELECT g, y FROM j;

-- name: shared_except
WITH j AS (SELECT t1.g, t2.k FROM t1 JOIN t2 ON t1.id = t2.id) SELECT g, k FROM j EXCEPT SELECT k, g FROM j;

-- name: shared_errors
WITH j AS (SELECT t1.g, 100 / t2.y AS e FROM t1 JOIN t2 ON t1.id = t2.id) SELECT a.g, b.e FROM j a JOIN j b ON a.g = b.e;

-- name: shared_errors_of_groups
WITH j AS (SELECT g, 10 / (count(*) - 2) AS e FROM t1 GROUP BY g) SELECT a.g, b.e FROM j a LEFT JOIN j b ON a.g = b.e;

-- name: shared_scalars
SELECT id, x - (SELECT max(y) FROM t2) AS below, x + (SELECT max(y) FROM t2) AS above FROM t1;

-- name: shared_below_windows
WITH j AS (SELECT t1.g, t2.y FROM t1 JOIN t2 ON t1.id = t2.id)
SELECT g, r FROM (SELECT g, rank() OVER (ORDER BY y) AS r FROM j) w WHERE g IN (SELECT y FROM j);

-- name: shared_beside_recursion
WITH RECURSIVE e AS (SELECT DISTINCT a, c FROM t3), r(n) AS (SELECT 1 UNION SELECT e.c FROM r JOIN e ON e.a = r.n)
SELECT r.n, x.a, y.c FROM r JOIN e x ON x.c = r.n JOIN e y ON y.a = r.n;

-- name: shared_groups_of_nothing
WITH q AS (SELECT count(*) AS n, sum(x) AS s FROM t1 WHERE x > 1000) SELECT a.n, b.s FROM q a JOIN q b ON a.n = b.n;
