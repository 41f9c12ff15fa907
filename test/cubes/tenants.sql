CREATE SCHEMA raw;
CREATE TABLE raw.clients (id int PRIMARY KEY, name text);
CREATE TABLE raw.invoices (id int PRIMARY KEY, client_id int, tenant text, amount numeric(10, 2), note text, sent_at timestamp);
INSERT INTO raw.clients SELECT g, 'client ' || g FROM generate_series(1, 8) g;
INSERT INTO raw.invoices
SELECT g, CASE WHEN g % 9 = 0 THEN NULL ELSE 1 + g % 8 END, (ARRAY['a', 'b', 'c', 'ann', NULL])[1 + g % 5], g * 7 % 1000 + 0.5,
    (ARRAY['50%_off', '50 percent', NULL, 'x50%_y'])[1 + g % 4], timestamp '2024-01-01' + g * interval '7 hours'
FROM generate_series(1, 300) g;
