import { globSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect } from 'chai';
import type { Knex } from 'knex';
import { BaseModel, tableModel } from '#src/adapters/postgres/base-model.ts';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { integerColumn, textArrayColumn, textColumn, uuidColumn } from '#src/adapters/postgres/shapes.ts';
import { testServices } from '#test/support/services.ts';

/** Tables that need no model, with the reason. */
const withoutModel: Record<string, string> = {
  knex_migrations: 'belongs to knex',
  knex_migrations_lock: 'belongs to knex',
};

type Model = typeof BaseModel;
type Table = { columns: Map<string, string>; primaryKey: string[] };

describe('models', () => {
  let db: Knex;
  let tables: Map<string, Table>;
  let models: Model[];

  before(async () => {
    db = createDatabase({ url: testServices().databaseUrl, maxConnections: 1, applicationName: 'test' });
    tables = await readTables(db);
    models = await loadModels();
  });

  after(() => db.destroy());

  it('have the columns, types, nullability and primary keys of the migrated tables', () => {
    expect(models.flatMap((model) => differencesOf(model, tables.get(model.tableName)))).deep.equal([]);
  });

  it('exist once per table', () => {
    const names = [...models.map(({ tableName }) => tableName), ...Object.keys(withoutModel)];
    expect(names.sort()).deep.equal([...tables.keys()].sort());
  });

  it('fail the comparison with a missing or additional column, or another type, nullability or primary key', () => {
    class WrongModel extends tableModel(
      'hidden_drafts',
      { orgId: textColumn(), userId: uuidColumn().nullable(), color: textArrayColumn() },
      'userId',
    ) {}
    expect(differencesOf(WrongModel, tables.get('hidden_drafts'))).deep.equal([
      'hidden_drafts.org_id: the table has uuid not null, the model text not null',
      'hidden_drafts.user_id: the table has uuid not null, the model uuid',
      'hidden_drafts.draft_id: the table has uuid not null, the model nothing',
      'hidden_drafts.color: the table has nothing, the model text[] not null',
      'hidden_drafts: the primary key is (user_id, draft_id), that of the model (user_id)',
    ]);
    class LostModel extends tableModel('lost', { id: integerColumn() }) {}
    expect(differencesOf(LostModel, tables.get('lost'))).deep.equal(['lost: there is no such table']);
  });
});

function differencesOf({ tableName, columns, idColumn }: Model, table: Table | undefined): string[] {
  if (table === undefined) return [`${tableName}: there is no such table`];
  const modelled = new Map(
    Object.entries(columns).map(([name, { type, isNullable }]) => [
      snakeCase(name),
      `${type}${isNullable ? '' : ' not null'}`,
    ]),
  );
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
