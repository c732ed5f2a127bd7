// `node scripts/migrate.ts`: brings the schema of DATABASE_URL up to date, before API and workers of a release start.
import { migrate } from '#src/adapters/postgres/database.ts';
import { readDatabaseUrl } from './settings.ts';
import { exitAfter } from './supervisor/run-until-stopped.ts';
import { StartFailure } from './supervisor/start-failure.ts';

/** How knex begins to say that the database has had migrations that this release does not bring. */
const NEWER = 'The migration directory is corrupt';

await exitAfter(async () => {
  const databaseUrl = readDatabaseUrl(process.env);
  try {
    const made = await migrate(databaseUrl);
    for (const name of made) console.log(`made ${name}`);
    console.log(made.length === 0 ? 'The schema was up to date.' : 'The schema is up to date.');
  } catch (error) {
    const reason = (error instanceof Error ? error.message || error.name : String(error)).split('\n')[0] ?? '';
    if (!reason.startsWith(NEWER)) {
      throw new StartFailure(`DATABASE_URL: the database could not be reached or migrated: ${reason}`);
    }
    // Whoever goes back is not held up here: how far back one can go is in docs/operators.md.
    console.log('The schema is of a newer release than this one: it is left as it is.');
  }
  return 0;
});
