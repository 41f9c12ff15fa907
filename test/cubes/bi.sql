-- What BI tools send for a chart over a cube, and the same over the tables. Metabase: qualified names in quotes, its questions over questions.
SELECT "public"."orders"."market_code" AS "market_code", COUNT(*) AS "count" FROM "public"."orders" GROUP BY "public"."orders"."market_code" ORDER BY "public"."orders"."market_code" ASC;
SELECT market_code, count(*) FROM raw.orders GROUP BY 1 ORDER BY 1;

SELECT DATE_TRUNC('month', "public"."orders"."updated_at") AS "updated_at", SUM("public"."orders"."total_amount_sum") AS "sum" FROM "public"."orders" WHERE ("public"."orders"."updated_at" >= timestamp with time zone '2024-01-01 00:00:00.000Z') AND ("public"."orders"."updated_at" < timestamp with time zone '2024-07-01 00:00:00.000Z') GROUP BY DATE_TRUNC('month', "public"."orders"."updated_at") ORDER BY DATE_TRUNC('month', "public"."orders"."updated_at") ASC;
SELECT date_trunc('month', updated_at), sum(total_amount) FROM raw.orders WHERE updated_at >= '2024-01-01 00:00+00' AND updated_at < '2024-07-01 00:00+00' GROUP BY 1 ORDER BY 1;

SELECT "source"."market_code" AS "market_code", SUM("source"."count") AS "sum", MAX("source"."largest") AS "max" FROM (SELECT "public"."orders"."market_code" AS "market_code", "public"."orders"."brand_code" AS "brand_code", "public"."orders"."count" AS "count", "public"."orders"."largest" AS "largest" FROM "public"."orders") AS "source" WHERE "source"."brand_code" IS NOT NULL GROUP BY "source"."market_code" ORDER BY "sum" DESC, "source"."market_code" ASC LIMIT 2000;
SELECT market_code, count(*), max(total_amount) FROM raw.orders WHERE brand_code IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 2000;

SELECT AVG("source"."count") AS "avg" FROM (SELECT "public"."orders"."market_code" AS "market_code", COUNT(*) AS "count" FROM "public"."orders" GROUP BY "public"."orders"."market_code") AS "source";
SELECT avg(n) FROM (SELECT count(*) AS n FROM raw.orders GROUP BY market_code) m;

SELECT CAST("public"."orders"."updated_at" AS date) AS "updated_at", COUNT(DISTINCT "public"."orders"."customer_id_distinct") AS "count" FROM "public"."orders" WHERE "public"."orders"."market_code" = 'DE' AND "public"."orders"."updated_at" < timestamp with time zone '2024-01-20 00:00:00.000Z' GROUP BY CAST("public"."orders"."updated_at" AS date) ORDER BY CAST("public"."orders"."updated_at" AS date) ASC;
SELECT updated_at::date, count(DISTINCT customer_id) FROM raw.orders WHERE market_code = 'DE' AND updated_at < '2024-01-20 00:00+00' GROUP BY 1 ORDER BY 1;

SELECT "public"."orders"."id" AS "id", "public"."orders"."market_code" AS "market_code", "public"."orders"."total_amount_sum" AS "total_amount_sum" FROM "public"."orders" WHERE (LOWER("public"."orders"."brand_code") LIKE '%zed%') ORDER BY "public"."orders"."id" ASC LIMIT 20;
SELECT id, market_code, total_amount FROM raw.orders WHERE lower(brand_code) LIKE '%zed%' ORDER BY 1 LIMIT 20;

-- Superset: metrics as they are written, series by a join with the largest, a virtual dataset.
SELECT market_code AS market_code, MEASURE(count) AS "MEASURE(count)", MEASURE(avg_amount) AS "MEASURE(avg_amount)" FROM public.orders GROUP BY market_code ORDER BY "MEASURE(count)" DESC, market_code LIMIT 100;
SELECT market_code, count(*), sum(total_amount) / nullif(count(*), 0) FROM raw.orders GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 100;

SELECT DATE_TRUNC('day', updated_at) AS updated_at, orders.market_code AS market_code, sum(total_amount_sum) AS "SUM(total_amount_sum)" FROM public.orders JOIN (SELECT market_code AS market_code__, sum(total_amount_sum) AS mme_inner__ FROM public.orders WHERE updated_at >= '2024-01-01 00:00:00.000000' AND updated_at < '2024-03-01 00:00:00.000000' GROUP BY market_code ORDER BY mme_inner__ DESC, market_code__ LIMIT 3) AS anon_1 ON orders.market_code = market_code__ WHERE updated_at >= '2024-01-01 00:00:00.000000' AND updated_at < '2024-03-01 00:00:00.000000' GROUP BY DATE_TRUNC('day', updated_at), orders.market_code ORDER BY 1, 2 LIMIT 10000;
SELECT date_trunc('day', updated_at), o.market_code, sum(total_amount) FROM raw.orders o JOIN (SELECT market_code, sum(total_amount) AS s FROM raw.orders WHERE updated_at >= '2024-01-01' AND updated_at < '2024-03-01' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3) t ON o.market_code = t.market_code WHERE updated_at >= '2024-01-01' AND updated_at < '2024-03-01' GROUP BY 1, 2 ORDER BY 1, 2;

SELECT brand_code AS brand_code, COUNT(*) AS count FROM (SELECT * FROM orders WHERE market_code IN ('DE', 'SE')) AS virtual_table GROUP BY brand_code ORDER BY count DESC, brand_code LIMIT 50;
SELECT brand_code, count(*) FROM raw.orders WHERE market_code IN ('DE', 'SE') GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 50;

SELECT DISTINCT market_code FROM public.orders ORDER BY market_code LIMIT 1000;
SELECT DISTINCT market_code FROM raw.orders ORDER BY 1;

SELECT COUNT(*) AS rowcount FROM (SELECT market_code AS market_code, MEASURE(count) AS c FROM public.orders GROUP BY market_code) AS rowcount_qry;
SELECT count(DISTINCT coalesce(market_code, '')) FROM raw.orders;

-- Tableau: aliases that say what was made of a column, parts of dates, HAVING (COUNT(1) > 0), filters by the largest.
SELECT CAST(TRUNC(EXTRACT(YEAR FROM "orders"."updated_at")) AS INTEGER) AS "yr:updated_at:ok", SUM("orders"."total_amount_sum") AS "sum:total_amount_sum:ok" FROM "public"."orders" "orders" GROUP BY 1 ORDER BY 1;
SELECT trunc(extract(year FROM updated_at))::int, sum(total_amount) FROM raw.orders GROUP BY 1 ORDER BY 1;

SELECT "orders"."market_code" AS "market_code", SUM("orders"."count") AS "sum:count:ok", CAST(DATE_TRUNC('MONTH', "orders"."updated_at") AS DATE) AS "tmn:updated_at:ok" FROM "public"."orders" "orders" WHERE (("orders"."updated_at" >= (TIMESTAMP '2024-01-01 00:00:00.000')) AND ("orders"."updated_at" < (TIMESTAMP '2024-04-01 00:00:00.000'))) GROUP BY 1, 3 ORDER BY 1, 3;
SELECT market_code, count(*), date_trunc('month', updated_at)::date FROM raw.orders WHERE updated_at >= '2024-01-01' AND updated_at < '2024-04-01' GROUP BY 1, 3 ORDER BY 1, 3;

SELECT "orders"."brand_code" AS "brand_code", SUM("orders"."total_amount_sum") AS "sum:total_amount_sum:ok" FROM "public"."orders" "orders" INNER JOIN (SELECT "orders"."brand_code" AS "brand_code", SUM("orders"."total_amount_sum") AS "$__alias__0" FROM "public"."orders" "orders" GROUP BY 1 ORDER BY 2 DESC NULLS LAST, 1 LIMIT 5) "t0" ON (("orders"."brand_code" = "t0"."brand_code") OR (("orders"."brand_code" IS NULL) AND ("t0"."brand_code" IS NULL))) GROUP BY 1 ORDER BY 1;
SELECT o.brand_code, sum(total_amount) FROM raw.orders o JOIN (SELECT brand_code, sum(total_amount) AS s FROM raw.orders GROUP BY 1 ORDER BY 2 DESC NULLS LAST, 1 LIMIT 5) t ON o.brand_code IS NOT DISTINCT FROM t.brand_code GROUP BY 1 ORDER BY 1;

SELECT MIN("orders"."updated_at") AS "TEMP(min)", MAX("orders"."updated_at") AS "TEMP(max)" FROM "public"."orders" "orders" HAVING (COUNT(1) > 0);
SELECT min(updated_at), max(updated_at) FROM raw.orders;

SELECT "orders"."market_code" AS "market_code" FROM "public"."orders" "orders" GROUP BY 1 ORDER BY 1 ASC NULLS FIRST;
SELECT market_code FROM raw.orders GROUP BY 1 ORDER BY 1 ASC NULLS FIRST;

SELECT SUM(CASE WHEN "orders"."is_large" THEN 1 ELSE 0 END) AS "usr:Calculation:ok", "orders"."market_code" AS "market_code" FROM "public"."orders" "orders" GROUP BY 2 ORDER BY 2;
SELECT sum(CASE WHEN total_amount > 500 THEN 1 ELSE 0 END), market_code FROM raw.orders GROUP BY 2 ORDER BY 2;
