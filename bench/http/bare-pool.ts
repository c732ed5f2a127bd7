import pg from 'pg';
import { profileQuery } from './profile-query.ts';

export type BareWork = { userId: string; concurrency: number; durationMs: number };

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: Number(process.env.DATABASE_POOL_SIZE) });

process.on('message', async (work: BareWork | 'cpu') => {
  if (work === 'cpu') return;
  const startedAt = performance.now();
  let queries = 0;
  const caller = async () => {
    while (performance.now() - startedAt < work.durationMs) {
      await pool.query(profileQuery, [work.userId]);
      queries += 1;
    }
  };
  await Promise.all(Array.from({ length: work.concurrency }, caller));
  process.send?.((queries / (performance.now() - startedAt)) * 1_000);
});
