// `npm run admin -- <command> …`: operators' commands for an installation. scripts/admin/commands.ts lists them.
import type { Task } from './admin/command.ts';
import { commands } from './admin/commands.ts';
import { commandHelp, commandOverview, errorReason, openOutput } from './admin/output.ts';
import { exitAfter } from './supervisor/run-until-stopped.ts';
import { StartFailure } from './supervisor/start-failure.ts';

const WRONG_ARGUMENTS = 2;

await exitAfter(async () => {
  const [name, ...args] = process.argv.slice(2);
  if (name === undefined || name === '--help') return show(commandOverview(commands));
  const command = commands.get(name);
  if (command === undefined) return refuse(`There is no command "${name}": npm run admin lists the commands.`);
  if (args.includes('--help')) return show(commandHelp(name, command));
  const task = command.read(args);
  if ('wrong' in task)
    return refuse(`${task.wrong.replace(/\.$/, '')}: npm run admin -- ${name} --help shows the usage.`);
  return (await perform(task)) ? 0 : 1;
});

function show(text: string): number {
  console.log(text);
  return 0;
}

function refuse(reason: string): number {
  console.error(reason);
  return WRONG_ARGUMENTS;
}

/** Imports the service only here, so that the help is fast. */
async function perform(task: Task): Promise<boolean> {
  const [{ createContainer }, { readInstallation }] = await Promise.all([
    import('#src/container.ts'),
    import('./admin/installation.ts'),
  ]);
  const container = createContainer(await readInstallation(process.env), 'admin');
  const output = openOutput(process.stdout);
  try {
    const isDone = await task(container, { ...output, note: console.error });
    await output.written();
    return isDone;
  } catch (error) {
    throw error instanceof StartFailure ? error : new StartFailure(errorReason(error));
  } finally {
    await container.close();
  }
}
