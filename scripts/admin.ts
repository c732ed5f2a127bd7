// `npm run admin -- verify | audit-stores [--repair [--force]] | reseal | reembed … | rescore …`: looks after an installation, running or not.
import { type ReembedWish, readReembedWish } from './admin/reembed-wish.ts';
import { type RescoreWish, readRescoreWish } from './admin/rescore-wish.ts';
import { exitAfter } from './supervisor/run-until-stopped.ts';

const USAGE = `Use: npm run admin -- <command>

  verify                   checks what must hold at any time, and exits with 1 when something does not
  audit-stores [--repair]  compares the database with the vectors and the originals, and mends what differs;
                           with --force also where that deletes many vectors or originals
  reseal                   encrypts the credentials of connections with the first of ENCRYPTION_KEYS, so that the others can go
  reembed <organization id> --model <id>                  has all its documents embedded by another model
  reembed <organization id> --pause | --resume | --status
  rescore --all | <organization id> [--status]            has chats scored again that another calibration has scored,
                                                          or words alone`;

const WRONG_ARGUMENTS = 2;

await exitAfter(async () => {
  const [name, ...args] = process.argv.slice(2);
  const command = process.argv.slice(2).join(' ');
  if (name === 'reembed') {
    const wish = readReembedWish(args);
    if (!('wrong' in wish)) return run({ command: 'reembed', wish });
    console.error(wish.wrong);
    return WRONG_ARGUMENTS;
  }
  if (name === 'rescore') {
    const wish = readRescoreWish(args);
    if (!('wrong' in wish)) return run({ command: 'rescore', wish });
    console.error(wish.wrong);
    return WRONG_ARGUMENTS;
  }
  switch (command) {
    case '':
    case '--help':
      console.log(USAGE);
      return 0;
    case 'verify':
    case 'reseal':
      return run({ command });
    case 'audit-stores':
    case 'audit-stores --repair':
    case 'audit-stores --repair --force':
      return run({ command: 'audit-stores', repair: args.includes('--repair'), force: args.includes('--force') });
    default:
      console.error(`There is no command "${command}": npm run admin says what there is.`);
      return WRONG_ARGUMENTS;
  }
});

type Task =
  | { command: 'verify' | 'reseal' }
  | { command: 'audit-stores'; repair: boolean; force: boolean }
  | { command: 'reembed'; wish: ReembedWish }
  | { command: 'rescore'; wish: RescoreWish };

/** Loads the service only when there is something to do for it. */
async function run(task: Task): Promise<number> {
  const [{ createContainer }, { auditStores }, { readInstallation }, { reembed }, { rescore }, { reseal }, { verify }] =
    await Promise.all([
      import('#src/container.ts'),
      import('./admin/audit-stores.ts'),
      import('./admin/installation.ts'),
      import('./admin/reembed.ts'),
      import('./admin/rescore.ts'),
      import('./admin/reseal.ts'),
      import('./admin/verify.ts'),
    ]);
  const container = createContainer(await readInstallation(process.env), 'admin');
  const say = { print: console.log, note: console.error };
  const perform = (): Promise<boolean> => {
    switch (task.command) {
      case 'verify':
        return verify(container.invariants, say.print);
      case 'audit-stores':
        return auditStores(container, task, say);
      case 'reembed':
        return reembed(container, task.wish, say.print);
      case 'reseal':
        return reseal(container, say.print);
      case 'rescore':
        return rescore(container, task.wish, say.print);
    }
  };
  try {
    return (await perform()) ? 0 : 1;
  } finally {
    await container.close();
  }
}
