-- The statements that train `scripts/pgo`: each kind of plan, some thousand rows each.
CREATE TABLE customers (id bigint PRIMARY KEY, name text NOT NULL, city text, since date, credit numeric(12, 2));
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint NOT NULL, placed timestamp NOT NULL, total numeric(12, 2),
  note text);
CREATE TABLE lines (order_id bigint, number int, item text, quantity int, price double precision, tags jsonb,
  PRIMARY KEY (order_id, number));
INSERT INTO customers SELECT n, 'customer ' || n, 'city ' || n % 50, date '2020-01-01' + n % 1000, n * 1.25
  FROM generate_series(1, 5000) AS g(n);
INSERT INTO orders SELECT n, n * 7 % 5000 + 1, timestamp '2024-01-01' + n * interval '1 minute', n % 997 * 0.75,
  CASE WHEN n % 3 = 0 THEN 'urgent' END FROM generate_series(1, 20000) AS g(n);
INSERT INTO lines SELECT o, l, 'item ' || (o * l % 300), l + o % 7, o % 100 * 1.5,
  ('{"colour": "c' || o % 9 || '", "size": ' || l || '}')::jsonb
  FROM generate_series(1, 20000) AS a(o), generate_series(1, 3) AS b(l);
CREATE INDEX orders_by_customer ON orders (customer, placed);
CREATE INDEX lines_by_item ON lines (item);
ALTER TABLE customers ADD COLUMN points int DEFAULT 0;
ANALYZE;

SELECT count(*), sum(total), avg(total), min(placed), max(placed) FROM orders;
SELECT city, count(*), sum(credit), avg(credit) FROM customers GROUP BY city ORDER BY 3 DESC LIMIT 10;
SELECT c.name, count(*), sum(o.total) FROM customers c JOIN orders o ON o.customer = c.id
  WHERE c.city IN ('city 1', 'city 7') GROUP BY c.name HAVING sum(o.total) > 100 ORDER BY 3 DESC, 1 LIMIT 20;
SELECT o.id, l.item, l.quantity * l.price FROM orders o JOIN lines l ON l.order_id = o.id
  WHERE o.customer BETWEEN 100 AND 140 ORDER BY 3, 1, 2;
SELECT c.id FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.note = 'urgent' WHERE o.id IS NULL;
SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.total > 700);
SELECT item, sum(quantity) FROM lines WHERE tags ->> 'colour' = 'c3' GROUP BY item ORDER BY item;
SELECT upper(name), substr(city, 1, 4), length(name), since + 30, extract(year FROM since), credit::float8
  FROM customers WHERE name LIKE '%99%' OR city ~ '^city 4';
SELECT DISTINCT city FROM customers UNION SELECT item FROM lines EXCEPT SELECT 'city 1' ORDER BY 1;
WITH big AS (SELECT customer, sum(total) AS sum FROM orders GROUP BY customer)
  SELECT count(*) FROM big WHERE sum > (SELECT avg(sum) FROM big);
SELECT to_char(placed, 'YYYY-MM-DD'), count(*) FROM orders GROUP BY 1 ORDER BY 1;
UPDATE customers SET points = points + 1, credit = credit * 1.01 WHERE city = 'city 3';
UPDATE orders SET note = 'seen', total = total + 1 WHERE customer % 10 = 0;
DELETE FROM lines WHERE quantity > 8;
INSERT INTO customers (id, name) VALUES (1, 'again'), (6000, 'new') ON CONFLICT (id) DO UPDATE SET name = excluded.name
  RETURNING id, name;
BEGIN;
SELECT * FROM customers WHERE id = 17 FOR UPDATE;
SAVEPOINT here;
UPDATE customers SET points = 7 WHERE id = 17;
ROLLBACK TO here;
UPDATE customers SET points = 8 WHERE id = 17;
COMMIT;
EXPLAIN SELECT * FROM orders WHERE customer = 5 ORDER BY placed;
DROP INDEX lines_by_item;
TRUNCATE lines;
