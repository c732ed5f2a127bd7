import type { Stack } from './stack.ts';
import { until } from './until.ts';

/**
 * Sends changes of access in an organization so that all wait for its row, and are made in this order: each was let in
 * before the first of them was done.
 */
export async function oneAfterTheOther(
  { container: { db } }: Stack,
  orgId: string,
  changes: readonly (() => Promise<Response>)[],
): Promise<number[]> {
  const trx = await db.transaction();
  const answers: Promise<Response>[] = [];
  try {
    await trx('organizations').where({ id: orgId }).forNoKeyUpdate().first('id');
    for (const change of changes) {
      answers.push(change());
      await until('it waits for the row', async () => {
        const { rows } = await db.raw<{ rows: unknown[] }>(
          `select from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock' and query like '%"organizations"%'`,
        );
        return rows.length === answers.length;
      });
    }
  } finally {
    await trx.rollback();
  }
  return (await Promise.all(answers)).map(({ status }) => status);
}
