import { expect } from 'chai';
import type { ErrorCode } from '#src/errors.ts';
import { problemSchema } from '#src/http/response/problem.ts';
import type { Member } from './client.ts';
import { sendJson } from './json-request.ts';
import { s3Hosts } from './s3.ts';
import { type Stack, startStack } from './stack.ts';

/** The limit of every counted resource by tier, in the stack that these tests share. */
const allowed = { free: 2, pro: 3, max: 5 };
const CONCURRENT_REQUESTS = 32;
/** The service accepts the request and answers so when its wait ends: no worker runs here. */
const GATEWAY_TIMEOUT = 504;

let shared: Promise<Stack> | undefined;

function limitedStack(): Promise<Stack> {
  const names = ['members', 'agents', 'draftsPerUser', 'documents', 'evaluationCasesPerDay', 'connections'];
  const limitsOf = (limit: number) => Object.fromEntries(names.map((name) => [name, limit]));
  const limits = Object.entries(allowed).map(([tier, limit]) => [tier, limitsOf(limit)]);
  const TIER_LIMITS = JSON.stringify(Object.fromEntries(limits));
  // No worker runs, so the judge model is never called.
  shared ??= startStack({ TIER_LIMITS, EVAL_MODEL: 'judge', EGRESS_ALLOW: s3Hosts().join() }, { workers: false });
  return shared;
}

after(async function closeLimitedStack() {
  await (await shared)?.close();
});

/**
 * Tests for each tier that of 32 concurrent requests exactly as many succeed as the limit leaves room for, and that the
 * others fail with `code`.
 * @param prepare returns the request of a user who is alone in their organization
 * @param used how much of the limit is used before the requests
 */
export function itHoldsTheLimit(
  code: ErrorCode,
  prepare: (member: Member) => Promise<() => Promise<Response>>,
  used = 0,
): void {
  it(`of ${CONCURRENT_REQUESTS} concurrent requests, as many succeed as the tier allows; the others get 409 ${code}`, async () => {
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

/** Sends a POST whose response is not checked against the contract. */
export const post = (member: Member, path: string, body: object, headers: Record<string, string> = {}) =>
  sendJson(member, 'POST', path, body, headers);
