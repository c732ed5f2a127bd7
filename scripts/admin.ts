// `npm run admin -- <command> …`: looks after an installation, running or not. scripts/admin/commands.ts lists the commands.
import type { Task } from './admin/command.ts';
import { commands } from './admin/commands.ts';
import { helpOf, overview } from './admin/help.ts';
import { openOutput } from './admin/output.ts';
import { exitAfter } from './supervisor/run-until-stopped.ts';
import { StartFailure } from './supervisor/start-failure.ts';

const WRONG_ARGUMENTS = 2;

await exitAfter(async () => {
  const [name, ...args] = process.argv.slice(2);
  if (name === undefined || name === '--help') return tell(overview(commands));
  const command = commands.get(name);
  if (command === undefined) return refuse(`There is no command "${name}": npm run admin says what there is.`);
  if (args.includes('--help')) return tell(helpOf(name, command));
  const task = command.read(args);
  if ('wrong' in task) return refuse(`${task.wrong.replace(/\.$/, '')}: npm run admin -- ${name} --help says more.`);
  return (await perform(task)) ? 0 : 1;
});

function tell(text: string): number {
  console.log(text);
  return 0;
}

function refuse(reason: string): number {
  console.error(reason);
  return WRONG_ARGUMENTS;
}

/** Loads the service only when there is something to do for it. */
async function perform(task: Task): Promise<boolean> {
  const [{ createContainer }, { readInstallation }, { reasonOf }] = await Promise.all([
    import('#src/container.ts'),
    import('./admin/installation.ts'),
    import('./admin/reason-of.ts'),
  ]);
  const container = createContainer(await readInstallation(process.env), 'admin');
  const output = openOutput(process.stdout);
  try {
    const isSo = await task(container, { ...output, note: console.error });
    await output.written();
    return isSo;
  } catch (error) {
    throw error instanceof StartFailure ? error : new StartFailure(reasonOf(error));
  } finally {
    await container.close();
  }
}
