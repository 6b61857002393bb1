// Knex, Sequelize, TypeORM and Drizzle against PGHOST and PGPORT: schemas made, changed and read back; relations.
'use strict';
const assert = require('node:assert');
const { test } = require('node:test');

const host = process.env.PGHOST, port = +process.env.PGPORT, user = process.env.PGUSER, database = process.env.PGDATABASE;

test('knex: migrations, relations, upserts, streams', async (t) => {
  const knex = require('knex')({ client: 'pg', connection: { host, port, user, database }, pool: { min: 0, max: 4 } });
  t.after(() => knex.destroy());
  const steps = [
    {
      name: '1_first',
      up: (k) => k.schema
        .createTable('owners', (c) => { c.increments(); c.string('name').notNullable().unique(); c.timestamps(true, true); })
        .createTable('pets', (c) => {
          c.bigIncrements();
          c.integer('owner_id').unsigned().notNullable().references('id').inTable('owners').onDelete('CASCADE').index();
          c.enu('kind', ['cat', 'dog'], { useNative: true, enumName: 'pet_kind' });
          c.jsonb('extra').defaultTo('{}');
          c.decimal('weight', 8, 3).checkPositive('weight_is_positive');
        }),
      down: (k) => k.schema.dropTable('pets').dropTable('owners').raw('DROP TYPE pet_kind'),
    },
    {
      name: '2_second',
      up: (k) => k.schema.alterTable('pets', (c) => {
        c.text('note').nullable(); c.double('weight').alter(); c.unique(['owner_id', 'kind']);
      }).alterTable('pets', (c) => c.renameColumn('weight', 'mass')).createViewOrReplace('cats', (v) => v.as(k('pets').where('kind', 'cat').select('id', 'owner_id'))),
      down: (k) => k.schema.dropView('cats').alterTable('pets', (c) => {
        c.dropUnique(['owner_id', 'kind']); c.dropColumn('note'); c.renameColumn('mass', 'weight');
      }),
    },
  ];
  const migrationSource = {
    getMigrations: async () => steps, getMigrationName: (s) => s.name, getMigration: async (s) => s,
  };
  await knex.migrate.latest({ migrationSource });
  const [anna, ben] = await knex('owners').insert([{ name: 'Anna' }, { name: 'Ben' }]).returning('id');
  await knex('pets').insert([{ owner_id: anna.id, kind: 'cat', mass: 4.5 }, { owner_id: anna.id, kind: 'dog', extra: { a: 1 } }]);
  await knex('owners').insert({ name: 'Ben' }).onConflict('name').merge({ updated_at: knex.fn.now() });
  const counts = await knex('owners').leftJoin('pets', 'owners.id', 'pets.owner_id').groupBy('owners.id').orderBy('owners.id')
    .select('owners.name').count('pets.id as n');
  assert.deepStrictEqual(counts, [{ name: 'Anna', n: '2' }, { name: 'Ben', n: '0' }]);
  assert.strictEqual((await knex('cats')).length, 1);
  await assert.rejects(knex('pets').insert({ owner_id: 4711 }), { code: '23503' });
  await knex.transaction(async (trx) => {
    await trx('pets').where({ kind: 'dog' }).update({ note: 'barks' });
    await assert.rejects(trx.transaction((inner) => inner('owners').insert({ name: 'Anna' })), { code: '23505' });
    assert.strictEqual((await trx('owners').forUpdate()).length, 2);
  });
  assert.ok(await knex.schema.hasTable('pets'));
  assert.ok((await knex('pets').columnInfo()).note.nullable);
  await knex('owners').where({ id: anna.id }).del();
  assert.deepStrictEqual(await knex('pets'), []);
  assert.ok(ben.id > anna.id);
  await knex.migrate.rollback({ migrationSource }, true);
  assert.ok(!(await knex.schema.hasTable('pets')));
  await knex.schema.dropTable('knex_migrations').dropTable('knex_migrations_lock');
});

test('sequelize: models, associations, sync with changes, transactions', async (t) => {
  const { Sequelize, DataTypes, Op, ForeignKeyConstraintError, UniqueConstraintError } = require('sequelize');
  const db = new Sequelize({ dialect: 'postgres', host, port, username: user, database, logging: false });
  t.after(() => db.close());
  const User = db.define('User', {
    name: { type: DataTypes.STRING(40), allowNull: false, unique: true },
    role: { type: DataTypes.ENUM('admin', 'guest'), defaultValue: 'guest' },
    tags: DataTypes.ARRAY(DataTypes.STRING), extra: DataTypes.JSONB, key: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4 },
  }, { indexes: [{ fields: ['role', 'name'] }] });
  const Post = db.define('Post', { title: DataTypes.TEXT, score: DataTypes.DECIMAL(10, 2) });
  const Label = db.define('Label', { text: { type: DataTypes.STRING, primaryKey: true } }, { timestamps: false });
  User.hasMany(Post, { onDelete: 'CASCADE' }); Post.belongsTo(User);
  Post.belongsToMany(Label, { through: 'PostLabels' }); Label.belongsToMany(Post, { through: 'PostLabels' });
  await db.sync({ force: true });
  const anna = await User.create({ name: 'Anna', role: 'admin', tags: ['a', 'b'], extra: { deep: { n: 1 } } });
  const posts = await Post.bulkCreate([1, 2, 3].map((n) => ({ title: `t${n}`, score: n, UserId: anna.id })), { returning: true });
  await Label.bulkCreate([{ text: 'x' }, { text: 'y' }]);
  await posts[0].setLabels(['x', 'y']);
  const found = await User.findOne({ where: { 'extra.deep.n': 1, tags: { [Op.contains]: ['a'] } }, include: { model: Post, include: Label } });
  assert.deepStrictEqual(found.Posts.map((p) => p.Labels.length).sort(), [0, 0, 2]);
  const { count, rows } = await Post.findAndCountAll({ where: { score: { [Op.gt]: 1 } }, order: [['score', 'DESC']], limit: 1 });
  assert.deepStrictEqual([count, rows[0].title], [2, 't3']);
  const [, created] = await User.upsert({ name: 'Anna', role: 'guest' });
  assert.ok(created !== true);
  await assert.rejects(User.create({ name: 'Anna' }), UniqueConstraintError);
  await assert.rejects(Post.create({ UserId: 4711 }), ForeignKeyConstraintError);
  await assert.rejects(db.transaction(async (transaction) => {
    await Post.destroy({ where: {}, transaction });
    throw new Error('undo');
  }), /undo/);
  assert.strictEqual(await Post.count(), 3);
  await Post.increment({ score: 5 }, { where: { title: 't1' } });
  await User.destroy({ where: { name: 'Anna' } });
  assert.strictEqual(await Post.count(), 0);
  db.define('Post', { title: DataTypes.STRING(100), score: DataTypes.DECIMAL(10, 2), likes: { type: DataTypes.INTEGER, defaultValue: 0 } });
  await db.sync({ alter: true });
  await db.sync({ alter: true });
  const columns = await db.getQueryInterface().describeTable('Posts');
  assert.deepStrictEqual([columns.likes.type, columns.title.type], ['INTEGER', 'CHARACTER VARYING(100)']);
  await db.drop({});
});

test('typeorm: entities become a schema, and nothing is left to change', async (t) => {
  require('reflect-metadata');
  const { DataSource, EntitySchema } = require('typeorm');
  const person = (extra) => new EntitySchema({
    name: 'Person', tableName: 'person',
    columns: {
      id: { type: 'int', primary: true, generated: true }, name: { type: 'varchar', length: 50 },
      mail: { type: 'varchar', unique: true, nullable: true }, born: { type: 'date', nullable: true },
      kind: { type: 'enum', enum: ['a', 'b'], default: 'a' }, data: { type: 'jsonb', nullable: true },
      tags: { type: 'text', array: true, default: () => "'{}'" }, made: { type: 'timestamp with time zone', createDate: true }, ...extra,
    },
    relations: { photos: { type: 'one-to-many', target: 'Photo', inverseSide: 'owner' } },
    indices: [{ columns: ['name', 'born'] }], checks: [{ expression: '"name" <> \'\'' }],
  });
  const photo = new EntitySchema({
    name: 'Photo', tableName: 'photo',
    columns: { id: { type: 'uuid', primary: true, generated: 'uuid' }, size: { type: 'bigint' }, ratio: { type: 'numeric', precision: 8, scale: 2, nullable: true } },
    relations: {
      owner: { type: 'many-to-one', target: 'Person', inverseSide: 'photos', onDelete: 'CASCADE', nullable: false, joinColumn: true },
      albums: { type: 'many-to-many', target: 'Album', joinTable: true },
    },
  });
  const album = new EntitySchema({ name: 'Album', tableName: 'album', columns: { name: { type: 'varchar', primary: true } } });
  const open = async (entities) => new DataSource({ type: 'postgres', host, port, username: user, database, entities }).initialize();
  let db = await open([person({}), photo, album]);
  t.after(async () => { if (db.isInitialized) await db.destroy(); });
  await db.synchronize(true);
  assert.deepStrictEqual((await db.driver.createSchemaBuilder().log()).upQueries.map((q) => q.query), []);
  const people = db.getRepository('Person'), photos = db.getRepository('Photo');
  const anna = await people.save({ name: 'Anna', mail: 'a@x', data: { a: [1] }, tags: ['x'] });
  await db.getRepository('Album').save([{ name: 'one' }, { name: 'two' }]);
  await photos.save([1, 2, 3].map((n) => ({ size: String(n), owner: anna, albums: n === 1 ? [{ name: 'one' }, { name: 'two' }] : [] })));
  const loaded = await people.findOne({ where: { name: 'Anna' }, relations: { photos: { albums: true } } });
  assert.deepStrictEqual(loaded.photos.map((p) => p.albums.length).sort(), [0, 0, 2]);
  const [page, count] = await photos.createQueryBuilder('p').innerJoin('p.owner', 'o').where('o.name = :n', { n: 'Anna' })
    .orderBy('p.size', 'DESC').skip(1).take(1).getManyAndCount();
  assert.deepStrictEqual([page[0].size, count], ['2', 3]);
  await people.upsert({ mail: 'a@x', name: 'Anne' }, ['mail']);
  await db.transaction('SERIALIZABLE', async (m) => { await m.getRepository('Person').increment({ mail: 'a@x' }, 'id', 0); });
  await assert.rejects(photos.insert({ size: '1', owner: { id: 4711 } }), (e) => e.driverError.code === '23503');
  await db.destroy();
  db = await open([person({ height: { type: 'double precision', default: 1.5 }, mail: { type: 'text', unique: true, nullable: true } }), photo, album]);
  await db.synchronize();
  assert.deepStrictEqual((await db.driver.createSchemaBuilder().log()).upQueries.map((q) => q.query), []);
  assert.strictEqual((await db.getRepository('Person').find())[0].height, 1.5);
  await db.dropDatabase();
});

test('drizzle: typed queries, relations, and the schema read back', async (t) => {
  const { drizzle } = require('drizzle-orm/node-postgres');
  const { pgTable, serial, text, integer, jsonb, timestamp, numeric, pgEnum } = require('drizzle-orm/pg-core');
  const { eq, sql, relations, desc, count } = require('drizzle-orm');
  const { Pool } = require('pg');
  const pool = new Pool({ host, port, user, database });
  t.after(() => pool.end());
  const mood = pgEnum('mood', ['sad', 'ok']);
  const users = pgTable('users', { id: serial('id').primaryKey(), name: text('name').notNull().unique(), mood: mood('mood'), made: timestamp('made').defaultNow() });
  const posts = pgTable('posts', { id: serial('id').primaryKey(), author: integer('author').references(() => users.id), body: jsonb('body'), price: numeric('price') });
  const schema = {
    users, posts,
    usersRelations: relations(users, ({ many }) => ({ posts: many(posts) })),
    postsRelations: relations(posts, ({ one }) => ({ author: one(users, { fields: [posts.author], references: [users.id] }) })),
  };
  const db = drizzle(pool, { schema });
  await db.execute(sql`CREATE TYPE mood AS ENUM ('sad', 'ok')`);
  await db.execute(sql`CREATE TABLE users (id serial PRIMARY KEY, name text NOT NULL UNIQUE, mood mood, made timestamp DEFAULT now())`);
  await db.execute(sql`CREATE TABLE posts (id serial PRIMARY KEY, author int REFERENCES users(id), body jsonb, price numeric)`);
  const [anna] = await db.insert(users).values([{ name: 'Anna', mood: 'ok' }, { name: 'Ben' }]).returning();
  await db.insert(posts).values([1, 2, 3].map((n) => ({ author: anna.id, body: { n }, price: String(n) })));
  const nested = await db.query.users.findMany({ with: { posts: { orderBy: [desc(posts.id)], limit: 2 } }, orderBy: [users.id] });
  assert.deepStrictEqual(nested.map((u) => u.posts.map((p) => p.body.n)), [[3, 2], []]);
  const rows = await db.select({ name: users.name, n: count(posts.id) }).from(users).leftJoin(posts, eq(posts.author, users.id))
    .groupBy(users.id).orderBy(users.id);
  assert.deepStrictEqual(rows, [{ name: 'Anna', n: 3 }, { name: 'Ben', n: 0 }]);
  await db.insert(users).values({ name: 'Ben' }).onConflictDoUpdate({ target: users.name, set: { mood: 'sad' } });
  await assert.rejects(db.transaction(async (tx) => { await tx.delete(posts); tx.rollback(); }));
  assert.strictEqual(await db.$count(posts), 3);
  const cte = db.$with('rich').as(db.select().from(posts).where(sql`${posts.price} > 1`));
  assert.strictEqual((await db.with(cte).select().from(cte)).length, 2);
  await db.execute(sql`DROP TABLE posts, users; DROP TYPE mood`);
});
