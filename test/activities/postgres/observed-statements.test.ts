import { expect } from 'chai';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { testServices } from '#test/support/services.ts';

describe('observed statements', () => {
  it('reports the statements of a transaction, its begin and end, and the class of a failure', async () => {
    const heard: [string, string | undefined][] = [];
    const db = createDatabase({
      url: testServices().databaseUrl,
      maxConnections: 1,
      applicationName: 'test',
      onStatement: (sql) => (failure) => heard.push([sql.split(/[ ;]/)[0]?.toLowerCase() ?? '', failure]),
    });
    try {
      await db.transaction(async (trx) => {
        await trx('teams').first('id');
        await trx.transaction((nested) => nested.raw('update teams set name = name where false'));
      });
      const failed = await db.transaction((trx) => trx.raw('select 1 / 0')).catch((error) => error);
      expect(failed.code).equal('22012');
    } finally {
      await db.destroy();
    }
    expect(heard).deep.equal([
      ['begin', undefined],
      ['select', undefined],
      ['savepoint', undefined],
      ['update', undefined],
      ['release', undefined],
      ['commit', undefined],
      ['begin', undefined],
      ['select', 'sqlstate_22'],
      ['rollback', undefined],
    ]);
  });
});
