import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { createEmptyDatabase } from '#test/support/services.ts';
import { serviceEnvironment } from '../../scripts/launchers/service-environment.ts';

const MIGRATE = join(import.meta.dirname, '..', '..', 'scripts', 'migrate.ts');

describe('node scripts/migrate.ts', function () {
  this.timeout(120_000);
  let database: Awaited<ReturnType<typeof createEmptyDatabase>>;
  before(async () => {
    database = await createEmptyDatabase();
  });
  after(() => database.drop());

  async function run(settings: Record<string, string>) {
    const child = spawn(process.execPath, [MIGRATE], { env: serviceEnvironment(settings, ['NODE_COMPILE_CACHE']) });
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    return { stdout, stderr, code };
  }
  const migrate = () => run({ DATABASE_URL: database.url });

  it('runs every migration once, however many processes start at the same time', async () => {
    const ends = await Promise.all([migrate(), migrate(), migrate()]);
    expect(ends.map(({ code, stderr }) => ({ code, stderr }))).deep.equal(Array(3).fill({ code: 0, stderr: '' }));
    const said = ends.map(({ stdout }) => stdout).sort();
    expect(said.slice(0, 2)).deep.equal(Array(2).fill('The schema was up to date.\n'));
    expect(said[2]).match(/^applied 20261121000100_identity\.ts\n(applied .*\n)+The schema is up to date\.\n$/);
  });

  it('ignores the lock of a killed migration, and does not change the schema of a newer release', async () => {
    const db = createDatabase({ url: database.url, maxConnections: 1, applicationName: 'test' });
    await db('knex_migrations_lock').update({ isLocked: 1 });
    expect(await migrate()).include({ code: 0, stdout: 'The schema was up to date.\n' });
    await db('knex_migrations').insert({ name: '29990101000000_next.ts', batch: 9, migrationTime: new Date() });
    await db.destroy();
    const stdout = 'The schema belongs to a newer release and was not changed.\n';
    expect(await migrate()).include({ code: 0, stdout });
  });

  it('reports an error in one line, without the database password', async () => {
    expect(await run({})).include({ code: 1, stderr: 'wrong setting DATABASE_URL: is required\n' });
    const { code, stderr } = await run({ DATABASE_URL: 'postgres://user:hidden-password@127.0.0.1:1/none' });
    expect(code).equal(1);
    expect(stderr).match(/^DATABASE_URL: the database could not be reached or migrated: [^\n]+\n$/);
    expect(stderr).not.include('hidden-password');
  });
});
