import { mkdtemp, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { loadConfig } from '#src/config.ts';
import { runAdmin } from '#test/support/admin-command.ts';
import { aColleague, freshEmail } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { commands } from '../../scripts/admin/commands.ts';
import { errorReason } from '../../scripts/admin/output.ts';

describe('npm run admin, for accounts and keys', function () {
  this.timeout(60_000);
  let own: Stack;
  let ada: Member;
  let grace: Member;

  before(async () => {
    own = await startStack({}, { workers: false });
    ada = await own.signUp();
    grace = await aColleague(own, ada, 'Grace');
  });
  after(() => own.close());

  /** Runs a command in this process. @returns its output; throws its error */
  async function admin(name: string, ...args: string[]) {
    const task = commands.get(name)?.read(args) ?? { wrong: 'there is no such command' };
    if ('wrong' in task) throw new Error(task.wrong);
    const lines: string[] = [];
    const print = (line: string) => lines.push(line);
    const isDone = await task(own.container, { print, written: async () => undefined, note: print });
    return { stdout: lines.map((line) => `${line}\n`).join(''), isDone };
  }
  const refusalOf = (name: string, ...args: string[]) =>
    admin(name, ...args).then(
      () => expect.fail(`${name} was not refused`),
      (error: unknown) => errorReason(error),
    );
  const signIn = (email: string, password: string, status: number) =>
    own.anonymous.post('/auth/login', { username: email, password }, status);
  const readJson = async (...command: [name: string, ...args: string[]]) => {
    const { stdout } = await admin(...command);
    return stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
  };
  const audit = (...args: string[]) => readJson('audit', '--json', ...args);

  it('creates an organization whose admin can sign in with the printed password', async () => {
    const email = freshEmail('founder');
    const made = await admin('create-organization', 'Acme Inc.', '--admin', email);
    const [, password = '', orgId] = /^password (\S+)\norganization (\S+)\nadmin \S+ \S+\n$/.exec(made.stdout) ?? [];
    const { organization } = Object((await signIn(email, password, 200)).body);
    expect(organization).include({ org_id: orgId, name: 'Acme Inc.', tier: 'free', is_org_admin: true });
    const [entry] = await audit('--org', orgId ?? '', '--action', 'organization');
    expect(entry).include({ action: 'organization.created', actor_id: null, target: orgId });
    expect(entry.detail.operator).a('string');
    expect(entry.request_id).match(/^admin-/);
    const again = await refusalOf('create-organization', 'Other', '--admin', email.toUpperCase());
    expect(again).match(/^Use another email/);
  });

  it('creates no organization if the password cannot be printed or is weak, and reads a password from standard input', async () => {
    const email = freshEmail('founder');
    const args = ['create-organization', 'Acme', '--admin', email];
    const full = await runAdmin(own.settings, args, { outputTo: '/dev/full' });
    expect(full.code).equal(1);
    expect(full.stderr).match(/^The output of the command could not be written: ENOSPC[^\n]*\n$/);
    const make = (input: string) => runAdmin(own.settings, [...args, '--ask-password'], { input });
    const weak = await make('weak\n');
    expect(weak).include({ stdout: '', code: 1 });
    expect(weak.stderr).match(/^A password has 10 to 128 characters\. [^\n]+\n$/);
    const { stdout, code } = await make('Correct-horse-1\nand no more\n');
    expect(code).equal(0);
    expect(stdout).not.include('password');
    await signIn(email, 'Correct-horse-1', 200);
  });

  it('changes the tier of an organization from its next request on', async () => {
    expect((await admin('set-tier', ada.orgId, 'pro')).stdout).equal('The tier was free and is pro now.\n');
    expect(Object((await ada.get('/entity/members', 200)).body)).include({ tier: 'pro', member_limit: 100 });
    expect((await admin('set-tier', ada.orgId, 'pro')).stdout).equal('The tier is pro already.\n');
    const [entry, ...others] = await audit('--org', ada.orgId, '--action', 'organization.tier_changed');
    expect(entry.detail).include({ from: 'free', to: 'pro' });
    expect(others).length(0);
    const nobody = uuidv7();
    expect(await refusalOf('set-tier', nobody, 'max')).equal(`There is no organization ${nobody}.`);
  });

  it('disables and enables a user while the API runs, but does not disable the last admin', async () => {
    await grace.get('/folders', 200);
    const disabled = await runAdmin(own.settings, ['disable-user', grace.email.toUpperCase()]);
    expect(disabled).include({ stdout: 'Disabled: all sessions of the user have ended.\n', stderr: '', code: 0 });
    await until('the requests of the user are refused', async () => (await grace.raw('/folders')).status === 401);
    await signIn(grace.email, grace.password, 403);
    expect((await admin('disable-user', grace.userId)).stdout).equal('The user is disabled already.\n');
    expect((await admin('enable-user', grace.email)).stdout).equal('Enabled: the user can sign in.\n');
    await signIn(grace.email, grace.password, 200);
    // The old session of the user stays ended.
    await grace.get('/folders', 401);
    const actions = (await audit('--user', grace.userId)).map(({ action }) => action);
    expect(actions).include.members(['user.disabled', 'user.enabled', 'session.refused', 'session.opened']);
    expect(await refusalOf('disable-user', ada.email)).match(/^Make another member an admin /);
    for (const command of ['disable-user', 'enable-user', 'sessions']) {
      expect(await refusalOf(command, freshEmail())).equal('The user does not exist');
    }
  });

  it('lists the sessions of a user, and ends one session or all', async () => {
    const eve = await own.signUp('Eve');
    const second = Object((await signIn(eve.email, eve.password, 200)).body);
    const list = () => readJson('sessions', eve.email, '--json');
    const [newest, oldest] = await list();
    expect([newest, oldest].map(({ state }) => state)).deep.equal(['open', 'open']);
    const table = /^session +state +begun +used +expires\n[\da-f-]{36} {2}open/;
    expect((await admin('sessions', eve.userId)).stdout).match(table);

    const ended = await admin('sessions', eve.email, '--end', newest.session_id);
    expect(ended).include({ stdout: 'Ended: 1.\n', isDone: true });
    await own.anonymous.withToken(second.access_token).get('/folders', 401);
    await eve.get('/folders', 200);
    const foreign = await admin('sessions', eve.email, '--end', uuidv7());
    expect(foreign).include({ stdout: 'Ended: 0.\nThe user has no such session.\n', isDone: false });

    expect((await admin('sessions', eve.email, '--end', 'all')).stdout).equal('Ended: 1.\n');
    await own.anonymous.post('/auth/refresh_tokens', { refresh_token: eve.refreshToken }, 401);
    expect((await list()).map(({ state }) => state)).deep.equal(['cut_off', 'cut_off']);
    expect(await audit('--org', eve.orgId, '--action', 'session.ended')).length(2);
  });

  it('lists organizations with their admins, and users with their organizations', async () => {
    const organizations = await readJson('list-organizations', '--json');
    const acme = organizations.find(({ org_id }) => org_id === ada.orgId);
    expect(acme).deep.include({ members: 2, documents: 0, admins: [ada.email], deleted_at: null });
    expect((await admin('list-organizations')).stdout).match(/^org_id +name +tier +members /);
    const users = await readJson('list-users', '--org', ada.orgId, '--json');
    expect(users.map(({ email, role }) => [email, role])).to.have.deep.members([
      [ada.email, 'admin'],
      [grace.email, 'member'],
    ]);
    expect((await readJson('list-users', '--json')).length).greaterThan(2);
    expect((await admin('list-users', '--org', uuidv7())).stdout).equal('There are no users.\n');
  });

  it('reads the audit log by organization, user, action and time', async () => {
    const added = await audit('--org', grace.orgId, '--action', 'member');
    expect(added.map(({ action }) => action)).deep.equal(['member.added']);
    expect(await audit('--org', ada.orgId, '--since', '1d', '--limit', '2')).length(2);
    expect(await audit('--org', ada.orgId, '--since', '2100-01-01')).length(0);
    const { stdout } = await admin('audit', '--user', ada.email);
    expect(stdout)
      .match(/^at +action +organization +by +on\n/)
      .include(`account.registered`)
      .match(new RegExp(`Z {2}account\\.registered .+ ${ada.email} +${ada.userId} ${ada.email}\\n`));
    expect((await admin('audit', '--org', uuidv7())).stdout).equal('No entries match.\n');
  });

  it('writes new keys to files that only their owner can read, and prints the next steps', async () => {
    const folder = await mkdtemp(join(own.config.dataDir, 'keys-'));
    const signing = await admin('rotate-keys', 'signing', '--into', folder);
    expect(signing.stdout).include(`JWT_PRIVATE_KEY_FILE=${join(folder, 'next.pem')}`);
    expect((await stat(join(folder, 'next.pem'))).mode & 0o777).equal(0o600);
    expect(await refusalOf('rotate-keys', 'signing', '--into', folder)).match(/next\.pem exists already: /);
    expect(await refusalOf('rotate-keys', 'signing', '--into', '/proc/keys-of-mine')).match(/ cannot be created: /);

    const encryption = await admin('rotate-keys', 'encryption', '--into', folder);
    expect(encryption.stdout).include('npm run admin -- reseal');
    const keys = await readFile(join(folder, 'encryption-keys'), 'utf8');
    expect(encryption.stdout).not.include(keys.split(':')[1]?.slice(0, 20));
    const next = loadConfig({ ...own.settings, ENCRYPTION_KEYS: keys });
    expect(next.encryptionKeys.map(({ id }) => id)).deep.equal(['2', '1']);
  });

  it('shows help, and reports wrong arguments and an unreachable database in one line', async () => {
    const { stdout, code } = await runAdmin(own.settings, ['sessions', '--help']);
    expect(stdout).include('npm run admin -- sessions ada@acme.example --end all');
    expect(code).equal(0);
    const wrong: [says: RegExp, ...args: string[]][] = [
      [/^"nobody" is neither an email nor a user id/, 'sessions', 'nobody'],
      [/^Unknown option '--fnd'/, 'sessions', ada.email, '--fnd'],
      [/^"gold" is not a tier: free, pro, max/, 'set-tier', ada.orgId, 'gold'],
      [/^--admin needs the email/, 'create-organization', 'Acme'],
      [/^The name of the organization is missing/, 'create-organization', '--admin', ada.email],
      [/^"yesterday" is not a time/, 'audit', '--since', 'yesterday'],
      [/^--limit must be a number from 1 to 10000/, 'audit', '--limit', '0'],
      [/^--into needs a folder /, 'rotate-keys', 'signing'],
    ];
    for (const [says, name = '', ...args] of wrong) expect(await refusalOf(name, ...args)).match(says);
    const cut = { ...own.settings, DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' };
    const away = await runAdmin(cut, ['sessions', ada.email]);
    expect(away).include({ stdout: '', code: 1 });
    expect(away.stderr).match(/^[^\n]*ECONNREFUSED[^\n]*\n$/);
  });
});
