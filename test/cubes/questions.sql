-- Each question to a cube, and behind it the same over the tables.
-- A measure by a dimension.
SELECT status, MEASURE(count), MEASURE(total), MEASURE(average), MEASURE(smallest), MEASURE(latest), MEASURE(buyers) FROM orders GROUP BY 1;
SELECT status, count(id), sum(amount), avg(amount), min(amount), max(placed_at), count(DISTINCT customer_id) FROM raw.orders GROUP BY 1;

-- Filters of measures, measures of measures, an aggregate of their own.
SELECT status, MEASURE(paid), MEASURE(paid_count), MEASURE(share), MEASURE(median) FROM orders GROUP BY status;
SELECT status, sum(amount) FILTER (WHERE status = 'paid' AND amount > 50), count(*) FILTER (WHERE status = 'paid'),
    sum(amount) FILTER (WHERE status = 'paid' AND amount > 50) / nullif(sum(amount), 0),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY amount)
FROM raw.orders GROUP BY status;

-- Nothing to group by; the aggregates that measures are; rows.
SELECT COUNT(*), SUM(total), AVG(average), MIN(smallest), MAX(latest), COUNT(DISTINCT buyers), SUM(count) FROM orders;
SELECT count(*), sum(amount), avg(amount), min(amount), max(placed_at), count(DISTINCT customer_id), count(*) FROM raw.orders;

-- Of no rows at all.
SELECT MEASURE(count), MEASURE(total) FROM orders WHERE status = 'nowhere';
SELECT count(*), sum(amount) FROM raw.orders WHERE status = 'nowhere';

-- A dimension behind a join from many to one, which has NULLs and no row for some.
SELECT city, MEASURE(count), MEASURE(total) FROM orders GROUP BY 1;
SELECT city, count(o.id), sum(amount) FROM raw.orders o LEFT JOIN raw.customers c ON o.customer_id = c.id GROUP BY 1;

-- Fan-out: orders by what is in them, each order once for each product.
SELECT product, MEASURE(count), MEASURE(total), MEASURE(average), MEASURE(smallest), MEASURE(buyers) FROM orders GROUP BY 1;
SELECT product, count(id), sum(amount), avg(amount), min(amount), count(DISTINCT customer_id)
FROM (SELECT DISTINCT product, o.* FROM raw.orders o LEFT JOIN raw.items i ON i.order_id = o.id) x GROUP BY 1;

-- Fan-out the other way: credit of customers by the orders' status, with orders beside it.
SELECT status, MEASURE(customers_credit), MEASURE(customers_n), MEASURE(count) FROM sales GROUP BY 1;
SELECT k.status, c.credit, c.n, o.n FROM
    (SELECT DISTINCT status FROM raw.orders) k
    JOIN (SELECT status, sum(credit) AS credit, count(cid) AS n FROM (
        SELECT DISTINCT o.status, c.id AS cid, c.credit FROM raw.orders o LEFT JOIN raw.customers c ON c.id = o.customer_id) x GROUP BY 1) c
        ON c.status IS NOT DISTINCT FROM k.status
    JOIN (SELECT status, count(*) AS n FROM raw.orders GROUP BY 1) o ON o.status IS NOT DISTINCT FROM k.status;

-- Chasm: items and payments by status, neither multiplied by the other.
SELECT status, MEASURE(quantity), MEASURE(received), MEASURE(total), MEASURE(revenue) FROM sales GROUP BY 1;
SELECT k.status, i.quantity, p.received, k.total, i.revenue FROM
    (SELECT status, sum(amount) AS total FROM raw.orders GROUP BY 1) k
    JOIN (SELECT status, sum(quantity) AS quantity, sum(quantity * price) AS revenue FROM raw.orders o
        LEFT JOIN raw.items i ON i.order_id = o.id LEFT JOIN raw.products r ON r.name = i.product GROUP BY 1) i
        ON i.status IS NOT DISTINCT FROM k.status
    JOIN (SELECT status, sum(p.amount) AS received FROM raw.orders o LEFT JOIN raw.payments p ON p.order_id = o.id GROUP BY 1) p
        ON p.status IS NOT DISTINCT FROM k.status;

-- A measure of measures of two cubes.
SELECT status, MEASURE(per_item) FROM orders GROUP BY 1;
SELECT a.status, total / nullif(quantity, 0) FROM
    (SELECT status, sum(amount) AS total FROM raw.orders GROUP BY 1) a
    JOIN (SELECT status, sum(quantity) AS quantity FROM raw.orders o LEFT JOIN raw.items i ON i.order_id = o.id GROUP BY 1) b
    ON a.status IS NOT DISTINCT FROM b.status;

-- A condition on what multiplies.
SELECT MEASURE(total), MEASURE(count) FROM orders WHERE product IN ('apple', 'pear') AND size <> 'small';
SELECT sum(amount), count(*) FROM raw.orders o
WHERE EXISTS (SELECT FROM raw.items i WHERE i.order_id = o.id AND product IN ('apple', 'pear')) AND amount > 100;

-- Conditions before and after.
SELECT size, MEASURE(total) FROM orders WHERE is_large OR status = 'open' GROUP BY size HAVING MEASURE(count) > 10 AND SUM(total) > 0;
SELECT CASE WHEN amount > 500 THEN 'large' WHEN amount > 100 THEN 'middle' ELSE 'small' END, sum(amount)
FROM raw.orders WHERE amount > 500 OR status = 'open' GROUP BY 1 HAVING count(*) > 10 AND sum(amount) > 0;

-- Times.
SELECT month, date_trunc('week', placed_at), MEASURE(count) FROM orders WHERE placed_at BETWEEN '2023-12-01' AND '2024-02-01' GROUP BY 1, 2;
SELECT date_trunc('month', placed_at), date_trunc('week', placed_at), count(*)
FROM raw.orders WHERE placed_at BETWEEN '2023-12-01' AND '2024-02-01' GROUP BY 1, 2;

-- Buckets of the model's own.
SELECT fiscal_year, fortnight, shift, sunday_week, MEASURE(count) FROM orders GROUP BY 1, 2, 3, 4;
SELECT date_trunc('year', placed_at - interval '3 months') + interval '3 months',
    date_bin('14 days', placed_at, timestamptz '2023-12-31 00:00+00'), date_bin('8 hours', placed_at, timestamptz '2001-02-03 06:00+00'),
    date_trunc('week', placed_at + interval '1 day') - interval '1 day', count(*)
FROM raw.orders GROUP BY 1, 2, 3, 4;

SELECT five_months, MEASURE(count) FROM orders GROUP BY 1;
SELECT (SELECT max(b) FROM (SELECT timestamptz '2023-01-31 06:00+00' + 5 * n * interval '1 month' AS b FROM generate_series(-9, 30) n) x WHERE b <= placed_at),
    count(*)
FROM raw.orders GROUP BY 1;

-- Sub-queries around a cube keep its measures, as tools write them.
SELECT date_trunc('quarter', "t"."placed_at") AS q, SUM("t"."total") AS s FROM (SELECT * FROM "orders") "t" WHERE "t"."status" = 'paid' GROUP BY 1;
SELECT date_trunc('quarter', placed_at), sum(amount) FROM raw.orders WHERE status = 'paid' GROUP BY 1;

WITH o AS (SELECT city AS town, total AS t, status FROM orders WHERE amount > 20), p AS (SELECT * FROM o WHERE status <> 'sent')
SELECT upper(town), MEASURE(t) FROM p GROUP BY 1;
SELECT upper(city), sum(amount) FROM raw.orders o LEFT JOIN raw.customers c ON c.id = o.customer_id
WHERE amount > 20 AND status <> 'sent' GROUP BY 1;

-- Rows: measures as if grouped by the key.
SELECT status, amount, total, count, paid, average, buyers, share FROM orders;
SELECT status, amount, amount, 1, CASE WHEN status = 'paid' AND amount > 50 THEN amount END, amount::numeric,
    CASE WHEN customer_id IS NULL THEN 0 ELSE 1 END,
    CASE WHEN status = 'paid' AND amount > 50 THEN amount END / nullif(amount, 0) FROM raw.orders;

SELECT product, total FROM orders WHERE total > 900;
SELECT product, amount FROM raw.orders o LEFT JOIN raw.items i ON i.order_id = o.id WHERE amount > 900;

SELECT status FROM orders WHERE city = 'Bern';
SELECT status FROM raw.orders o JOIN raw.customers c ON c.id = o.customer_id WHERE city = 'Bern';

SELECT DISTINCT status, size FROM orders;
SELECT DISTINCT status, CASE WHEN amount > 500 THEN 'large' WHEN amount > 100 THEN 'middle' ELSE 'small' END FROM raw.orders;

-- Aggregates of dimensions.
SELECT status, COUNT(DISTINCT city), MAX(amount), SUM(amount), COUNT(amount), MEASURE(total) FROM orders GROUP BY 1;
SELECT status, count(DISTINCT city), max(amount), sum(amount), count(amount), sum(amount)
FROM raw.orders o LEFT JOIN raw.customers c ON c.id = o.customer_id GROUP BY 1;

SELECT product, SUM(amount), MIN(amount) FROM orders GROUP BY 1;
SELECT product, sum(amount), min(amount)
FROM (SELECT DISTINCT product, o.* FROM raw.orders o LEFT JOIN raw.items i ON i.order_id = o.id) x GROUP BY 1;

-- FILTER beside a measure.
SELECT status, MEASURE(total) FILTER (WHERE city = 'Bern'), COUNT(*) FILTER (WHERE size = 'large'), MEASURE(total) FILTER (WHERE product = 'nut')
FROM orders GROUP BY 1;
SELECT status, sum(amount) FILTER (WHERE city = 'Bern'), count(*) FILTER (WHERE amount > 500),
    sum(amount) FILTER (WHERE EXISTS (SELECT FROM raw.items i WHERE i.order_id = o.id AND product = 'nut'))
FROM raw.orders o LEFT JOIN raw.customers c ON c.id = o.customer_id GROUP BY 1;

-- Measures with a condition beside those without.
SELECT MEASURE(customers_n), MEASURE(customers_n) FILTER (WHERE size = 'large'), MEASURE(customers_n) FILTER (WHERE status = 'paid') FROM sales;
SELECT count(DISTINCT customer_id), count(DISTINCT customer_id) FILTER (WHERE amount > 500), count(DISTINCT customer_id) FILTER (WHERE status = 'paid')
FROM raw.orders o WHERE customer_id IN (SELECT id FROM raw.customers);

SELECT MEASURE(o.count), MEASURE(o.count) FILTER (WHERE r.region = 'west'), MEASURE(o.total) FILTER (WHERE r.region = 'middle')
FROM orders o JOIN raw.regions r ON r.city = o.city;
SELECT count(DISTINCT o.id), count(DISTINCT o.id) FILTER (WHERE region = 'west'),
    (SELECT sum(amount) FROM raw.orders o JOIN raw.customers c ON c.id = o.customer_id WHERE city IN (SELECT city FROM raw.regions WHERE region = 'middle'))
FROM raw.orders o JOIN raw.customers c ON c.id = o.customer_id JOIN raw.regions r USING (city);

-- A dimension that is another cube's measure.
SELECT orders_placed, is_good, MEASURE(count), MEASURE(credit), MEASURE(most_orders) FROM customers GROUP BY 1, 2;
SELECT n, n > 2, count(*), sum(credit), max(n)
FROM (SELECT c.id, credit, count(o.id) AS n FROM raw.customers c LEFT JOIN raw.orders o ON o.customer_id = c.id GROUP BY 1, 2) x GROUP BY 1, 2;

SELECT * FROM customers;
SELECT c.id, city, count(o.id), count(o.id) > 2, 1, credit, count(o.id)
FROM raw.customers c LEFT JOIN raw.orders o ON o.customer_id = c.id GROUP BY c.id, city, credit;

-- Windows over measures, set operations, joins of grouped queries, correlated sub-queries.
SELECT status, MEASURE(total), SUM(MEASURE(total)) OVER (), rank() OVER (ORDER BY MEASURE(total) DESC) FROM orders GROUP BY 1;
SELECT status, sum(amount), sum(sum(amount)) OVER (), rank() OVER (ORDER BY sum(amount) DESC) FROM raw.orders GROUP BY 1;

SELECT 'a' AS what, MEASURE(total) AS n FROM orders UNION ALL SELECT city, MEASURE(credit) FROM customers GROUP BY 1;
SELECT 'a', sum(amount) FROM raw.orders UNION ALL SELECT city, sum(credit) FROM raw.customers GROUP BY 1;

SELECT a.status, a.n, b.n FROM (SELECT status, MEASURE(count) AS n FROM orders GROUP BY 1) a
JOIN (SELECT status, MEASURE(quantity) AS n FROM sales WHERE size = 'large' GROUP BY 1) b ON a.status = b.status;
SELECT a.status, a.n, b.n FROM (SELECT status, count(*) AS n FROM raw.orders GROUP BY 1) a
JOIN (SELECT status, sum(quantity) AS n FROM raw.orders o LEFT JOIN raw.items i ON i.order_id = o.id WHERE amount > 500 GROUP BY 1) b
    ON a.status = b.status;

SELECT c.id, (SELECT MEASURE(total) FROM orders o WHERE o.city = c.city) FROM raw.customers c WHERE c.id < 9;
SELECT c.id, (SELECT sum(amount) FROM raw.orders o JOIN raw.customers d ON d.id = o.customer_id WHERE d.city = c.city)
FROM raw.customers c WHERE c.id < 9;

SELECT MEASURE(total) FROM orders WHERE EXISTS (SELECT FROM raw.regions r WHERE r.city = orders.city);
SELECT sum(amount) FROM raw.orders o JOIN raw.customers c ON c.id = o.customer_id WHERE city IN (SELECT city FROM raw.regions);

-- A join with an ordinary table says which orders belong to a group; each counts once there.
SELECT r.region, MEASURE(o.total), MEASURE(o.count), COUNT(*), COUNT(DISTINCT r.city) FROM orders o JOIN raw.regions r ON r.city = o.city GROUP BY 1;
SELECT region, sum(amount), count(*), max(n), max(cities) FROM (
    SELECT DISTINCT r.region, o.id, o.amount, x.n, x.cities FROM raw.orders o JOIN raw.customers c ON c.id = o.customer_id JOIN raw.regions r USING (city)
    JOIN (SELECT region, count(*) AS n, count(DISTINCT city) AS cities FROM raw.orders o JOIN raw.customers c ON c.id = o.customer_id
        JOIN raw.regions r USING (city) GROUP BY 1) x USING (region)) y GROUP BY 1;

SELECT o.status, SUM(o.total) FROM raw.regions r LEFT JOIN (SELECT * FROM sales WHERE maker = 'Hans') o ON o.city = r.city GROUP BY 1;
SELECT status, sum(amount) FROM (
    SELECT DISTINCT o.status, o.id, o.amount FROM raw.regions r LEFT JOIN (
        SELECT o.*, city FROM raw.orders o JOIN raw.customers c ON c.id = o.customer_id
        WHERE EXISTS (SELECT FROM raw.items i JOIN raw.products p ON p.name = i.product WHERE i.order_id = o.id AND maker = 'Hans')) o
    USING (city)) x GROUP BY 1;

SELECT r.region, MEASURE(s.quantity), MEASURE(s.total) FILTER (WHERE r.city <> 'Basel') FROM sales s JOIN raw.regions r ON s.city = r.city GROUP BY 1;
SELECT a.region, a.quantity, b.total FROM
    (SELECT region, sum(quantity) AS quantity FROM (SELECT DISTINCT region, i.id, i.quantity FROM raw.orders o JOIN raw.customers c ON c.id = o.customer_id
        JOIN raw.regions r USING (city) LEFT JOIN raw.items i ON i.order_id = o.id) x GROUP BY 1) a
    JOIN (SELECT region, sum(amount) FILTER (WHERE passes) AS total FROM (SELECT DISTINCT region, o.id, o.amount, r.city <> 'Basel' AS passes
        FROM raw.orders o JOIN raw.customers c ON c.id = o.customer_id JOIN raw.regions r USING (city)) y GROUP BY 1) b USING (region);

-- A cube without a key counts its rows, as long as no join multiplies them.
SELECT product, MEASURE(lines) FROM keyless GROUP BY 1;
SELECT product, count(*) FROM raw.items GROUP BY 1;

-- The same in Cube's JSON: members of several cubes, filters, segments.
SELECT * FROM cube_load('{"measures": ["orders.count", "orders.total", "items.quantity"], "dimensions": ["orders.status", "customers.city"]}');
SELECT a.status, a.city, a.n, a.total, b.quantity FROM
    (SELECT status, city, count(o.id) AS n, sum(amount) AS total FROM raw.orders o LEFT JOIN raw.customers c ON c.id = o.customer_id GROUP BY 1, 2) a
    JOIN (SELECT status, city, sum(quantity) AS quantity FROM raw.orders o LEFT JOIN raw.customers c ON c.id = o.customer_id
        LEFT JOIN raw.items i ON i.order_id = o.id GROUP BY 1, 2) b
    ON a.status IS NOT DISTINCT FROM b.status AND a.city IS NOT DISTINCT FROM b.city;

SELECT * FROM cube_load('{"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.placed_at", "granularity": "day", "dateRange": ["2024-03-08", "2024-03-12"]}], "timezone": "America/Los_Angeles"}');
SELECT date_trunc('day', placed_at AT TIME ZONE 'America/Los_Angeles'), count(*) FROM raw.orders
WHERE placed_at >= '2024-03-08 08:00+00' AND placed_at < '2024-03-13 07:00+00' GROUP BY 1;

SELECT * FROM cube_load('{"measures": ["orders.total"], "timeDimensions": [{"dimension": "orders.placed_at", "granularity": "fiscal_year"}, {"dimension": "orders.placed_at", "dateRange": ["2024-01-01T06:00:00", "2024-05-10T17:59:59.999"]}], "timezone": "Asia/Kathmandu"}');
SELECT date_trunc('year', t - interval '3 months') + interval '3 months', sum(amount)
FROM (SELECT placed_at AT TIME ZONE 'Asia/Kathmandu' AS t, amount FROM raw.orders) x WHERE t >= '2024-01-01 06:00' AND t < '2024-05-10 18:00' GROUP BY 1;

SELECT * FROM cube_load('{"dimensions": ["orders.status"], "measures": ["orders.total"], "filters": [{"member": "orders.status", "operator": "notEquals", "values": ["paid"]}, {"or": [{"member": "customers.city", "operator": "contains", "values": ["ER", "%"]}, {"member": "orders.amount", "operator": "gt", "values": ["900.5"]}]}, {"member": "orders.count", "operator": "gte", "values": ["2"]}], "segments": ["orders.is_large"]}');
SELECT status, sum(amount) FROM raw.orders o LEFT JOIN raw.customers c ON c.id = o.customer_id
WHERE (status <> 'paid' OR status IS NULL) AND (city ILIKE '%er%' OR city ILIKE '%\%%' OR amount > 900.5) AND amount > 500 GROUP BY 1 HAVING count(*) >= 2;

SELECT * FROM cube_load('{"dimensions": ["orders.status"], "measures": ["orders.count"], "filters": [{"member": "customers.city", "operator": "equals", "values": ["Bern", null]}, {"member": "orders.amount", "operator": "set"}, {"member": "orders.placed_at", "operator": "notInDateRange", "values": ["2024-01-01", "2024-01-31"]}, {"member": "orders.status", "operator": "notStartsWith", "values": ["op"]}]}');
SELECT status, count(*) FROM raw.orders o LEFT JOIN raw.customers c ON c.id = o.customer_id
WHERE (city = 'Bern' OR city IS NULL) AND amount IS NOT NULL AND (placed_at < '2024-01-01' OR placed_at >= '2024-02-01' OR placed_at IS NULL)
    AND (status NOT ILIKE 'op%' OR status IS NULL) GROUP BY 1;

SELECT * FROM cube_load('{"dimensions": ["orders.status", "orders.amount", "items.product"], "ungrouped": true}');
SELECT status, amount, product FROM raw.orders o LEFT JOIN raw.items i ON i.order_id = o.id;

SELECT * FROM cube_load('{"dimensions": ["orders.status"], "measures": ["orders.total", "orders.count"], "ungrouped": true, "filters": [{"member": "orders.total", "operator": "lt", "values": ["100"]}]}');
SELECT status, amount, 1 FROM raw.orders WHERE amount < 100;

SELECT x."sales.status", "sales.received" FROM cube_load('{"dimensions": ["sales.status"], "measures": ["sales.received"]}') x JOIN (VALUES ('paid'), ('open')) v (s) ON x."sales.status" = v.s;
SELECT status, sum(p.amount) FROM raw.orders o LEFT JOIN raw.payments p ON p.order_id = o.id WHERE status IN ('paid', 'open') GROUP BY 1;

SELECT * FROM cube_load('{"measures": ["customers.count", "orders.count"]}');
SELECT (SELECT count(*) FROM raw.customers c), (SELECT count(o.id) FROM raw.customers c JOIN raw.orders o ON o.customer_id = c.id);

-- What only a lateral sub-query refers to; rows that a join has not found; constants; rows of a scalar sub-query.
SELECT i.product FROM orders o, LATERAL (SELECT product FROM raw.items WHERE quantity = o.amount::int % 9) i;
SELECT i.product FROM raw.orders o, LATERAL (SELECT product FROM raw.items WHERE quantity = o.amount::int % 9) i;

SELECT x.n, MEASURE(total) FROM orders, LATERAL (SELECT count(*) AS n FROM raw.regions r WHERE r.city = orders.city) x GROUP BY 1;
SELECT (SELECT count(*) FROM raw.regions r WHERE r.city = c.city), sum(amount) FROM raw.orders o LEFT JOIN raw.customers c ON c.id = o.customer_id GROUP BY 1;

SELECT size, MEASURE(ones), MEASURE(stars), MEASURE(defaults), MEASURE(quantity) FROM sales GROUP BY 1;
SELECT CASE WHEN amount > 500 THEN 'large' WHEN amount > 100 THEN 'middle' ELSE 'small' END, sum(CASE WHEN i.id IS NOT NULL THEN 1 END), count(i.id),
    sum(CASE WHEN i.id IS NOT NULL THEN coalesce(quantity, 100) END), sum(quantity)
FROM raw.orders o LEFT JOIN raw.items i ON i.order_id = o.id GROUP BY 1;

SELECT MEASURE(with_nuts), MEASURE(count) FROM orders;
SELECT sum(amount) FILTER (WHERE EXISTS (SELECT FROM raw.items i WHERE i.order_id = o.id AND product = 'nut')), count(*) FROM raw.orders o;

SELECT count(NULL::int), count(1), count(*), sum(2) FROM orders;
SELECT 0, count(*), count(*), 2 * count(*) FROM raw.orders;

SELECT id, (SELECT total FROM sales WHERE amount = 37.25 AND status = 'open'), ARRAY(SELECT count FROM orders WHERE amount < 60 ORDER BY amount) FROM raw.customers WHERE id < 3;
SELECT id, (SELECT amount FROM raw.orders WHERE amount = 37.25 AND status = 'open'), ARRAY(SELECT 1::bigint FROM raw.orders WHERE amount < 60) FROM raw.customers WHERE id < 3;

SELECT sum(t) FROM (SELECT total * 2 AS t FROM orders) x;
SELECT sum(amount * 2) FROM raw.orders;
