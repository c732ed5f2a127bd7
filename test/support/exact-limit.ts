import { expect } from 'chai';
import type { ErrorCode } from '#src/errors.ts';
import { problemSchema } from '#src/http/problem.ts';
import type { Member } from './client.ts';
import { s3Place } from './s3.ts';
import { type Stack, startStack } from './stack.ts';

/** What each tier allows of all that is counted, in the stack that these tests share. */
const allowed = { free: 2, pro: 3, max: 5 };
const atOnce = 32;
/** Of what was accepted, and is worked on by nobody here. */
const waitIsOver = 504;

let shared: Promise<Stack> | undefined;

function limitedStack(): Promise<Stack> {
  const limits = Object.entries(allowed).map(([tier, n]) => {
    return [tier, { members: n, agents: n, draftsPerUser: n, documents: n, evaluationCasesPerDay: n, connections: n }];
  });
  // A model that nobody asks: there are no workers.
  const settings = {
    TIER_LIMITS: JSON.stringify(Object.fromEntries(limits)),
    EVAL_MODEL: 'judge',
    EGRESS_ALLOW: s3Place().join(),
  };
  shared ??= startStack(settings, { workers: false });
  return shared;
}

after(async function closeLimitedStack() {
  this.timeout(60_000);
  await (await shared)?.close();
});

/**
 * For each tier a test that 32 requests at once get exactly the places that are left, and the others the limit's code.
 * @param prepare gives the request, of a member alone in his organization
 * @param used places that are taken when he asks
 */
export function itHoldsTheLimit(
  code: ErrorCode,
  prepare: (member: Member) => Promise<() => Promise<Response>>,
  used = 0,
): void {
  for (const [tier, places] of Object.entries(allowed)) {
    it(`409 ${code}: exactly over the limit of ${tier}, for ${atOnce} at once`, async function () {
      this.timeout(30_000);
      const { container, signUp } = await limitedStack();
      const member = await signUp();
      await container.db('organizations').where({ id: member.orgId }).update({ tier });
      const request = await prepare(member);
      const replies = await Promise.all(Array.from({ length: atOnce }, request));
      const refused = replies.filter(({ status }) => status !== 201 && status !== waitIsOver);
      expect(refused.length).equal(atOnce - places + used);
      for (const reply of refused) expect(problemSchema.parse(await reply.json()).code).equal(code);
    });
  }
}

/** A POST whose answer is not looked at. */
export function post(
  member: Member,
  path: string,
  body: object,
  others: Record<string, string> = {},
): Promise<Response> {
  const headers = { 'content-type': 'application/json', ...others };
  return member.raw(path, { method: 'POST', headers, body: JSON.stringify(body) });
}
