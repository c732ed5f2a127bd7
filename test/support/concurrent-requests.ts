import { expect } from 'chai';
import type { ErrorCode } from '#src/errors.ts';
import { problemSchema } from '#src/http/response/problem.ts';
import { type Member, sendJson } from './client.ts';
import { s3Hosts } from './s3.ts';
import { type Stack, shared, startStack } from './stack.ts';
import { until } from './until.ts';

/** The limit of every counted resource by tier, in the stack that these tests share. */
const allowed = { free: 2, pro: 3, max: 5 };
const CONCURRENT_REQUESTS = 32;
/** The status of an accepted request when its wait ends, because no worker runs here. */
const GATEWAY_TIMEOUT = 504;

const limitedStack = shared(() => {
  const names = ['members', 'agents', 'draftsPerUser', 'documents', 'evaluationCasesPerDay', 'connections'];
  const limitsOf = (limit: number) => Object.fromEntries(names.map((name) => [name, limit]));
  const limits = Object.entries(allowed).map(([tier, limit]) => [tier, limitsOf(limit)]);
  const TIER_LIMITS = JSON.stringify(Object.fromEntries(limits));
  return startStack({ TIER_LIMITS, EVAL_MODEL: 'judge', EGRESS_ALLOW: s3Hosts().join() }, { workers: false });
});

type Prepare = (member: Member) => Promise<() => Promise<Response>>;

/**
 * Tests for each tier that of 32 concurrent requests exactly as many succeed as the limit leaves room for, and that the
 * others fail with `code`.
 * @param prepare returns the request of a user who is alone in their organization
 * @param used how much of the limit is used before the requests
 */
export function itHoldsTheLimit(code: ErrorCode, prepare: Prepare, used = 0): void {
  it(`cannot exceed the limit of the tier: of ${CONCURRENT_REQUESTS} concurrent requests, those beyond it get 409 ${code}`, async () => {
    const { container, signUp } = await limitedStack();
    for (const [tier, limit] of Object.entries(allowed)) {
      const member = await signUp();
      await container.db('organizations').where({ id: member.orgId }).update({ tier });
      const replies = await Promise.all(Array.from({ length: CONCURRENT_REQUESTS }, await prepare(member)));
      const refused = replies.filter(({ status }) => status !== 201 && status !== GATEWAY_TIMEOUT);
      expect(refused.length, tier).equal(CONCURRENT_REQUESTS - limit + used);
      for (const reply of refused) expect(problemSchema.parse(await reply.json()).code).equal(code);
    }
  });
}

export const post = (member: Member, path: string, body: object, headers: Record<string, string> = {}) =>
  sendJson(member, 'POST', path, body, headers);

/** Sends changes of access in an organization, each of which waits for the lock of those before it. @returns the statuses */
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
      await until('it waits after those before it', async () => begun === answers.length);
    }
  } finally {
    limits.transaction = transaction;
    await trx.rollback();
  }
  return (await Promise.all(answers)).map(({ status }) => status);
}
