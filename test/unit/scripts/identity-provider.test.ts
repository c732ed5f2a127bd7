import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';
import { checkIsInstalled, howToSignIn, openLocalProvider } from '../../../scripts/launchers/identity-provider.ts';
import { StartFailure } from '../../../scripts/supervisor/start-failure.ts';

describe('the identity provider of npm start', () => {
  const dataDir = useTemporaryFolder();
  const open = (given: Record<string, string> = {}) => openLocalProvider(dataDir(), { port: 3020 }, given);

  it('keeps its accounts and keys for the next start, in files that only their owner can read', async () => {
    const { folder } = await open();
    expect(folder.accounts.map(({ login, claims }) => [login, claims.email_verified])).to.deep.equal([
      ['grace@example.com', true],
      ['mallory@example.com', false],
    ]);
    expect((await open()).folder).to.deep.equal(folder);
    expect(statSync(folder.path).mode & 0o777).to.equal(0o700);
    for (const name of readdirSync(folder.path)) {
      expect(statSync(join(folder.path, name)).mode & 0o777, name).to.equal(0o600);
    }
  });

  it('reads edited accounts from its file, and reports errors in the file', async () => {
    const { accountsPath } = (await open()).folder;
    const account = { sub: '1', login: 'Alan@Example.com', password: 'x', claims: { email: 'alan@example.com' } };
    writeFileSync(accountsPath, JSON.stringify([account]));
    expect((await open()).folder.accounts).to.deep.equal([{ ...account, login: 'alan@example.com' }]);
    writeFileSync(accountsPath, JSON.stringify([{ ...account, password: 7 }]));
    expect(await failureOf(open())).to.match(/accounts\.json: 0\.password: /);
    writeFileSync(accountsPath, '[');
    expect(await failureOf(open())).to.match(/accounts\.json: the file is not valid JSON$/);
    expect(readFileSync(accountsPath, 'utf8'), 'left as it is').to.equal('[');
  });

  it('returns the user to its own final page, or to the frontend that the settings name', async () => {
    const own = await open();
    expect(own.settings).to.include({
      SSO_ISSUER: 'http://127.0.0.1:3020',
      SSO_REDIRECT_URI: 'http://127.0.0.1:3020/signed-in',
      SSO_REDIRECT_ORIGINS: 'http://127.0.0.1:3020',
    });
    expect(howToSignIn(own, 'http://127.0.0.1:3000').join('\n')).to.include('the request that the last page shows');
    const SSO_REDIRECT_URI = 'http://localhost:5173/done';
    const frontend = await open({ SSO_REDIRECT_URI, SSO_REDIRECT_ORIGINS: 'https://app.example' });
    expect(frontend.settings).to.include({
      SSO_REDIRECT_URI,
      SSO_REDIRECT_ORIGINS: 'http://127.0.0.1:3020,http://localhost:5173,https://app.example',
    });
    expect(howToSignIn(frontend, 'http://127.0.0.1:3000').join('\n')).to.include(`comes back to ${SSO_REDIRECT_URI}`);
  });

  it('requires its npm package, and fails if the settings name another provider', async () => {
    expect(() => checkIsInstalled('oidc-provider')).not.to.throw();
    expect(() => checkIsInstalled('no-such-provider')).to.throw(StartFailure, 'needs the package no-such-provider');
    expect(await failureOf(open({ SSO_ISSUER: 'https://id.example' }))).to.match(/^SSO_ISSUER names another provider/);
  });
});

async function failureOf(work: Promise<unknown>): Promise<string> {
  const error: unknown = await work.catch((reason) => reason);
  expect(error).to.be.instanceOf(StartFailure);
  return error instanceof Error ? error.message : '';
}
