import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect } from 'chai';

const root = resolve(import.meta.dirname, '../..');

/** Where the type of a result is asserted all the same: each with the reason. */
const asserted: Record<string, string> = {
  'src/adapters/postgres/base-model.ts': 'the columns of a model are compared with the schema',
  'src/adapters/postgres/shapes.ts': 'the columns of a shape were compared with the result',
  'src/modules/consents/one-time-states.repository.ts': 'the model of a type parameter, whose columns are its facts',
  'src/adapters/postgres/idempotency-keys.ts': 'JSON within text, as the service has written it',
  'src/modules/chat/round-events.repository.ts': 'JSON within text, as the service has written it',
  'src/adapters/postgres/database.ts': 'what knex migrates, and one column of a connection without knex',
  'src/modules/credentials/credentials.repository.ts':
    'tables of a parameter: rows are read by a shape, the rest counts',
  'src/modules/erasure/erasure.repository.ts': 'tables of a list, whose rows are deleted and counted',
};

const patterns = {
  'a type argument for a result': /\.(select|first|returning|pluck|raw|query|delete|del|update)</,
  'a type argument for a table': /\b(db|trx)<(?!\{ columns)/,
  'a cast of rows': /\b(rows?|result|found) as (?!const\b)[A-Z{]|\) as (unknown as|[A-Z{])/,
  'a table by its name, whose rows are of any type': /\b(db|trx)\((?!'[^']+ as |this\.tableName)[^)]/,
  'rows of a statement in text': /\{ rows\b[^}]*\} = await [^;]*\.(raw|query)\(|\.raw\([^;]*\)\)\.rows/,
  'a query that names its table last': /\b(db|trx)\.(select|from|with)\(/,
  'a join that is read without its shape':
    /(await|return) (whereReadableByActor\()?(db|trx)\('[^']+ as [^;]*\.(select|first|returning|pluck)\(/,
  'a plucked column whose property has another name': /\.pluck\('\w*[A-Z_]/,
};

describe('types of database results', () => {
  it('come from models and row shapes, not from type assertions', () => {
    const found = globSync(
      'src/{modules/**/*.{repository,model},modules/store-audit/**/*,adapters/{postgres,vectors}/**/*}.ts',
      { cwd: root },
    ).flatMap((path) =>
      Object.entries(patterns)
        .filter(([, pattern]) => pattern.test(readFileSync(resolve(root, path), 'utf8')))
        .map(([name]) => ({ path, name })),
    );
    expect(found.filter(({ path }) => !(path in asserted))).deep.equal([]);
    expect(new Set(found.map(({ path }) => path))).deep.equal(new Set(Object.keys(asserted)));
  });
});
