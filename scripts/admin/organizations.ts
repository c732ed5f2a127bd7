import { createWriteStream } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Container } from '#src/container.ts';
import { emailField, nameField, newPasswordField, tierField } from '#src/http/request/fields.ts';
import { newPassword } from '../secrets.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import {
  askLine,
  type Command,
  type CommandOutput,
  isUuid,
  notAnOrganizationId,
  readFlags,
  thisOperator,
  unexpectedArguments,
} from './command.ts';

const exampleId = '01a20286-f472-72a2-a9c9-368f38795a17';

/** The password is never an argument: other users of the machine can see arguments, and shells store them. */
export const createOrganizationCommand: Command = {
  usage: '<name> --admin <email> [--ask-password]',
  description:
    'creates an organization and its first user, who is its admin; prints a new password, or with --ask-password reads it from the terminal or the standard input',
  examples: [
    ["'Acme Inc.' --admin ada@acme.example", 'prints the ids, and a password for Ada'],
    ["'Acme Inc.' --admin ada@acme.example --ask-password < password.txt", 'takes the first line of the file'],
  ],
  read: (args) => {
    const read = readFlags(args, { admin: { type: 'string' }, 'ask-password': { type: 'boolean' } });
    if ('wrong' in read) return read;
    const [given, ...more] = read.positionals;
    if (given === undefined) return { wrong: 'The name of the organization is missing' };
    if (more.length > 0) return { wrong: `${unexpectedArguments(more).wrong}: a name of several words needs quotes` };
    const name = nameField.safeParse(given);
    if (!name.success) return { wrong: `"${given}" is not a valid name: one line of at most 200 characters` };
    const email = emailField.safeParse(read.values.admin ?? '');
    if (!email.success) return { wrong: '--admin needs the email of the first user of the organization' };
    const isAsked = read.values['ask-password'] === true;
    return async ({ operator }, { print, written }) => {
      const password = isAsked
        ? validPassword(await askLine(`Password of ${email.data}: `, { isSecret: true }))
        : newPassword();
      const founder = { name: name.data, email: email.data, password };
      // The password is printed before the account is created: if the output failed later, the password would be lost.
      if (!isAsked) print(`password ${password}`);
      await written();
      const { orgId, userId } = await operator.createOrganization(thisOperator(), founder);
      print(`organization ${orgId}`);
      print(`admin ${userId} ${email.data}`);
      return true;
    };
  },
};

function validPassword(password: string): string {
  const { error } = newPasswordField.safeParse(password);
  if (error === undefined) return password;
  throw new StartFailure(`${error.issues.map(({ message }) => message).join('. ')}.`);
}

const tiers = tierField.options;

export const setTierCommand: Command = {
  usage: `<organization id> ${tiers.join(' | ')}`,
  description: 'changes the limits of an organization; content beyond the new limits stays, but no more can be added',
  examples: [[`${exampleId} pro`, 'applies from the next request']],
  read: (args) => {
    const read = readFlags(args, {});
    if ('wrong' in read) return read;
    const [orgId = '', word = '', ...more] = read.positionals;
    if (!isUuid(orgId)) return notAnOrganizationId(orgId);
    const tier = tiers.find((each) => each === word);
    if (tier === undefined) return { wrong: `"${word}" is not a tier: ${tiers.join(', ')}` };
    if (more.length > 0) return unexpectedArguments(more);
    return async ({ operator }, { print }) => {
      const before = await operator.setTier(thisOperator(), orgId.toLowerCase(), tier);
      print(before === tier ? `The tier is ${tier} already.` : `The tier was ${before} and is ${tier} now.`);
      return true;
    };
  },
};

export const exportOrganizationCommand: Command = {
  usage: '<organization id> --into <folder>',
  description:
    'writes everything that an organization has, including personal content of its members, into archives in a folder of this machine',
  examples: [[`${exampleId} --into /var/exports/acme`, 'prints each archive with its SHA-256']],
  read: (args) => {
    const read = readFlags(args, { into: { type: 'string' } });
    if ('wrong' in read) return read;
    const [given = '', ...more] = read.positionals;
    if (!isUuid(given)) return notAnOrganizationId(given);
    if (more.length > 0) return unexpectedArguments(more);
    const { into: folder } = read.values;
    if (!folder) return { wrong: '--into needs a folder for the archives' };
    const orgId = given.toLowerCase();
    return async ({ operatorExports }, { print, note }) => {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      let total = 0;
      const volumes = operatorExports.exportVolumes(thisOperator(), orgId, async (name, content) => {
        const path = join(folder, name);
        try {
          await pipeline(content, createWriteStream(`${path}.part`, { flags: 'wx', mode: 0o600, flush: true }));
          await rename(`${path}.part`, path);
        } finally {
          await rm(`${path}.part`, { force: true });
        }
      });
      for await (const { name, sizeBytes, sha256, records } of volumes) {
        total += records;
        print(`${sha256}  ${name}`);
        note(`${name}: ${sizeBytes} bytes, ${total} records so far`);
      }
      note(`Done: ${total} records are in ${folder}. They include personal content of all members: keep them safe.`);
      return true;
    };
  },
};

export const eraseOrganizationCommand: Command = {
  usage: '<organization id> [--now] [--yes] | --status',
  description:
    'deletes an organization with the accounts of all its members, and erases it after ERASE_AFTER_DAYS, or at once with --now; asks for the id again unless --yes is given',
  examples: [
    [exampleId, 'as if its admin had deleted it'],
    [`${exampleId} --now`, 'erases it at once, also if it was deleted before'],
    [`${exampleId} --status`, 'shows the progress'],
  ],
  read: (args) => {
    const flag = { type: 'boolean' } as const;
    const read = readFlags(args, { now: flag, yes: flag, status: flag });
    if ('wrong' in read) return read;
    const [given = '', ...more] = read.positionals;
    if (!isUuid(given)) return notAnOrganizationId(given);
    if (more.length > 0) return unexpectedArguments(more);
    const { now: isNow = false, yes: isSure = false, status: isQuestion = false } = read.values;
    if (isQuestion && (isNow || isSure)) return { wrong: '--status cannot be combined with other flags' };
    const orgId = given.toLowerCase();
    if (isQuestion) return (container, { print }) => printErasure(container, orgId, print);
    return async (container, { print }) => {
      const { accountDeletion } = container;
      const { organization } = await accountDeletion.erasureOf(orgId);
      if (organization.name === '') return printErasure(container, orgId, print);
      const question = `This erases "${organization.name}" with all content of its members. Repeat its id to confirm: `;
      if (!isSure && (await askLine(question, { isSecret: false })).trim().toLowerCase() !== orgId) {
        throw new StartFailure('The id does not match: nothing was deleted.');
      }
      await accountDeletion.eraseOrganization(thisOperator(), orgId, { isNow });
      return printErasure(container, orgId, print);
    };
  },
};

async function printErasure(
  { accountDeletion, audit }: Pick<Container, 'accountDeletion' | 'audit'>,
  orgId: string,
  print: CommandOutput['print'],
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
