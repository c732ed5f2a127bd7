// `node scripts/migrate.ts`: migrates the database at DATABASE_URL before API and workers of a release start.
import { migrateDatabase } from '#src/adapters/postgres/database.ts';
import { readDatabaseUrl } from './settings.ts';
import { exitAfter } from './supervisor/run-until-stopped.ts';
import { StartFailure } from './supervisor/start-failure.ts';

/** Beginning of knex's error if the database has migrations that this release does not contain. */
const NEWER = 'The migration directory is corrupt';

await exitAfter(async () => {
  const databaseUrl = readDatabaseUrl(process.env);
  try {
    const made = await migrateDatabase(databaseUrl);
    for (const name of made) console.log(`applied ${name}`);
    console.log(made.length === 0 ? 'The schema was up to date.' : 'The schema is up to date.');
  } catch (error) {
    const reason = (error instanceof Error ? error.message || error.name : String(error)).split('\n')[0] ?? '';
    if (!reason.startsWith(NEWER)) {
      throw new StartFailure(`DATABASE_URL: the database could not be reached or migrated: ${reason}`);
    }
    // A rollback to an older release is not an error here: docs/operators.md says which releases can be rolled back to.
    console.log('The schema belongs to a newer release and was not changed.');
  }
  return 0;
});
