import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import type { Knex } from 'knex';
import { tableModel } from '#src/adapters/postgres/base-model.ts';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { isUniqueViolation } from '#src/adapters/postgres/errors.ts';
import {
  bigintColumn,
  defineRowShape,
  integerColumn,
  jsonColumn,
  pickColumns,
  queryFirstRow,
  queryOneRow,
  queryRows,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import { testServices } from '#test/support/services.ts';

class ParentModel extends tableModel('parents', {
  id: uuidColumn(),
  fullName: textColumn(),
  tags: textArrayColumn(),
}) {}

class ChildModel extends tableModel('children', {
  id: uuidColumn(),
  parentId: uuidColumn(),
  firstSeenAt: timestampColumn().nullable(),
  detail: jsonColumn<{ some_key: string[] } | string[]>(),
  kind: textColumn<'big' | 'small'>(),
}) {}

describe('models and shapes', () => {
  const parent = { id: randomUUID(), fullName: 'Ada', tags: ['a', 'b'] };
  const child = { id: randomUUID(), parentId: parent.id, firstSeenAt: null, kind: 'big' as const };
  let pool: Knex;
  let db: Knex.Transaction;

  before(async () => {
    pool = createDatabase({ url: testServices().databaseUrl, maxConnections: 1, applicationName: 'test' });
    db = await pool.transaction();
    await db.raw('create temp table parents (id uuid primary key, full_name text not null, tags text[] not null)');
    await db.raw(
      `create temp table children (id uuid primary key, parent_id uuid not null, first_seen_at timestamptz,
         detail jsonb not null, kind text not null)`,
    );
    await ParentModel.query(db).insert(parent);
    await ChildModel.query(db).insert({ ...child, detail: ['x', 'y'] });
  });

  after(async () => {
    await db.rollback();
    await pool.destroy();
  });

  it('writes and reads rows whose jsonb contents keep their keys', async () => {
    const changed = await ChildModel.query(db)
      .patch({ detail: { some_key: ['z'] } })
      .where({ id: child.id })
      .returning('*');
    const row: SqlRow<typeof ChildModel> | undefined = changed[0];
    expect({ ...row }).deep.equal({ ...child, detail: { some_key: ['z'] } });
    expect(JSON.parse(JSON.stringify(row))).deep.equal({ ...child, detail: { some_key: ['z'] } });
    await ChildModel.query(db)
      .patch({ detail: ['x', 'y'] })
      .findById(child.id);
    expect(await ChildModel.query(db).findById(child.id)).deep.equal({ ...child, detail: ['x', 'y'] });
  });

  it("throws Postgres's own errors", async () => {
    const failed = await db
      .transaction(async (nested) => ParentModel.query(nested).insert(parent))
      .catch((error) => error);
    expect(failed.code).equal('23505');
    expect(isUniqueViolation(failed, 'parents_pkey')).equal(true);
  });

  it('selects some columns with their types', async () => {
    const found: { id: string; kind: 'big' | 'small' } | undefined = await ChildModel.table(db)
      .where({ parentId: parent.id })
      .first('id', 'kind');
    expect(found).deep.equal({ id: child.id, kind: 'big' });
  });

  it('returns the rows of SQL text, and of queries of knex and objection', async () => {
    const named = defineRowShape({
      ...pickColumns(ChildModel, 'id', 'firstSeenAt').columns,
      fullName: textColumn(),
      total: bigintColumn(),
    });
    const expected = [{ id: child.id, firstSeenAt: null, fullName: 'Ada', total: 1 }];
    const sql = `select c.id, c.first_seen_at, p.full_name, count(*) over () as total
      from children c join parents p on p.id = c.parent_id where p.tags && :tags`;
    expect(await queryRows(db, named, sql, { tags: ['b'] })).deep.equal(expected);
    const columns = ['c.id', 'c.firstSeenAt', 'p.fullName', db.raw('count(*) over () as total')];
    const joined = db('children as c').join('parents as p', 'p.id', 'c.parentId').whereIn('c.kind', ['big', 'small']);
    expect(await queryRows(db, named, joined.whereRaw('p.tags && ?', [['b']]).select(columns))).deep.equal(expected);
    const counted = ParentModel.query(db)
      .join('children', 'children.parentId', 'parents.id')
      .select('children.id', 'children.firstSeenAt', 'fullName', db.raw('count(*) over () as total'));
    expect(await queryRows(db, named, counted.whereRaw('?? && ?', ['tags', ['b']]))).deep.equal(expected);
    expect(await queryFirstRow(db, ChildModel, ChildModel.query(db).where('kind', 'small'))).equal(undefined);
  });

  it('fails if the columns of the result do not match the shape', async () => {
    const failure = async (attempt: Promise<unknown>) => attempt.then(String, (error: Error) => error.message);
    const sql = 'select full_name, 1 as count, null::text as color from parents';
    expect(
      await failure(
        queryRows(db, defineRowShape({ count: bigintColumn(), color: textColumn(), other: uuidColumn() }), sql),
      ),
    ).equal(
      'The result of the statement does not match its shape: "full_name" is not in the shape, "count" is integer and not bigint, "other" is missing.',
    );
    const complete = { fullName: textColumn(), count: integerColumn(), color: textColumn() };
    expect(await failure(queryRows(db, defineRowShape(complete), sql))).equal(
      'Column "color" is null, but its shape is not nullable.',
    );
    expect(await queryRows(db, defineRowShape({ ...complete, color: textColumn().nullable() }), sql)).length(1);
    expect(await failure(queryOneRow(db, pickColumns(ParentModel, 'id'), 'select id from parents where false'))).equal(
      'the statement returned 0 rows instead of one',
    );
    expect(await failure(queryRows(db, defineRowShape({ id: uuidColumn() }), 'select id, id from parents'))).contain(
      'the same name',
    );
  });
});
