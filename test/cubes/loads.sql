-- Queries in Cube's JSON, and what each asks, in SQL over the tables: `ordered` where the order is total and compared.
-- The report's three.
-- ordered
{"measures": ["orders.count", "orders.total_amount_sum"], "dimensions": ["orders.market_code"], "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "day", "dateRange": ["2024-01-01", "2024-12-31"]}], "order": [["orders.updated_at.day", "asc"], ["orders.market_code", "asc"]], "limit": 50};
SELECT market_code, date_trunc('day', updated_at AT TIME ZONE 'UTC') AS day, count(*), sum(total_amount) FROM raw.orders WHERE updated_at >= '2024-01-01 00:00+00' AND updated_at < '2025-01-01 00:00+00' GROUP BY 1, 2 ORDER BY 2, 1 LIMIT 50;

-- ordered
{"measures": ["orders.count", "orders.total_amount_sum", "orders.tax_amount_sum", "orders.subtotal_amount_sum", "orders.customer_id_distinct"], "dimensions": ["orders.market_code"], "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "month", "dateRange": ["2024-01-01", "2024-12-31"]}], "order": {"orders.updated_at": "desc", "orders.market_code": "desc"}, "limit": 100};
SELECT market_code, date_trunc('month', updated_at AT TIME ZONE 'UTC') AS month, count(*), sum(total_amount), sum(tax_amount), sum(subtotal_amount), count(DISTINCT customer_id) FROM raw.orders WHERE updated_at >= '2024-01-01 00:00+00' AND updated_at < '2025-01-01 00:00+00' GROUP BY 1, 2 ORDER BY 2 DESC, 1 DESC LIMIT 100;

-- ordered
{"measures": ["orders.count", "orders.total_amount_sum"], "dimensions": ["orders.market_code", "orders.brand_code"], "order": [["orders.total_amount_sum", "desc"], ["orders.market_code", "asc"], ["orders.brand_code", "asc"]], "limit": 20};
SELECT market_code, brand_code, count(*), sum(total_amount) FROM raw.orders GROUP BY 1, 2 ORDER BY 4 DESC, 1, 2 LIMIT 20;

-- No limit; LIMIT with OFFSET; all of the table.
{"measures": ["orders.count"], "dimensions": ["orders.market_code", "orders.brand_code"], "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "week"}]};
SELECT market_code, brand_code, date_trunc('week', updated_at AT TIME ZONE 'UTC'), count(*) FROM raw.orders GROUP BY 1, 2, 3;

-- ordered
{"measures": ["orders.count"], "dimensions": ["orders.brand_code"], "order": [["orders.brand_code", "asc"]], "limit": 5, "offset": 7};
SELECT brand_code, count(*) FROM raw.orders GROUP BY 1 ORDER BY 1 LIMIT 5 OFFSET 7;

{"measures": ["orders.count", "orders.total_amount_sum", "orders.avg_amount", "orders.average", "orders.largest", "orders.customer_id_distinct"]};
SELECT count(*), sum(total_amount), sum(total_amount) / nullif(count(*), 0), avg(total_amount), max(total_amount), count(DISTINCT customer_id) FROM raw.orders;

-- Nothing: a count of 0, a sum that is NULL.
{"measures": ["orders.count", "orders.total_amount_sum", "orders.largest"], "filters": [{"member": "orders.market_code", "operator": "equals", "values": ["nowhere"]}]};
SELECT count(*), sum(total_amount), max(total_amount) FROM raw.orders WHERE market_code = 'nowhere';

{"measures": ["orders.count"], "dimensions": ["orders.brand_code"], "filters": [{"member": "orders.market_code", "operator": "equals", "values": ["nowhere"]}]};
SELECT brand_code, count(*) FROM raw.orders WHERE market_code = 'nowhere' GROUP BY 1;

{"measures": ["orders.count"], "limit": 0};
SELECT count(*) FROM raw.orders LIMIT 0;

-- Ranges that do not begin with a day; a half-open year; the last microseconds of a day.
{"measures": ["orders.count", "orders.total_amount_sum"], "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "day", "dateRange": ["2024-01-01T06:00:00.000", "2024-01-10T18:00:00.000"]}]};
SELECT date_trunc('day', updated_at AT TIME ZONE 'UTC'), count(*), sum(total_amount) FROM raw.orders WHERE updated_at >= '2024-01-01 06:00+00' AND updated_at <= '2024-01-10 18:00+00' GROUP BY 1;

{"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.updated_at", "dateRange": ["2024-01-01T06:00:00", "2024-01-10T18:00:00"]}]};
SELECT count(*) FROM raw.orders WHERE updated_at >= '2024-01-01 06:00+00' AND updated_at <= '2024-01-10 18:00+00';

{"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.updated_at", "dateRange": ["2024-01-10", "2024-01-10"]}]};
SELECT count(*) FROM raw.orders WHERE updated_at >= '2024-01-10 00:00+00' AND updated_at < '2024-01-11 00:00+00';

{"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.updated_at", "dateRange": "2024-12-31"}]};
SELECT count(*) FROM raw.orders WHERE updated_at >= '2024-12-31 00:00+00' AND updated_at < '2025-01-01 00:00+00';

{"measures": ["orders.count"], "filters": [{"member": "orders.updated_at", "operator": "afterOrOnDate", "values": ["2024-07-01"]}, {"member": "orders.updated_at", "operator": "beforeDate", "values": ["2025-01-01"]}]};
SELECT count(*) FROM raw.orders WHERE updated_at >= '2024-07-01 00:00+00' AND updated_at < '2025-01-01 00:00+00';

{"measures": ["orders.count"], "dimensions": ["orders.market_code"], "filters": [{"member": "orders.updated_at", "operator": "notInDateRange", "values": ["2024-01-01", "2024-12-31"]}]};
SELECT market_code, count(*) FROM raw.orders WHERE updated_at < '2024-01-01 00:00+00' OR updated_at >= '2025-01-01 00:00+00' OR updated_at IS NULL GROUP BY 1;

-- Zones: a day of 23 hours, one of 45 minutes, weeks over the new year.
{"measures": ["orders.count", "orders.total_amount_sum"], "timezone": "America/Los_Angeles", "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "hour", "dateRange": ["2024-03-10", "2024-03-10"]}]};
SELECT date_trunc('hour', updated_at AT TIME ZONE 'America/Los_Angeles'), count(*), sum(total_amount) FROM raw.orders WHERE updated_at >= '2024-03-10 08:00+00' AND updated_at < '2024-03-11 07:00+00' GROUP BY 1;

{"measures": ["orders.count"], "timezone": "America/Los_Angeles", "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "day", "dateRange": ["2024-03-01", "2024-03-31"]}]};
SELECT date_trunc('day', updated_at AT TIME ZONE 'America/Los_Angeles'), count(*) FROM raw.orders WHERE updated_at >= '2024-03-01 08:00+00' AND updated_at < '2024-04-01 07:00+00' GROUP BY 1;

{"measures": ["orders.count"], "timezone": "Asia/Kathmandu", "dimensions": ["orders.market_code"], "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "day", "dateRange": ["2024-01-01", "2024-02-29"]}]};
SELECT market_code, date_trunc('day', updated_at AT TIME ZONE 'Asia/Kathmandu'), count(*) FROM raw.orders WHERE updated_at >= '2023-12-31 18:15+00' AND updated_at < '2024-02-29 18:15+00' GROUP BY 1, 2;

{"measures": ["orders.count"], "timezone": "Europe/Berlin", "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "week", "dateRange": ["2024-12-16", "2025-01-19"]}]};
SELECT date_trunc('week', updated_at AT TIME ZONE 'Europe/Berlin'), count(*) FROM raw.orders WHERE updated_at >= '2024-12-15 23:00+00' AND updated_at < '2025-01-19 23:00+00' GROUP BY 1;

{"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "fiscal_year"}]};
SELECT date_trunc('year', updated_at AT TIME ZONE 'UTC' - interval '3 months') + interval '3 months', count(*) FROM raw.orders GROUP BY 1;

{"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "quarter"}, {"dimension": "orders.updated_at", "granularity": "month"}], "dimensions": ["orders.updated_at"], "filters": [{"member": "orders.id", "operator": "lte", "values": ["8"]}]};
SELECT updated_at AT TIME ZONE 'UTC', date_trunc('quarter', updated_at AT TIME ZONE 'UTC'), date_trunc('month', updated_at AT TIME ZONE 'UTC'), count(*) FROM raw.orders WHERE id <= 8 GROUP BY 1, 2, 3;

-- A filter on what is not selected; on a column that no rollup has: alone, AND, OR, either first.
{"measures": ["orders.total_amount_sum"], "dimensions": ["orders.market_code"], "filters": [{"member": "orders.brand_code", "operator": "equals", "values": ["Acme", "Zedx"]}]};
SELECT market_code, sum(total_amount) FROM raw.orders WHERE brand_code IN ('Acme', 'Zedx') GROUP BY 1;

{"measures": ["orders.total_amount_sum"], "dimensions": ["orders.market_code"], "filters": [{"member": "orders.customer_id", "operator": "lt", "values": ["20"]}]};
SELECT market_code, sum(total_amount) FROM raw.orders WHERE customer_id < 20 GROUP BY 1;

{"measures": ["orders.count"], "dimensions": ["orders.market_code"], "filters": [{"member": "orders.brand_code", "operator": "set"}, {"member": "orders.customer_id", "operator": "gte", "values": ["20"]}]};
SELECT market_code, count(*) FROM raw.orders WHERE brand_code IS NOT NULL AND customer_id >= 20 GROUP BY 1;

{"measures": ["orders.count"], "dimensions": ["orders.market_code"], "filters": [{"or": [{"member": "orders.customer_id", "operator": "notSet"}, {"member": "orders.brand_code", "operator": "notSet"}]}]};
SELECT market_code, count(*) FROM raw.orders WHERE customer_id IS NULL OR brand_code IS NULL GROUP BY 1;

{"measures": ["orders.count"], "dimensions": ["orders.market_code"], "filters": [{"or": [{"member": "orders.brand_code", "operator": "notSet"}, {"and": [{"member": "orders.customer_id", "operator": "gt", "values": [60]}, {"member": "orders.market_code", "operator": "notEquals", "values": ["DE"]}]}]}]};
SELECT market_code, count(*) FROM raw.orders WHERE brand_code IS NULL OR (customer_id > 60 AND market_code IS DISTINCT FROM 'DE') GROUP BY 1;

-- Literals that differ in case only; NULLs among values; % and _.
{"measures": ["orders.count"], "filters": [{"member": "orders.market_code", "operator": "equals", "values": ["de"]}]};
SELECT count(*) FROM raw.orders WHERE market_code = 'de';

{"measures": ["orders.count"], "dimensions": ["orders.market_code"], "filters": [{"member": "orders.brand_code", "operator": "equals", "values": ["Acme", null]}]};
SELECT market_code, count(*) FROM raw.orders WHERE brand_code = 'Acme' OR brand_code IS NULL GROUP BY 1;

{"measures": ["orders.count"], "dimensions": ["orders.market_code"], "filters": [{"member": "orders.brand_code", "operator": "notEquals", "values": ["Acme"]}]};
SELECT market_code, count(*) FROM raw.orders WHERE brand_code IS DISTINCT FROM 'Acme' GROUP BY 1;

{"measures": ["orders.count"], "dimensions": ["orders.brand_code"], "filters": [{"member": "orders.brand_code", "operator": "contains", "values": ["0%", "5_"]}]};
SELECT brand_code, count(*) FROM raw.orders WHERE strpos(brand_code, '0%') > 0 OR strpos(brand_code, '5_') > 0 GROUP BY 1;

{"measures": ["orders.count"], "dimensions": ["orders.brand_code"], "filters": [{"member": "orders.brand_code", "operator": "contains", "values": ["\\C"]}]};
SELECT brand_code, count(*) FROM raw.orders WHERE strpos(lower(brand_code), '\c') > 0 GROUP BY 1;

{"measures": ["orders.count"], "dimensions": ["orders.brand_code"], "filters": [{"member": "orders.brand_code", "operator": "notStartsWith", "values": ["ACME", "5"]}]};
SELECT brand_code, count(*) FROM raw.orders WHERE brand_code IS NULL OR NOT (lower(brand_code) LIKE 'acme%' OR brand_code LIKE '5%') GROUP BY 1;

{"measures": ["orders.count"], "dimensions": ["orders.is_large"], "segments": ["orders.taxed"]};
SELECT total_amount > 500, count(*) FROM raw.orders WHERE tax_amount > 40 GROUP BY 1;

{"measures": ["orders.count"], "filters": [{"member": "orders.is_large", "operator": "equals", "values": [true]}]};
SELECT count(*) FROM raw.orders WHERE total_amount > 500;

-- What is behind a number, as clients ask: rows that a measure counts.
{"dimensions": ["orders.id"], "filters": [{"member": "orders.large_count", "operator": "measureFilter"}, {"member": "orders.market_code", "operator": "equals", "values": ["SE"]}]};
SELECT id FROM raw.orders WHERE total_amount > 500 AND brand_code IS NOT NULL AND market_code = 'SE';

{"measures": ["orders.count", "orders.large_count"], "dimensions": ["orders.market_code"], "filters": [{"or": [{"member": "orders.large_count", "operator": "measureFilter"}, {"member": "orders.brand_code", "operator": "notSet"}]}]};
SELECT market_code, count(*), count(*) FILTER (WHERE total_amount > 500 AND brand_code IS NOT NULL) FROM raw.orders WHERE (total_amount > 500 AND brand_code IS NOT NULL) OR brand_code IS NULL GROUP BY 1;

-- Filters of measures; an order by a measure; averages of all against averages of averages.
{"measures": ["orders.avg_amount", "orders.average"], "dimensions": ["orders.brand_code"], "filters": [{"member": "orders.count", "operator": "gt", "values": ["80"]}]};
SELECT brand_code, sum(total_amount) / nullif(count(*), 0), avg(total_amount) FROM raw.orders GROUP BY 1 HAVING count(*) > 80;

{"measures": ["orders.total_amount_sum"], "dimensions": ["orders.market_code"], "filters": [{"or": [{"member": "orders.count", "operator": "lt", "values": ["5"]}, {"member": "orders.largest", "operator": "gte", "values": ["999"]}]}]};
SELECT market_code, sum(total_amount) FROM raw.orders GROUP BY 1 HAVING count(*) < 5 OR max(total_amount) >= 999;

-- Fan-out, chasm, a joined dimension with NULLs.
{"measures": ["customers.credit", "orders.count"], "dimensions": ["orders.market_code"]};
SELECT o.market_code, c.credit, o.count FROM (SELECT market_code, count(*) AS count FROM raw.orders GROUP BY 1) o JOIN (SELECT market_code, sum(credit) AS credit FROM (SELECT DISTINCT market_code, customers.id, credit FROM raw.orders LEFT JOIN raw.customers ON customer_id = customers.id) k GROUP BY 1) c ON o.market_code IS NOT DISTINCT FROM c.market_code;

{"measures": ["items.quantity", "payments.amount", "orders.total_amount_sum"], "dimensions": ["orders.market_code"]};
SELECT k.market_code, i.quantity, p.amount, o.total FROM (SELECT DISTINCT market_code FROM raw.orders) k LEFT JOIN (SELECT market_code, sum(quantity) AS quantity FROM raw.orders o JOIN raw.items i ON o.id = i.order_id GROUP BY 1) i ON i.market_code IS NOT DISTINCT FROM k.market_code LEFT JOIN (SELECT market_code, sum(amount) AS amount FROM raw.orders o JOIN raw.payments p ON o.id = p.order_id GROUP BY 1) p ON p.market_code IS NOT DISTINCT FROM k.market_code LEFT JOIN (SELECT market_code, sum(total_amount) AS total FROM raw.orders GROUP BY 1) o ON o.market_code IS NOT DISTINCT FROM k.market_code;

{"measures": ["orders.count", "orders.total_amount_sum"], "dimensions": ["customers.name"]};
SELECT name, count(*), sum(total_amount) FROM raw.orders LEFT JOIN raw.customers ON customer_id = customers.id GROUP BY 1;

-- A view; dimensions alone; rows.
{"measures": ["sales.count", "sales.total_amount_sum"], "dimensions": ["sales.customers_name"], "segments": ["sales.taxed"], "timeDimensions": [{"dimension": "sales.updated_at", "granularity": "year"}]};
SELECT name, date_trunc('year', updated_at AT TIME ZONE 'UTC'), count(*), sum(total_amount) FROM raw.orders LEFT JOIN raw.customers ON customer_id = customers.id WHERE tax_amount > 40 GROUP BY 1, 2;

-- ordered
{"dimensions": ["orders.market_code"]};
SELECT DISTINCT market_code FROM raw.orders ORDER BY 1;

-- ordered
{"dimensions": ["orders.id", "orders.market_code"], "measures": ["orders.total_amount_sum"], "ungrouped": true, "filters": [{"member": "orders.total_amount_sum", "operator": "gt", "values": [990]}], "order": {"orders.id": "asc"}};
SELECT id, market_code, total_amount FROM raw.orders WHERE total_amount > 990 ORDER BY 1;
