import { readdir } from 'node:fs/promises';
import { expect } from 'chai';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';
import { readTimeOrAge } from '../../../scripts/admin/audit.ts';
import { accountName } from '../../../scripts/admin/command.ts';
import { commands } from '../../../scripts/admin/commands.ts';
import { readInstallation } from '../../../scripts/admin/installation.ts';
import { alignColumns, commandHelp, commandOverview } from '../../../scripts/admin/output.ts';
import { readReembedArguments } from '../../../scripts/admin/reembed.ts';
import { readRescoreArguments } from '../../../scripts/admin/rescore.ts';
import { openSecrets } from '../../../scripts/secrets.ts';
import { StartFailure } from '../../../scripts/supervisor/start-failure.ts';

const orgId = '01a20286-f472-72a2-a9c9-368f38795a17';

describe('npm run admin', () => {
  const pathOf = useTemporaryFolder();

  it('shows help for each command, with examples that the command accepts', () => {
    for (const [name, command] of commands) {
      expect(commandOverview(commands)).include(`  ${`${name} ${command.usage}`.trimEnd()}\n`);
      expect(command.examples).not.length(0);
      for (const [args] of command.examples) {
        expect(commandHelp(name, command)).include(`npm run admin -- ${name} ${args}`.trimEnd());
        // Splits words like a shell: quoted words stay together, a redirection is dropped.
        const words = (args.split(' <')[0]?.match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll("'", ''));
        expect(command.read(words), `${name} ${args}`).a('function');
      }
    }
  });

  it('accepts a point in time as a date or as a duration before now', () => {
    const now = new Date('2026-11-22T12:00:00Z');
    for (const [text, time] of [
      ['30m', '2026-11-22T11:30:00Z'],
      ['7d', '2026-11-15T12:00:00Z'],
      ['2026-11-22T08:00Z', '2026-11-22T08:00:00Z'],
    ] as const) {
      expect(readTimeOrAge(text, now)).deep.equal(new Date(time));
    }
    for (const text of ['yesterday', '7', '7y', '', '2026-99-99']) expect(readTimeOrAge(text, now)).equal(null);
  });

  it('records the operator by account name, or by uid if there is no account, and aligns the columns of tables', () => {
    expect(accountName(() => ({ username: 'ada' }))).equal('ada');
    const noAccount = () => {
      throw new Error('uv_os_get_passwd returned ENOENT');
    };
    expect(accountName(noAccount)).equal(`uid ${process.getuid?.()}`);
    const rows = [
      ['a', 'state'],
      ['longer', ''],
    ];
    expect([alignColumns(rows), alignColumns([])]).deep.equal([['a       state', 'longer'], []]);
  });

  it('reembed parses the organization and the action, or reports what is wrong', () => {
    expect(readReembedArguments([orgId.toUpperCase(), '--status'])).deep.equal({ orgId, act: 'status' });
    const start = readReembedArguments([orgId, '--model', 'embedding-3']);
    expect(start).deep.equal({ orgId, act: 'start', model: 'embedding-3' });
    for (const [says, ...args] of [
      [/^The organization id is missing/],
      [/^The organization id is missing/, '--status'],
      [/^"acme" is not an organization id, which is a UUID/, 'acme', '--status'],
      [/^--model needs the id of a model/, orgId, '--model'],
      [/^A flag is missing/, orgId],
      [/^Unexpected arguments/, orgId, '--status', 'now'],
      [/^Unexpected arguments/, orgId, '--stop'],
    ] as [RegExp, ...string[]][]) {
      expect(readReembedArguments(args)).property('wrong').match(says);
    }
  });

  it('rescore accepts all organizations or one organization, and rejects other arguments', () => {
    for (const [args, read] of [
      [['--all'], { orgId: null, act: 'start' }],
      [[orgId.toUpperCase()], { orgId, act: 'start' }],
      [[orgId, '--status'], { orgId, act: 'status' }],
      [['--all', '--status'], { orgId: null, act: 'status' }],
    ] as const) {
      expect(readRescoreArguments([...args])).deep.equal(read);
    }
    for (const args of [[], ['loans'], ['--status'], ['--all', '--now'], [orgId, '--status', 'more']]) {
      expect(readRescoreArguments(args), args.join()).property('wrong');
    }
  });

  it('uses the services that the settings name, else those of `npm start`, and fails if neither exist', async () => {
    const dataDir = pathOf();
    const read = (given: Record<string, string> = {}) =>
      readInstallation({ DATA_DIR: dataDir, TOOLS_DIR: '/tools', ...given });
    const failureOf = (given?: Record<string, string>) =>
      read(given).catch((error: unknown) => {
        expect(error).instanceOf(StartFailure);
        return String(error);
      });
    const external = { DATABASE_URL: 'postgres://db.example/acs' };
    expect(await failureOf()).include(`There is no installation in ${dataDir}`);
    expect(await failureOf(external)).match(/wrong setting TEMPORAL_ADDRESS/);
    expect(await readdir(dataDir)).deep.equal([]);
    const { postgresPassword } = await openSecrets(dataDir, {});
    const { database, temporal } = await read({ POSTGRES_PORT: '5001', TEMPORAL_PORT: '5002' });
    expect(database.url).include(`:${encodeURIComponent(postgresPassword)}@127.0.0.1:5001/`);
    expect(temporal.address).equal('127.0.0.1:5002');
    expect((await read(external)).database.url).equal(external.DATABASE_URL);
  });
});
