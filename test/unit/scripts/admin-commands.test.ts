import { expect } from 'chai';
import { readTime } from '../../../scripts/admin/audit.ts';
import { columns } from '../../../scripts/admin/columns.ts';
import { commands } from '../../../scripts/admin/commands.ts';
import { helpOf, overview } from '../../../scripts/admin/help.ts';
import { accountName } from '../../../scripts/admin/this-operator.ts';

describe('the commands of npm run admin', () => {
  it('are all explained, by examples that they understand', () => {
    for (const [name, command] of commands) {
      expect(overview(commands)).include(`  ${`${name} ${command.takes}`.trimEnd()}\n`);
      expect(command.examples).not.length(0);
      for (const [args] of command.examples) {
        expect(helpOf(name, command)).include(`npm run admin -- ${name} ${args}`.trimEnd());
        // As a shell would take it apart: a word, or several in quotes, and no redirection.
        const words = (args.split(' <')[0]?.match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll("'", ''));
        expect(command.read(words), `${name} ${args}`).a('function');
      }
    }
  });

  it('take a time as how long ago it was, or as it is', () => {
    const now = new Date('2026-11-22T12:00:00Z');
    expect(readTime('30m', now)).deep.equal(new Date('2026-11-22T11:30:00Z'));
    expect(readTime('7d', now)).deep.equal(new Date('2026-11-15T12:00:00Z'));
    expect(readTime('2026-11-22T08:00Z', now)).deep.equal(new Date('2026-11-22T08:00:00Z'));
    for (const text of ['yesterday', '7', '7y', '', '2026-99-99']) expect(readTime(text, now)).equal(null);
  });

  it('name who runs them by his account, or by his uid where it has none', () => {
    expect(accountName(() => ({ username: 'ada' }))).equal('ada');
    const noAccount = () => {
      throw new Error('uv_os_get_passwd returned ENOENT');
    };
    expect(accountName(noAccount)).equal(`uid ${process.getuid?.()}`);
  });

  it('print rows below each other', () => {
    expect(
      columns([
        ['a', 'state'],
        ['longer', ''],
      ]),
    ).deep.equal(['a       state', 'longer']);
    expect(columns([])).deep.equal([]);
  });
});
