import type { Container } from '#src/container.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import { askLine } from './ask-line.ts';
import { type Command, readFlags } from './command.ts';
import { thisOperator } from './this-operator.ts';
import { isUuid } from './uuid.ts';

const example = '01a20286-f472-72a2-a9c9-368f38795a17';

export const eraseOrganization: Command = {
  takes: '<organization id> [--now] [--yes] | --status',
  does: 'deletes an organization with the accounts of all its members, and erases it after ERASE_AFTER_DAYS, or at once with --now; asks for the id once more unless --yes is given',
  examples: [
    [example, 'as if its admin had deleted it'],
    [`${example} --now`, 'erases it at once, also one that was deleted before'],
    [`${example} --status`, 'how far that is'],
  ],
  read: (args) => {
    const flag = { type: 'boolean' } as const;
    const read = readFlags(args, { now: flag, yes: flag, status: flag });
    if ('wrong' in read) return read;
    const [given = '', ...more] = read.positionals;
    if (!isUuid(given)) return { wrong: `"${given}" is no organization's id, which is a UUID` };
    if (more.length > 0) return { wrong: `"${more.join(' ')}" is not understood` };
    const { now: isNow = false, yes: isSure = false, status: isQuestion = false } = read.values;
    if (isQuestion && (isNow || isSure)) return { wrong: '--status stands alone' };
    const orgId = given.toLowerCase();
    if (isQuestion)
      return async ({ accountDeletion, audit }, { print }) => tellStatus({ accountDeletion, audit }, orgId, print);
    return async ({ accountDeletion, audit }, { print }) => {
      const { organization } = await accountDeletion.erasureOf(orgId);
      if (organization.name === '') return tellStatus({ accountDeletion, audit }, orgId, print);
      const question = `This erases "${organization.name}" with all that its members have. Its id once more: `;
      if (!isSure && (await askLine(question, { isSecret: false })).trim().toLowerCase() !== orgId) {
        throw new StartFailure('That is not the id: nothing was done.');
      }
      await accountDeletion.eraseOrganization(thisOperator(), orgId, { isNow });
      return tellStatus({ accountDeletion, audit }, orgId, print);
    };
  },
};

/** @returns whether it is erased, or will be */
async function tellStatus(
  { accountDeletion, audit }: Pick<Container, 'accountDeletion' | 'audit'>,
  orgId: string,
  print: (line: string) => void,
): Promise<boolean> {
  const { organization, job } = await accountDeletion.erasureOf(orgId);
  if (organization.deletedAt === null) {
    print(`"${organization.name}" is not deleted.`);
    return false;
  }
  if (organization.name === '') {
    const [entry] = await audit.list({ orgId, action: 'organization.erased' }, 1);
    const counts = Object.entries(entry?.detail ?? {}).map(([kind, count]) => `${count} ${kind}`);
    print(`Erased${entry === undefined ? '' : ` at ${entry.at.toISOString()}: ${counts.join(', ')}`}.`);
    return true;
  }
  const due = organization.eraseDueAt?.toISOString();
  print(`"${organization.name}" is deleted, and is erased ${due === undefined ? 'at once' : `from ${due} on`}.`);
  if (job === null) return true;
  print(`  ${job.id}: ${job.status}${job.stage === null ? '' : `, ${job.stage}`}, ${job.progressDone} items erased`);
  if (job.errorCode !== null) print(`  ${job.errorCode}: ${job.errorMessage}`);
  return true;
}
