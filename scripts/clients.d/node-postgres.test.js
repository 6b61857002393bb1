// node-postgres against the server that PGHOST and PGPORT name: queries, prepared statements, values, errors,
// transactions, a pool.
'use strict'

const test = require('node:test')
const assert = require('node:assert/strict')
const { Client, Pool } = require('pg')

async function connected(body) {
  const client = new Client()
  await client.connect()
  try {
    await body(client)
  } finally {
    await client.end()
  }
}

test('rows have the types of their columns', () =>
  connected(async (client) => {
    const { rows, fields, rowCount, command } = await client.query(
      `SELECT 1 AS a, 2::bigint AS b, 1.5::double precision AS c, 1.50::numeric AS d, true AS e, 'tea' AS f, NULL AS g,
        '2026-01-02T03:04:05Z'::timestamptz AS h, '{"x": [1, null]}'::jsonb AS i,
        '{1,2}'::integer[] AS j, '\\x00ff'::bytea AS k`
    )
    assert.deepEqual(rows, [
      {
        a: 1, b: '2', c: 1.5, d: '1.50', e: true, f: 'tea', g: null, h: new Date('2026-01-02T03:04:05Z'),
        i: { x: [1, null] },
        j: [1, 2], k: Buffer.from([0, 255]),
      },
    ])
    assert.deepEqual([rowCount, command], [1, 'SELECT'])
    assert.deepEqual(fields.slice(0, 4).map((field) => field.dataTypeID), [23, 20, 701, 1700])
  }))

test('parameters are values', () =>
  connected(async (client) => {
    await client.query('DROP TABLE IF EXISTS node_values')
    await client.query(
      `CREATE TABLE node_values (id integer PRIMARY KEY, t text, n numeric, b bytea, w timestamptz, j jsonb, a text[],
        f boolean)`
    )
    const row = {
      id: 1, t: "it's ü \\", n: '12345678901234567890.5', b: Buffer.from([1, 0, 255]), w: new Date(0), j: { a: [1] },
      a: ['x', 'y,z', null, '"'], f: false,
    }
    const inserted = await client.query(
      'INSERT INTO node_values VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING *', Object.values(row)
    )
    assert.deepEqual(inserted.rows, [row])
    const found = await client.query(
      'SELECT id FROM node_values WHERE t = $1 AND n = $2 AND w = $3 AND id = ANY($4)', [row.t, row.n, row.w, [1, 2]]
    )
    assert.deepEqual(found.rows, [{ id: 1 }])
    const text = 'SELECT id, t FROM node_values WHERE id = $1'
    const nothing = await client.query({ text, values: [2], rowMode: 'array' })
    assert.deepEqual([nothing.rows, nothing.fields.length], [[], 2])
  }))

test('prepared statements are run many times', () =>
  connected(async (client) => {
    await client.query('DROP TABLE IF EXISTS node_prepared')
    await client.query('CREATE TABLE node_prepared (id integer PRIMARY KEY, square bigint)')
    for (let id = 0; id < 100; id++) {
      const insert = { name: 'insert', text: 'INSERT INTO node_prepared VALUES ($1, $2)', values: [id, id * id] }
      assert.equal((await client.query(insert)).rowCount, 1)
    }
    for (let id = 0; id < 100; id++) {
      const find = { name: 'find', text: 'SELECT square FROM node_prepared WHERE id = $1', values: [id] }
      assert.deepEqual((await client.query(find)).rows, [{ square: String(id * id) }])
    }
    const updated = await client.query('UPDATE node_prepared SET square = square + 1 WHERE id < $1', [10])
    assert.deepEqual([updated.rowCount, updated.command], [10, 'UPDATE'])
  }))

test('several statements give several results', () =>
  connected(async (client) => {
    const results = await client.query("SELECT 1 AS a; SELECT 'b' AS b WHERE false; SELECT 3 AS c")
    assert.deepEqual(results.map(({ rows }) => rows), [[{ a: 1 }], [], [{ c: 3 }]])
  }))

test('errors have their codes and fields, and the connection goes on', () =>
  connected(async (client) => {
    await client.query('DROP TABLE IF EXISTS node_errors')
    await client.query('CREATE TABLE node_errors (id integer PRIMARY KEY, v text NOT NULL)')
    await client.query("INSERT INTO node_errors VALUES (1, 'x')")
    const cases = [
      [
        "INSERT INTO node_errors VALUES (1, 'y')",
        [],
        { code: '23505', constraint: 'node_errors_pkey', table: 'node_errors' },
      ],
      ['INSERT INTO node_errors VALUES ($1, $2)', [2, null], { code: '23502', column: 'v' }],
      ['SELECT * FROM nowhere', [], { code: '42P01', severity: 'ERROR' }],
      ['SELECT $1::integer', ['x'], { code: '22P02' }],
      ['SELEC 1', [], { code: '42601' }],
      ['SELECT 1 / $1::integer', [0], { code: '22012', message: 'division by zero' }],
    ]
    for (const [text, values, expected] of cases) {
      await assert.rejects(client.query(text, values), expected, text)
    }
    assert.deepEqual((await client.query('SELECT count(*)::integer AS n FROM node_errors')).rows, [{ n: 1 }])
  }))

test('transactions roll back, and say when they have failed', () =>
  connected(async (client) => {
    await client.query('DROP TABLE IF EXISTS node_transactions')
    await client.query('CREATE TABLE node_transactions (id integer PRIMARY KEY)')
    await client.query('BEGIN')
    await client.query('INSERT INTO node_transactions VALUES (1)')
    await assert.rejects(client.query('INSERT INTO node_transactions VALUES (1)'), { code: '23505' })
    await assert.rejects(client.query('SELECT 1'), { code: '25P02' })
    assert.equal((await client.query('COMMIT')).command, 'ROLLBACK')
    assert.equal((await client.query('SELECT * FROM node_transactions')).rowCount, 0)
  }))

test('a pool of eight', async () => {
  const pool = new Pool({ max: 8 })
  try {
    await pool.query('DROP TABLE IF EXISTS node_pool')
    await pool.query('CREATE TABLE node_pool (id integer PRIMARY KEY, n integer NOT NULL)')
    await pool.query('INSERT INTO node_pool SELECT id, 0 FROM generate_series(0, 3) AS id')
    // The server retries statements outside of transaction blocks.
    await Promise.all(
      Array.from({ length: 200 }, (_, at) => pool.query('UPDATE node_pool SET n = n + 1 WHERE id = $1', [at % 4]))
    )
    assert.deepEqual((await pool.query('SELECT n FROM node_pool ORDER BY id')).rows, Array(4).fill({ n: 50 }))
    // This test retries transactions that lose a conflict.
    const move = async (from, to) => {
      const client = await pool.connect()
      try {
        for (;;) {
          try {
            await client.query('BEGIN')
            const { rows } = await client.query('SELECT n FROM node_pool WHERE id = $1', [from])
            await client.query('UPDATE node_pool SET n = $2 WHERE id = $1', [from, rows[0].n - 1])
            await client.query('UPDATE node_pool SET n = n + 1 WHERE id = $1', [to])
            await client.query('COMMIT')
            return
          } catch (error) {
            assert.ok(['40001', '40P01'].includes(error.code), error)
            await client.query('ROLLBACK')
          }
        }
      } finally {
        client.release()
      }
    }
    await Promise.all(Array.from({ length: 80 }, (_, at) => move(at % 4, (at * 7 + 1) % 4)))
    assert.deepEqual((await pool.query('SELECT sum(n)::integer AS sum FROM node_pool')).rows, [{ sum: 200 }])
    assert.ok(pool.totalCount <= 8 && pool.totalCount > 1, `${pool.totalCount} connections`)
  } finally {
    await pool.end()
  }
})
