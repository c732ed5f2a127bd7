import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { readInstallation } from '../../../scripts/admin/installation.ts';
import { openSecrets } from '../../../scripts/secrets.ts';
import { StartFailure } from '../../../scripts/supervisor/start-failure.ts';

describe('the installation that npm run admin works on', () => {
  let dataDir: string;
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'admin-'));
  });
  afterEach(() => rm(dataDir, { recursive: true }));

  const env = (given: Record<string, string> = {}) => ({ DATA_DIR: dataDir, TOOLS_DIR: '/tools', ...given });
  const failureOf = (given?: Record<string, string>) =>
    readInstallation(env(given)).catch((error: unknown) => {
      expect(error).instanceOf(StartFailure);
      return String(error);
    });

  it('uses the settings of npm start if the data folder has secrets', async () => {
    const { postgresPassword } = await openSecrets(dataDir, {});
    const { database, temporal } = await readInstallation(env({ POSTGRES_PORT: '5001', TEMPORAL_PORT: '5002' }));
    expect(database.url).include(`:${encodeURIComponent(postgresPassword)}@127.0.0.1:5001/`);
    expect(temporal.address).equal('127.0.0.1:5002');
  });

  it('uses external services that the settings name', async () => {
    await openSecrets(dataDir, {});
    const { database } = await readInstallation(env({ DATABASE_URL: 'postgres://db.example/acs' }));
    expect(database.url).equal('postgres://db.example/acs');
  });

  it('fails without an installation, and names wrong settings', async () => {
    expect(await failureOf()).include(`There is no installation in ${dataDir}`);
    expect(await failureOf({ DATABASE_URL: 'postgres://db.example/acs' })).match(/wrong setting TEMPORAL_ADDRESS/);
    expect(await readdir(dataDir)).deep.equal([]);
  });
});
