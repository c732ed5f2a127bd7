import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import pg from 'pg';
import { testServices } from '#test/support/services.ts';
import { serviceEnvironment } from '../../scripts/launchers/service-environment.ts';

const MIGRATE = join(import.meta.dirname, '..', '..', 'scripts', 'migrate.ts');

describe('node scripts/migrate.ts', function () {
  this.timeout(120_000);
  const name = `migrated_${process.pid}`;
  let admin: pg.Client;
  let url: string;

  before(async () => {
    admin = new pg.Client(testServices().adminDatabaseUrl);
    await admin.connect();
    await admin.query(`create database ${name}`);
    url = Object.assign(new URL(testServices().adminDatabaseUrl), { pathname: `/${name}` }).href;
  });
  after(async () => {
    await admin.query(`drop database if exists ${name} with (force)`);
    await admin.end();
  });

  async function run(settings: Record<string, string>) {
    const child = spawn(process.execPath, [MIGRATE], { env: serviceEnvironment(settings, ['NODE_COMPILE_CACHE']) });
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    return { stdout, stderr, code };
  }

  async function query(sql: string): Promise<void> {
    const client = new pg.Client(url);
    await client.connect();
    await client.query(sql).finally(() => client.end());
  }

  it('runs every migration once, however many processes start at the same time', async () => {
    const ends = await Promise.all(Array.from({ length: 3 }, () => run({ DATABASE_URL: url })));
    expect(ends.map(({ code, stderr }) => ({ code, stderr }))).deep.equal(Array(3).fill({ code: 0, stderr: '' }));
    const said = ends.map(({ stdout }) => stdout).sort();
    expect(said.slice(0, 2)).deep.equal(Array(2).fill('The schema was up to date.\n'));
    expect(said[2]).match(/^applied 20261121000100_identity\.ts\n(applied .*\n)+The schema is up to date\.\n$/);
  });

  it('ignores the lock of a killed migration, and does not change the schema of a newer release', async () => {
    await query('update knex_migrations_lock set is_locked = 1');
    expect(await run({ DATABASE_URL: url })).include({ code: 0, stdout: 'The schema was up to date.\n' });
    const newer =
      "insert into knex_migrations (name, batch, migration_time) values ('29990101000000_next.ts', 9, now())";
    await query(newer);
    const stdout = 'The schema belongs to a newer release and was not changed.\n';
    expect(await run({ DATABASE_URL: url })).include({ code: 0, stdout });
  });

  it('reports an error in one line, without the database password', async () => {
    expect(await run({})).include({ code: 1, stderr: 'wrong setting DATABASE_URL: is required\n' });
    const { code, stderr } = await run({ DATABASE_URL: 'postgres://user:hidden-password@127.0.0.1:1/none' });
    expect(code).equal(1);
    expect(stderr).match(/^DATABASE_URL: the database could not be reached or migrated: [^\n]+\n$/);
    expect(stderr).not.include('hidden-password');
  });
});
