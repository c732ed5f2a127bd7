// `npm run admin -- verify | audit-stores [--repair]`: looks after an installation, running or not.
import { exitAfter } from './supervisor/run-until-stopped.ts';

const USAGE = `Use: npm run admin -- <command>

  verify                   checks what must hold at any time, and exits with 1 when something does not
  audit-stores [--repair]  compares the database with the vectors and the originals, and mends what differs`;

const WRONG_ARGUMENTS = 2;

await exitAfter(async () => {
  const command = process.argv.slice(2).join(' ');
  switch (command) {
    case '':
    case '--help':
      console.log(USAGE);
      return 0;
    case 'verify':
    case 'audit-stores':
    case 'audit-stores --repair':
      return run(command);
    default:
      console.error(`There is no command "${command}": npm run admin says what there is.`);
      return WRONG_ARGUMENTS;
  }
});

/** Loads the service only when there is something to do for it. */
async function run(command: 'verify' | 'audit-stores' | 'audit-stores --repair'): Promise<number> {
  const [{ createContainer }, { auditStores }, { readInstallation }, { verify }] = await Promise.all([
    import('#src/container.ts'),
    import('./admin/audit-stores.ts'),
    import('./admin/installation.ts'),
    import('./admin/verify.ts'),
  ]);
  const container = createContainer(await readInstallation(process.env), 'admin');
  try {
    const isWell =
      command === 'verify'
        ? await verify(container.invariants, console.log)
        : await auditStores(
            container,
            { repair: command !== 'audit-stores' },
            { print: console.log, note: console.error },
          );
    return isWell ? 0 : 1;
  } finally {
    await container.close();
  }
}
