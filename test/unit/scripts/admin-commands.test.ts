import { expect } from 'chai';
import { readTimeOrAge } from '../../../scripts/admin/audit.ts';
import { accountName } from '../../../scripts/admin/command.ts';
import { commands } from '../../../scripts/admin/commands.ts';
import { alignColumns, commandHelp, commandOverview } from '../../../scripts/admin/output.ts';

describe('the commands of npm run admin', () => {
  it('have a help with examples that they accept', () => {
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

  it('accept a time, and a duration before now', () => {
    const now = new Date('2026-11-22T12:00:00Z');
    expect(readTimeOrAge('30m', now)).deep.equal(new Date('2026-11-22T11:30:00Z'));
    expect(readTimeOrAge('7d', now)).deep.equal(new Date('2026-11-15T12:00:00Z'));
    expect(readTimeOrAge('2026-11-22T08:00Z', now)).deep.equal(new Date('2026-11-22T08:00:00Z'));
    for (const text of ['yesterday', '7', '7y', '', '2026-99-99']) expect(readTimeOrAge(text, now)).equal(null);
  });

  it('name the operator by account, or by uid without an account', () => {
    expect(accountName(() => ({ username: 'ada' }))).equal('ada');
    const noAccount = () => {
      throw new Error('uv_os_get_passwd returned ENOENT');
    };
    expect(accountName(noAccount)).equal(`uid ${process.getuid?.()}`);
  });

  it('align rows in columns', () => {
    expect(
      alignColumns([
        ['a', 'state'],
        ['longer', ''],
      ]),
    ).deep.equal(['a       state', 'longer']);
    expect(alignColumns([])).deep.equal([]);
  });
});
