// Prisma on node-postgres against PGHOST and PGPORT: its schema engine and its client, both as WebAssembly.
'use strict';
const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, test } = require('node:test');

// Where the packages are, and what is generated.
const place = process.env.PRISMA;
const from = (name) => require(require.resolve(name, { paths: [place] }));
const { PrismaPg } = from('@prisma/adapter-pg');
const { bindMigrationAwareSqlAdapterFactory } = from('@prisma/driver-adapter-utils');
const { Client, Pool } = from('pg');

// The adapter does not know PostgreSQL's type "char", of which the schema engine reads columns: it is told that they are
// texts.
const { query } = Client.prototype;
Client.prototype.query = function told(...given) {
  const fix = (result) => {
    for (const field of result?.fields ?? []) if (field.dataTypeID === 18) field.dataTypeID = 25;
    return result;
  };
  const last = given.at(-1);
  if (typeof last === 'function') given[given.length - 1] = (error, result) => last(error, fix(result));
  const answer = query.apply(this, given);
  return answer?.then ? answer.then(fix) : answer;
};

const server = {
  host: process.env.PGHOST, port: +process.env.PGPORT, user: process.env.PGUSER, database: process.env.PGDATABASE,
};
const HEAD = `
generator client {
  provider = "prisma-client-js"
  output   = "./generated"
}
datasource db {
  provider = "postgresql"
}
`;
const MODELS = `
enum Mood {
  sad
  happy
}
model Owner {
  id    Int      @id @default(autoincrement())
  name  String   @unique @db.VarChar(40)
  since DateTime @default(now()) @db.Timestamptz(6)
  pets  Pet[]
}
model Pet {
  id      BigInt    @id @default(autoincrement())
  ownerId Int
  owner   Owner     @relation(fields: [ownerId], references: [id], onDelete: Cascade)
  name    String
  mood    Mood?     @default(happy)
  tags    String[]
  extra   Json?
  weight  Decimal?  @db.Decimal(8, 3)
  height  Float?
  raw     Bytes?
  code    String?   @default(dbgenerated("gen_random_uuid()")) @db.Uuid
  born    DateTime? @db.Date
  toys    Toy[]

  @@unique([ownerId, name])
  @@index([name, weight(sort: Desc)])
}
model Toy {
  name String @id
  pets Pet[]

  @@map("toys")
}
`;
const LATER = MODELS.replace('  toys    Toy[]', '  toys    Toy[]\n  calm    Boolean @default(true)')
  .replace('  name String @id', '  name String @id @db.VarChar(80)\n  price Int?')
  .replace('  happy\n', '  happy\n  proud\n').replace('@@index([name, weight(sort: Desc)])', '@@index([weight])');
let client, connections, generated;

async function run(text) {
  const conn = new Client(server);
  await conn.connect();
  try {
    return (await conn.query(text)).rows;
  } finally {
    await conn.end();
  }
}

// The package loads WebAssembly in a way that Node calls experimental; this is the same by hand.
async function wasm() {
  const directory = path.dirname(require.resolve('@prisma/schema-engine-wasm', { paths: [place] }));
  const bindings = await import(path.join(directory, 'schema_engine_bg.js'));
  const bytes = fs.readFileSync(path.join(directory, 'schema_engine_bg.wasm'));
  const { instance } = await WebAssembly.instantiate(bytes, { './schema_engine_bg.js': bindings });
  bindings.__wbg_set_wasm(instance.exports);
  instance.exports.__wbindgen_start();
  return bindings.SchemaEngine;
}
let SchemaEngine;

const pool = (schema) => new Pool({ ...server, max: 5, options: `-c search_path=${schema}` });

async function engine(schema, use) {
  SchemaEngine ??= await wasm();
  const connections = pool(schema);
  const factory = bindMigrationAwareSqlAdapterFactory(new PrismaPg(connections, { schema }));
  const one = await SchemaEngine.new({ datamodels: [['schema.prisma', HEAD]] }, () => {}, factory);
  try {
    return await use(one);
  } finally {
    one.free();
    await connections.end();
  }
}

const files = (models) => ({ files: [{ path: 'schema.prisma', content: HEAD + models }] });
const filters = { externalTables: [], externalEnums: [] };
const push = (one, models, force = false) => one.schemaPush({ force, schema: files(models), filters });

before(async () => {
  await run('DROP SCHEMA IF EXISTS prisma CASCADE; CREATE SCHEMA prisma');
  const schema = path.join(place, 'schema.prisma');
  fs.writeFileSync(schema, HEAD + MODELS);
  // The name of another engine keeps it from looking for its own, which this command does not use.
  const env = { ...process.env, CHECKPOINT_DISABLE: '1', PRISMA_SCHEMA_ENGINE_BINARY: process.execPath };
  const command = path.join(place, 'node_modules', 'prisma', 'build', 'index.js');
  execFileSync(process.execPath, [command, 'generate', '--schema', schema], { env, cwd: place, stdio: 'pipe', timeout: 60_000 });
  generated = require(path.join(place, 'generated'));
  await engine('prisma', (one) => push(one, MODELS));
  connections = pool('prisma');
  client = new generated.PrismaClient({ adapter: new PrismaPg(connections, { schema: 'prisma' }) });
});

after(async () => {
  await client?.$disconnect();
  await connections?.end();
  await run('DROP SCHEMA prisma CASCADE');
});

test('a schema is pushed, changed and read back', async () => {
  await run('DROP SCHEMA IF EXISTS pushed CASCADE; CREATE SCHEMA pushed');
  await engine('pushed', async (one) => {
    assert.ok((await push(one, MODELS)).executedSteps > 0);
    assert.strictEqual((await push(one, MODELS)).executedSteps, 0);
    const read = await one.introspect({
      schema: files(''), baseDirectoryPath: '/', force: true, compositeTypeDepth: -1, namespaces: null,
    });
    const words = read.schema.files[0].content.replace(/ +/g, ' ');
    for (const part of [
      'name String @unique @db.VarChar(40)', 'since DateTime @default(now()) @db.Timestamptz(6)',
      'Owner Owner @relation(fields: [ownerId], references: [id], onDelete: Cascade)', 'mood Mood? @default(happy)',
      'tags String[]', 'weight Decimal? @db.Decimal(8, 3)', '@default(dbgenerated("gen_random_uuid()")) @db.Uuid',
      '@@unique([ownerId, name])', '@@index([name, weight(sort: Desc)])', 'model toys {', 'id BigInt @id @default(autoincrement())',
    ]) assert.ok(words.includes(part), `no ${part} in ${words}`);
    const models = read.schema.files[0].content.replace(/(generator client|datasource db) \{[^}]*\}/g, '');
    assert.strictEqual((await push(one, models)).executedSteps, 0);
    await run(`INSERT INTO pushed."Owner" (name) VALUES ('Anna'); INSERT INTO pushed."Pet" ("ownerId", name, mood, tags) VALUES (1, 'Rex', 'sad', '{a}')`);
    const changed = await push(one, LATER);
    assert.ok(changed.executedSteps > 0 && changed.unexecutable.length === 0, JSON.stringify(changed));
    assert.strictEqual((await push(one, LATER)).executedSteps, 0);
    const risky = await push(one, LATER.replace('  tags    String[]', ''));
    assert.deepStrictEqual([risky.executedSteps, risky.warnings.length], [0, 1]);
    assert.deepStrictEqual(await run('SELECT calm, mood::text FROM pushed."Pet"'), [{ calm: true, mood: 'sad' }]);
    assert.ok((await push(one, '', true)).executedSteps > 0);
    assert.deepStrictEqual(await run(`SELECT tablename FROM pg_tables WHERE schemaname = 'pushed'`), []);
  });
  await run('DROP SCHEMA pushed CASCADE');
});

test('migrations are applied', async () => {
  await run('DROP SCHEMA IF EXISTS migrated CASCADE; CREATE SCHEMA migrated');
  const list = (...texts) => ({
    baseDir: '/migrations', lockfile: { path: './migration_lock.toml', content: 'provider = "postgresql"' }, shadowDbInitScript: '',
    migrationDirectories: texts.map((text, at) => ({
      path: `2024010${at + 1}000000_step`, migrationFile: { path: 'migration.sql', content: { tag: 'ok', value: text } },
    })),
  });
  await engine('migrated', async (one) => {
    const script = async (from, to) => (await one.diff({ from, to, script: true, exitCode: null, filters, shadowDatabaseUrl: null })).stdout;
    const models = (text) => ({ tag: 'schemaDatamodel', ...files(text) });
    const first = await script({ tag: 'empty' }, models(MODELS));
    const second = await script(models(MODELS), models(LATER));
    assert.match(first, /CREATE TABLE "Owner"/);
    assert.match(second, /ALTER TABLE "Pet" ADD COLUMN/);
    const apply = async (...texts) => (await one.applyMigrations({ migrationsList: list(...texts), filters })).appliedMigrationNames;
    assert.deepStrictEqual(await apply(first), ['20240101000000_step']);
    assert.deepStrictEqual(await apply(first, second), ['20240102000000_step']);
    assert.deepStrictEqual(await apply(first, second), []);
    assert.strictEqual((await push(one, LATER)).executedSteps, 0);
    const history = await one.diagnoseMigrationHistory({
      migrationsList: list(first, second), optInToShadowDatabase: false, filters,
    });
    assert.deepStrictEqual([history.history, history.failedMigrationNames, history.editedMigrationNames], [null, [], []]);
    await assert.rejects(apply(first, second, 'SELECT nothing;'), /nothing/);
    await one.markMigrationRolledBack({ migrationName: '20240103000000_step' });
    assert.deepStrictEqual(await apply(first, second, 'CREATE TABLE later (a int); SELECT 1;'), ['20240103000000_step']);
    const state = await run('SELECT count(*)::int AS n FROM migrated._prisma_migrations WHERE finished_at IS NOT NULL');
    assert.deepStrictEqual(state, [{ n: 3 }]);
    await one.reset({ filter: filters });
    assert.deepStrictEqual(await run(`SELECT tablename FROM pg_tables WHERE schemaname = 'migrated'`), []);
  });
  await run('DROP SCHEMA IF EXISTS migrated CASCADE');
});

test('rows with relations are written and read', async () => {
  const anna = await client.owner.create({
    data: {
      name: 'Anna',
      pets: {
        create: [
          { name: 'Rex 🐕', tags: ['a', 'b,"'], extra: { size: [1, null], at: { home: true } }, weight: '12.340', mood: 'sad',
            raw: Uint8Array.of(0, 255), born: new Date('2024-02-29'), height: 0.1, toys: { create: [{ name: 'ball' }, { name: 'bone' }] } },
          { name: 'Tom' },
        ],
      },
    },
    include: { pets: { include: { toys: { orderBy: { name: 'asc' } } }, orderBy: { id: 'asc' } } },
  });
  const [rex, tom] = anna.pets;
  assert.ok(rex.id < tom.id && typeof rex.id === 'bigint' && tom.mood === 'happy' && /^[0-9a-f-]{36}$/.test(tom.code));
  assert.deepStrictEqual([rex.tags, rex.extra, rex.weight.toFixed(3), [...rex.raw], rex.born.toISOString(), rex.height],
    [['a', 'b,"'], { size: [1, null], at: { home: true } }, '12.340', [0, 255], '2024-02-29T00:00:00.000Z', 0.1]);
  assert.deepStrictEqual(rex.toys.map((toy) => toy.name), ['ball', 'bone']);
  assert.ok(Math.abs(anna.since - Date.now()) < 3600_000);
  const many = await client.owner.create({ data: { name: 'Ben' } });
  const made = await client.pet.createMany({
    data: Array.from({ length: 50 }, (_, at) => ({ ownerId: many.id, name: `pet ${at}`, weight: at })), skipDuplicates: true,
  });
  assert.strictEqual(made.count, 50);
  const names = async (where) => (await client.pet.findMany({ where, orderBy: { id: 'asc' }, select: { name: true } })).map((p) => p.name);
  assert.deepStrictEqual(await names({ tags: { has: 'a' } }), ['Rex 🐕']);
  assert.deepStrictEqual(await names({ extra: { path: ['at', 'home'], equals: true } }), ['Rex 🐕']);
  assert.deepStrictEqual(await names({ toys: { some: { name: 'bone' } }, mood: { in: ['sad'] } }), ['Rex 🐕']);
  assert.deepStrictEqual(await names({ owner: { name: { contains: 'AN', mode: 'insensitive' } }, NOT: { mood: 'sad' } }), ['Tom']);
  assert.deepStrictEqual(await names({ OR: [{ weight: { gt: 48 } }, { born: { lt: new Date() } }] }), ['Rex 🐕', 'pet 49']);
  const counted = await client.owner.findMany({ include: { _count: { select: { pets: true } } }, orderBy: { pets: { _count: 'desc' } } });
  assert.deepStrictEqual(counted.map((owner) => [owner.name, owner._count.pets]), [['Ben', 50], ['Anna', 2]]);
  const page = await client.pet.findMany({ where: { ownerId: many.id }, orderBy: { weight: 'desc' }, take: 2, skip: 1,
    cursor: { ownerId_name: { ownerId: many.id, name: 'pet 40' } } });
  assert.deepStrictEqual(page.map((pet) => pet.name), ['pet 39', 'pet 38']);
  const sums = await client.pet.groupBy({ by: ['ownerId'], _sum: { weight: true }, _count: true, having: { weight: { _avg: { gt: 20 } } } });
  assert.deepStrictEqual(sums.map((row) => [row.ownerId, Number(row._sum.weight), row._count]), [[many.id, 1225, 50]]);
  const both = await client.pet.aggregate({ _max: { weight: true }, _min: { born: true }, _avg: { height: true } });
  assert.deepStrictEqual([Number(both._max.weight), both._avg.height], [49, 0.1]);
  const changed = await client.pet.updateMany({ where: { ownerId: many.id, weight: { lt: 10 } }, data: { weight: { increment: 100 } } });
  assert.strictEqual(changed.count, 10);
  for (const expected of ['new', 'Cara']) {
    const cara = await client.owner.upsert({ where: { name: expected === 'new' ? 'new' : 'new' }, create: { name: 'new' },
      update: { name: 'Cara' } });
    assert.strictEqual(cara.name, expected);
  }
  await client.pet.update({ where: { id: rex.id }, data: { toys: { disconnect: { name: 'ball' }, connectOrCreate: { where: { name: 'rope' }, create: { name: 'rope' } } }, tags: { push: 'c' } } });
  assert.deepStrictEqual(await client.pet.findUnique({ where: { id: rex.id }, select: { tags: true, toys: { orderBy: { name: 'asc' } } } }),
    { tags: ['a', 'b,"', 'c'], toys: [{ name: 'bone' }, { name: 'rope' }] });
  const raw = await client.$queryRaw`SELECT count(*) AS n, ${'x'}::text AS t, ${[1, 2]}::int[] AS list FROM "Pet" WHERE "ownerId" = ${many.id}`;
  assert.deepStrictEqual(raw, [{ n: 50n, t: 'x', list: [1, 2] }]);
  assert.strictEqual(await client.$executeRaw`DELETE FROM "Pet" WHERE name LIKE ${'pet %'}`, 50);
  await client.owner.deleteMany();
  assert.strictEqual(await client.pet.count(), 0);
});

test('transactions and errors', async () => {
  await client.owner.create({ data: { name: 'Dan', pets: { create: { name: 'Rex', weight: 0 } } } });
  await assert.rejects(client.owner.create({ data: { name: 'Dan' } }), { code: 'P2002' });
  await assert.rejects(client.pet.create({ data: { ownerId: 4711, name: 'x' } }), { code: 'P2003' });
  await assert.rejects(client.owner.update({ where: { name: 'nobody' }, data: { name: 'x' } }), { code: 'P2025' });
  await assert.rejects(client.$queryRaw`SELECT nothing`, { code: 'P2010' });
  await assert.rejects(client.$transaction([
    client.owner.create({ data: { name: 'Eva' } }), client.owner.create({ data: { name: 'Dan' } }),
  ]), { code: 'P2002' });
  assert.strictEqual(await client.owner.count(), 1);
  const level = { isolationLevel: 'ReadCommitted', timeout: 20_000, maxWait: 20_000 };
  await Promise.all(Array.from({ length: 10 }, () => client.$transaction(async (tx) => {
    await tx.pet.updateMany({ data: { weight: { increment: 1 } } });
    return tx.pet.findFirst();
  }, level)));
  assert.strictEqual(Number((await client.pet.findFirst()).weight), 10);
  // Of two that read what the other writes, one loses.
  const serializable = { isolationLevel: 'Serializable', timeout: 20_000 };
  let arrived = 0, open;
  const both = new Promise((resolve) => { open = resolve; });
  const results = await Promise.allSettled(['one', 'two'].map((name) => client.$transaction(async (tx) => {
    const count = await tx.owner.count();
    if (++arrived === 2) open();
    await both;
    await tx.owner.create({ data: { name: `${name} ${count}` } });
  }, serializable)));
  // By an error of Prisma's own, or, at COMMIT, by that of the adapter.
  const lost = results.filter((result) => result.status === 'rejected').map((result) => result.reason);
  assert.deepStrictEqual(lost.map((reason) => reason.code ?? reason.cause.originalCode).map((code) => code.replace('P2034', '40001')), ['40001']);
  await client.owner.deleteMany();
});
