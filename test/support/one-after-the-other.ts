import type { Stack } from './stack.ts';
import { until } from './until.ts';

/**
 * Sends changes of access in an organization so that all wait for its row, and are made in this order: each was let in
 * before the first of them was done.
 */
export async function oneAfterTheOther(
  { container: { db, limits } }: Stack,
  orgId: string,
  changes: readonly (() => Promise<Response>)[],
): Promise<number[]> {
  const { transaction } = limits;
  let begun = 0;
  limits.transaction = (...of) => {
    begun += 1;
    return transaction(...of);
  };
  const trx = await db.transaction();
  const answers: Promise<Response>[] = [];
  try {
    await trx('organizations').where({ id: orgId }).forNoKeyUpdate().first('id');
    for (const change of changes) {
      answers.push(change());
      await until('its turn comes after those before it', async () => begun === answers.length);
    }
  } finally {
    limits.transaction = transaction;
    await trx.rollback();
  }
  return (await Promise.all(answers)).map(({ status }) => status);
}
