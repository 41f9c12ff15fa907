CREATE SCHEMA raw;
CREATE TABLE raw.customers (id int PRIMARY KEY, city text, credit numeric(12, 2));
CREATE TABLE raw.orders (id int PRIMARY KEY, customer_id int, status text, amount numeric(10, 2), placed_at timestamptz);
CREATE TABLE raw.items (id int PRIMARY KEY, order_id int, product text, quantity int);
CREATE TABLE raw.products (name text PRIMARY KEY, price numeric(8, 2), maker text);
CREATE TABLE raw.payments (id int PRIMARY KEY, order_id int, amount numeric(10, 2));
CREATE TABLE raw.regions (city text, region text);
INSERT INTO raw.customers SELECT g, (ARRAY['Bern', 'Basel', 'bern', NULL, 'Genf'])[1 + g % 5], g * 10.5 FROM generate_series(1, 40) g;
INSERT INTO raw.orders
SELECT g, CASE WHEN g % 11 = 0 THEN NULL ELSE 1 + g * 7 % 45 END, (ARRAY['paid', 'open', 'sent', NULL])[1 + g % 4],
    CASE WHEN g % 13 = 0 THEN NULL ELSE g * 37 % 1000 + 0.25 END,
    CASE WHEN g % 17 = 0 THEN NULL ELSE timestamptz '2023-11-01 00:00+00' + g * interval '31 hours' END
FROM generate_series(1, 200) g;
INSERT INTO raw.items SELECT g, 1 + g * 3 % 230, (ARRAY['apple', 'pear', 'plum', 'nut', NULL])[1 + g % 5], g % 9 FROM generate_series(1, 400) g;
INSERT INTO raw.products VALUES ('apple', 1.5, 'Hans'), ('pear', 2.25, 'Hans'), ('plum', 0.75, NULL);
INSERT INTO raw.payments SELECT g, 1 + g * 5 % 210, g * 11 % 700 FROM generate_series(1, 150) g;
INSERT INTO raw.regions VALUES ('Bern', 'west'), ('Bern', 'middle'), ('Basel', 'north'), ('Genf', 'west'), ('Zug', 'middle');
