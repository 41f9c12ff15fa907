CREATE SCHEMA raw;
CREATE TABLE raw.orders (
    id int PRIMARY KEY, market_code text, brand_code text, updated_at timestamptz, inserted_at timestamptz, customer_id int,
    total_amount numeric(12, 2), tax_amount numeric(12, 2), subtotal_amount numeric(12, 2)
);
CREATE TABLE raw.customers (id int PRIMARY KEY, name text, credit numeric(12, 2));
CREATE TABLE raw.items (id int PRIMARY KEY, order_id int, quantity int);
CREATE TABLE raw.payments (id int PRIMARY KEY, order_id int, amount numeric(12, 2));
INSERT INTO raw.customers SELECT g, CASE WHEN g % 9 = 0 THEN NULL ELSE 'c' || g % 20 END, g * 3.5 FROM generate_series(1, 60) g;
INSERT INTO raw.orders
SELECT g, CASE WHEN g % 5 < 2 THEN 'DE' ELSE (ARRAY['AT', 'BE', 'CH', 'de', 'DK', 'ES', 'FR', 'IT', 'NL', 'PL', 'SE'])[1 + g % 11] END,
    CASE WHEN g % 29 = 0 THEN NULL ELSE (ARRAY['Acme', 'acme', '50%', '5_', '500', 'Zed', 'b\c'])[1 + g % 7] || (ARRAY['', 'x', 'y', 'z'])[1 + g % 4] END,
    CASE WHEN g % 97 = 0 THEN NULL ELSE timestamptz '2023-12-28 00:00+00' + g * interval '8 hours 13 minutes 7.25 seconds' END,
    timestamptz '2023-12-28 00:00+00' + g * interval '8 hours', CASE WHEN g % 31 = 0 THEN NULL ELSE 1 + g * 7 % 70 END,
    CASE WHEN g % 43 = 0 THEN NULL ELSE g * 37 % 1000 + 0.25 END, g * 11 % 90 + 0.1, g % 700
FROM generate_series(1, 2000) g;
INSERT INTO raw.orders VALUES
    (3001, 'DE', 'Acme', '2024-01-10 23:59:59.999999+00', '2024-01-11 00:00+00', 1, 1, 0.1, 0.9),
    (3002, 'DE', 'Acme', '2024-12-31 23:59:59.999999+00', '2024-12-31 00:00+00', 2, 2, 0.2, 1.8),
    (3003, 'SE', 'Acme', '2024-03-10 09:59:59+00', '2024-03-10 00:00+00', 3, 4, 0.4, 3.6),
    (3004, 'SE', 'Zed', '2024-03-10 10:00:00+00', '2024-03-10 00:00+00', 3, 8, 0.8, 7.2),
    (3005, NULL, NULL, NULL, '2024-03-10 00:00+00', NULL, NULL, NULL, NULL),
    (3006, 'FI', 'solo', '2024-06-01 12:00+00', '2024-06-01 00:00+00', 4, 5000, 50, 4950);
INSERT INTO raw.items SELECT g, 1 + g * 13 % 2100, g % 9 FROM generate_series(1, 900) g;
INSERT INTO raw.payments SELECT g, 1 + g * 17 % 2050, g * 11 % 700 FROM generate_series(1, 700) g;
