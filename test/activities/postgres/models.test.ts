import { randomUUID } from 'node:crypto';
import { globSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect } from 'chai';
import type { Knex } from 'knex';
import { BaseModel, tableModel } from '#src/adapters/postgres/base-model.ts';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { isUniqueViolation } from '#src/adapters/postgres/errors.ts';
import * as shapes from '#src/adapters/postgres/shapes.ts';
import { testServices, useTestDatabase } from '#test/support/services.ts';

const { bigintColumn, defineRowShape, integerColumn, queryOneRow, queryRows, textColumn, uuidColumn } = shapes;

class ParentModel extends tableModel('parents', { id: uuidColumn() }) {}

type Model = typeof BaseModel;
type Table = { columns: Map<string, string>; primaryKey: string[] };

describe('the database models in the code', () => {
  const own = useTestDatabase();

  it('exist once for each migrated table, with its columns, types, nullability and primary key', async () => {
    const [tables, models] = [await readTables(own.db), await loadModels()];
    const names = [...models.map(({ tableName }) => tableName), 'knex_migrations', 'knex_migrations_lock'];
    expect(names.sort()).deep.equal([...tables.keys()].sort());
    expect(models.flatMap((each) => differencesOf(each, tables.get(each.tableName)))).deep.equal([]);
  });
});

function differencesOf({ tableName, columns, idColumn }: Model, table: Table | undefined): string[] {
  if (table === undefined) return [`${tableName}: there is no such table`];
  const typeOf = ({ type, isNullable }: Model['columns'][string]) => `${type}${isNullable ? '' : ' not null'}`;
  const modelled = new Map(Object.entries(columns).map(([name, column]) => [snakeCase(name), typeOf(column)]));
  const differences = [...new Set([...table.columns.keys(), ...modelled.keys()])].flatMap((name) => {
    const [inTable, inModel] = [table.columns.get(name) ?? 'nothing', modelled.get(name) ?? 'nothing'];
    return inTable === inModel ? [] : [`${tableName}.${name}: the table has ${inTable}, the model ${inModel}`];
  });
  const [key, modelKey] = [table.primaryKey, [idColumn].flat().map(snakeCase)].map((names) => names.join(', '));
  if (key !== modelKey) differences.push(`${tableName}: the primary key is (${key}), that of the model (${modelKey})`);
  return differences;
}

const snakeCase = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

async function readTables(db: Knex): Promise<Map<string, Table>> {
  const { rows } = await db.raw<{ rows: { name: string; columns: [string, string][]; primaryKey: string[] }[] }>(
    `select t.relname as name,
       (select jsonb_agg(jsonb_build_array(c.attname,
          format_type(c.atttypid, null)
            || case when c.attnotnull then ' not null' else '' end) order by c.attnum)
        from pg_attribute c where c.attrelid = t.oid and c.attnum > 0 and not c.attisdropped) as columns,
       coalesce((
         select array_agg(c.attname::text order by k.place)
         from pg_index i
         -- Included columns are behind those of the key.
         cross join unnest(i.indkey::int[]) with ordinality as k (attnum, place)
         join pg_attribute c on c.attrelid = i.indrelid and c.attnum = k.attnum
         where i.indrelid = t.oid and i.indisprimary and k.place <= i.indnkeyatts), '{}') as "primaryKey"
     from pg_class t
     where t.relnamespace = 'public'::regnamespace and t.relkind in ('r', 'p') and not t.relispartition`,
  );
  return new Map(rows.map(({ name, columns, primaryKey }) => [name, { columns: new Map(columns), primaryKey }]));
}

async function loadModels(): Promise<Model[]> {
  const root = resolve(import.meta.dirname, '../../..');
  const loaded = await Promise.all(
    globSync('src/{modules,adapters}/**/*.model.ts', { cwd: root }).map((file) => import(resolve(root, file))),
  );
  return loaded.flatMap((exported) => Object.values<Model>(exported).filter((it) => it.prototype instanceof BaseModel));
}

describe('SQL statements', () => {
  const heard: string[] = [];
  let pool: Knex;
  let db: Knex.Transaction;
  before(async () => {
    const onStatement = (sql: string) => (failure?: string) =>
      heard.push([sql.split(/[ ;]/)[0], failure].join(' ').trim().toLowerCase());
    const connection = { url: testServices().databaseUrl, maxConnections: 1, applicationName: 'test' };
    pool = createDatabase({ ...connection, onStatement });
    db = await pool.transaction();
    await db.raw('create temp table parents (id uuid primary key)');
  });
  after(async () => {
    await db.rollback();
    await pool.destroy();
  });

  it('fail if the columns of the result do not match the declared row shape', async () => {
    const sql = `select 'Ada' as full_name, 1 as count, null::text as color`;
    const complete = { fullName: textColumn(), count: integerColumn(), color: textColumn() };
    const other = { count: bigintColumn(), color: textColumn(), other: uuidColumn() };
    const failure = (attempt: Promise<unknown>) => attempt.then(String, (error: Error) => error.message);
    const query = (columns: Parameters<typeof defineRowShape>[0], statement = sql) =>
      failure(queryRows(db, defineRowShape(columns), statement));
    const unlike = '"full_name" is not in the shape, "count" is integer and not bigint, "other" is missing.';
    expect(await query(other)).contain(unlike);
    expect(await query(complete)).contain('Column "color" is null, but its shape is not nullable.');
    expect(await query({ count: integerColumn() }, 'select 1 as count, 2 as count')).contain('the same name');
    const none = failure(queryOneRow(db, ParentModel, 'select id from parents'));
    expect(await none).contain('the statement returned 0 rows instead of one');
    expect(await queryRows(db, defineRowShape({ ...complete, color: textColumn().nullable() }), sql)).deep.equal([
      { fullName: 'Ada', count: 1, color: null },
    ]);
  });

  it('fail with the unchanged error of Postgres; a listener is told each statement, and the error class if it failed', async () => {
    const parent = { id: randomUUID() };
    await ParentModel.query(db).insert(parent);
    heard.length = 0;
    const failed = await db
      .transaction(async (nested) => ParentModel.query(nested).insert(parent))
      .catch((error) => error);
    expect(failed.code).equal('23505');
    expect(isUniqueViolation(failed, 'parents_pkey')).equal(true);
    await db.transaction((nested) => nested('parents').first('id'));
    const failing = ['savepoint', 'insert sqlstate_23', 'rollback'];
    expect(heard).deep.equal([...failing, 'savepoint', 'select', 'release']);
  });
});
