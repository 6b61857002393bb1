-- Scans, joins, groups and sorts of some 300,000 rows, and joins of eight tables without indexes. With the times of each:
--   psql -X -f scripts/joins.sql
\timing on
CREATE TABLE big (id int PRIMARY KEY, k int, g int, v int, t text);
INSERT INTO big SELECT i, i % 1000, i % 17, (i::bigint * 7919 % 1000003)::int, 'text ' || i FROM generate_series(1, 300000) i;
CREATE TABLE other (x int, k int, w int);
INSERT INTO other SELECT (i * 13) % 300000, i % 500, i FROM generate_series(1, 300000) i;
CREATE TABLE dim (k int PRIMARY KEY, name text);
INSERT INTO dim SELECT i, 'n' || i FROM generate_series(0, 999) i;
CREATE TABLE t1 (a1 int, b1 int, c1 int, d1 int PRIMARY KEY);
INSERT INTO t1 SELECT i * 101 % 997, i * 37 % 997, i * 11 % 997, i FROM generate_series(0, 999) i;
CREATE TABLE t2 (a2 int, b2 int, c2 int, d2 int PRIMARY KEY);
INSERT INTO t2 SELECT i * 211 % 997, i * 53 % 997, i * 13 % 997, i FROM generate_series(0, 999) i;
CREATE TABLE t3 (a3 int, b3 int, c3 int, d3 int PRIMARY KEY);
INSERT INTO t3 SELECT i * 307 % 997, i * 71 % 997, i * 17 % 997, i FROM generate_series(0, 999) i;
CREATE TABLE t4 (a4 int, b4 int, c4 int, d4 int PRIMARY KEY);
INSERT INTO t4 SELECT i * 401 % 997, i * 89 % 997, i * 19 % 997, i FROM generate_series(0, 999) i;
CREATE TABLE t5 (a5 int, b5 int, c5 int, d5 int PRIMARY KEY);
INSERT INTO t5 SELECT i * 503 % 997, i * 97 % 997, i * 23 % 997, i FROM generate_series(0, 999) i;
CREATE TABLE t6 (a6 int, b6 int, c6 int, d6 int PRIMARY KEY);
INSERT INTO t6 SELECT i * 601 % 997, i * 113 % 997, i * 29 % 997, i FROM generate_series(0, 999) i;
CREATE TABLE t7 (a7 int, b7 int, c7 int, d7 int PRIMARY KEY);
INSERT INTO t7 SELECT i * 701 % 997, i * 127 % 997, i * 31 % 997, i FROM generate_series(0, 999) i;
CREATE TABLE t8 (a8 int, b8 int, c8 int, d8 int PRIMARY KEY);
INSERT INTO t8 SELECT i * 809 % 997, i * 139 % 997, i * 41 % 997, i FROM generate_series(0, 999) i;
ANALYZE;
\echo the measured ones
SELECT count(*), sum(v) FROM big JOIN other ON other.x = big.id;
SELECT count(*), sum(o.w) FROM big b JOIN other o ON o.x = b.v;
SELECT d.name, count(*) FROM big b JOIN dim d ON d.k = b.k GROUP BY d.name ORDER BY 1 LIMIT 3;
SELECT count(*) FROM other o WHERE EXISTS (SELECT 1 FROM big b WHERE b.v = o.x);
SELECT count(*) FROM other o WHERE NOT EXISTS (SELECT 1 FROM big b WHERE b.id = o.x);
SELECT count(*) FROM big WHERE id IN (5, 7, 1000, 5000, 77777);
SELECT count(*) FROM big WHERE id IN (SELECT x FROM other);
SELECT k, count(*), max(t) FROM big GROUP BY k ORDER BY k LIMIT 3;
SELECT v FROM big ORDER BY v DESC LIMIT 5;
SELECT count(*) FROM (SELECT id, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM big) s WHERE n = 1;
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 100000) SELECT sum(n) FROM r;
SELECT count(*) FROM t1, t3, t5, t7, t2, t4, t6, t8
  WHERE a1 = b2 AND a2 = b3 AND a3 = b4 AND a4 = b5 AND a5 = b6 AND a6 = b7 AND a7 = b8 AND c1 IN (5, 17, 99, 200);
SELECT count(*) FROM t8, t1, t6, t3, t5, t2, t7, t4
  WHERE a1 = d2 AND a2 = d3 AND a3 = d4 AND a4 = d5 AND a5 = d6 AND a6 = d7 AND a7 = d8 AND (c1 = 5 OR c1 = 700);
SELECT count(*) FROM t1 LEFT JOIN t2 ON a1 = b2 LEFT JOIN t3 ON a2 = b3 LEFT JOIN t4 ON a3 = b4 JOIN t5 ON c1 = c5;
SELECT count(*) FROM big;
SELECT sum(v) FROM big;
SELECT count(*) FROM big WHERE v < 500;
SELECT count(DISTINCT v) FROM big;
SELECT g, sum(v) FROM big GROUP BY g ORDER BY g LIMIT 3;
