-- What the directories beside this file hold: a server of another version ran it and was stopped by SIGTERM. Statements that every
-- version knows, and nothing that differs from one run to the next.
CREATE TABLE kinds (
    id int4 PRIMARY KEY, small int2, large int8, single float4, double float8, exact numeric(15, 2), free numeric, yes bool, words text,
    padded char(5), bounded varchar(12), bytes bytea, day date, at timestamp, zoned timestamptz, clock time, span interval, key uuid,
    document jsonb, list int4[]);
INSERT INTO kinds
SELECT g, g % 300, g * 10000000000, g / 7.0, g / 3.0, g * 1.25, g / 8.0, g % 2 = 0, 'row ' || g || repeat('é', g % 9), g % 1000, 'v' || g % 50,
    decode(lpad(to_hex(g), 8, '0'), 'hex'), date '2020-01-01' + g, timestamp '2020-01-01' + g * interval '1 hour',
    timestamptz '2020-01-01 00:00+00' + g * interval '1 minute', time '00:00' + g * interval '1 second', g * interval '1 day',
    lpad(to_hex(g), 32, '0')::uuid, ('{"a": ' || g || '}')::jsonb, ARRAY[g, NULL, g + 1]
FROM generate_series(1, 450) g;
INSERT INTO kinds (id) VALUES (1001), (1002);

-- Kept by itself in a blob, and what is removed of it later.
CREATE TABLE events (id int8, kind text, amount numeric(12, 2));
INSERT INTO events SELECT g, 'kind ' || g % 5, g * 0.5 FROM generate_series(1, 6000) g;
UPDATE events SET amount = amount + 1 WHERE id % 11 = 0;
DELETE FROM events WHERE id % 13 = 0;
INSERT INTO events SELECT * FROM events WHERE id <= 20;
INSERT INTO events VALUES (NULL, NULL, NULL), (-1, '', -0.5);

CREATE TABLE customers (id int4 PRIMARY KEY, name text NOT NULL UNIQUE, city text DEFAULT 'Bern' CHECK (city <> ''));
INSERT INTO customers (id, name) SELECT g, 'customer ' || g FROM generate_series(1, 200) g;
CREATE TABLE orders (id int4 PRIMARY KEY, customer int4, total int8);
INSERT INTO orders SELECT g, 1 + g % 200, g * 3 FROM generate_series(1, 2000) g;
DELETE FROM orders WHERE id % 17 = 0;
UPDATE orders SET total = -total WHERE id % 100 = 1;
CREATE SEQUENCE numbers START 5 INCREMENT 3;
SELECT nextval('numbers'), nextval('numbers');

CREATE VIEW by_kind AS SELECT kind, count(*) AS count, sum(amount) AS sum FROM events GROUP BY kind;
CREATE INDEX by_kind_kind ON by_kind (kind);
CREATE MATERIALIZED VIEW by_city AS
SELECT city, count(*) AS orders, sum(total) AS total FROM customers JOIN orders ON customer = customers.id GROUP BY city;
CREATE INDEX events_id ON events (id);
