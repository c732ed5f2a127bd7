import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { userInfo } from 'node:os';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import type { Container } from '#src/container.ts';
import type { EmailOrUserId, OperatorIdentity } from '#src/modules/operator/operator.service.ts';

/** `print` writes results to standard output, `note` writes progress and warnings to standard error. */
export type CommandOutput = {
  print: (line: string) => void;
  /** Waits until all printed lines are written. Throws StartFailure if one could not be written. */
  written: () => Promise<void>;
  note: (line: string) => void;
};

/** @returns true if the command succeeded; false makes the process exit with code 1 */
export type Task = (container: Container, output: CommandOutput) => Promise<boolean>;

export type WrongArguments = { wrong: string };

export type Command = {
  usage: string;
  /** A command's description is a phrase without a subject, such as `lists the sessions of a user`. */
  description: string;
  examples: readonly (readonly [args: string, meaning: string])[];
  read: (args: readonly string[]) => Task | WrongArguments;
};

export function withoutArguments(task: Task): Command['read'] {
  return (args) => (args.length === 0 ? task : unexpectedArguments(args));
}

export function readFlags<const Options extends ParseArgsOptionsConfig>(args: readonly string[], options: Options) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    // The first sentence of a `parseArgs` error names the problem; the rest explains arguments that begin with a dash.
    return { wrong: error instanceof Error ? (error.message.split('. ')[0] ?? '') : String(error) };
  }
}

export function unexpectedArguments(args: readonly string[]): WrongArguments {
  return { wrong: `Unexpected arguments "${args.join(' ')}"` };
}

export function isUuid(text: string): boolean {
  return /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text);
}

export function notAnOrganizationId(text: string): WrongArguments {
  return { wrong: `"${text}" is not an organization id, which is a UUID` };
}

export function readUser(args: readonly string[]): EmailOrUserId | WrongArguments {
  const [text = '', ...more] = args;
  const word = text.trim().toLowerCase();
  if (more.length === 0 && isUuid(word)) return { userId: word };
  if (more.length === 0 && /^\S+@\S+$/.test(word)) return { email: word };
  return { wrong: `"${args.join(' ')}" is neither an email nor a user id` };
}

export function thisOperator(): OperatorIdentity {
  return { name: process.env.SUDO_USER || accountName(), requestId: `admin-${randomUUID()}` };
}

/** Falls back to the uid, because containers often run as a uid without an account. */
export function accountName(read: () => { username: string } = userInfo): string {
  try {
    return read().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}

/**
 * Reads a line from standard input. A terminal shows the question first, and does not echo a secret.
 * @returns an empty string at the end of the input
 */
export async function askLine(question: string, { isSecret }: { isSecret: boolean }): Promise<string> {
  const isTerminal = process.stdin.isTTY;
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const output = isSecret ? nowhere : process.stderr;
  const lines = createInterface({ input: process.stdin, output, terminal: isTerminal });
  if (isTerminal) process.stderr.write(question);
  try {
    const [line = ''] = await Promise.race([once(lines, 'line'), once(lines, 'close')]);
    return line;
  } finally {
    lines.close();
    if (isTerminal && isSecret) process.stderr.write('\n');
  }
}
