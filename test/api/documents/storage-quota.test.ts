import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const AT_ONCE = 16;
const FITTING = 5;
const FILE_BYTES = 300;

describe('the storage quota at its boundary', () => {
  let stack: Stack;
  before(async () => {
    const storageBytes = FITTING * FILE_BYTES + 10;
    stack = await startStack({ TIER_LIMITS: JSON.stringify({ free: { storageBytes } }) }, { workers: false });
  });
  after(() => stack.close());

  /** Uploads files with these contents concurrently. @returns how many rows and objects there are then */
  async function stored(contents: readonly string[]): Promise<{ rows: number; objects: number }> {
    const ada = await stack.signUp();
    const upload = (content: string) => {
      const body = new FormData();
      body.set('file', new Blob([content]), 'a.txt');
      return ada.raw('/documents', { method: 'POST', body });
    };
    const replies = await Promise.all(contents.map(upload));
    const refused = replies.filter(({ status }) => status !== 201);
    expect(refused).length(AT_ONCE - FITTING);
    for (const reply of refused) {
      // Whether there is room is only known once the other uploads have ended.
      expect(problemSchema.parse(await reply.json()).code).oneOf(['storage_quota_exceeded', 'rate_limited']);
    }
    const late = await upload('y'.repeat(FILE_BYTES));
    expect(problemSchema.parse(await late.json())).include({ status: 409, code: 'storage_quota_exceeded' });
    const { db, blobs } = stack.container;
    const rows = await db('documents').where({ orgId: ada.orgId });
    const all = await blobs.list({ after: null, limit: 1_000 });
    expect(await db('blobClaims').where({ orgId: ada.orgId })).deep.equal([]);
    return { rows: rows.length, objects: all.filter(({ key }) => key.startsWith(ada.orgId)).length };
  }

  it('is exact for concurrent uploads, and rejected files leave nothing behind', async () => {
    const contents = Array.from({ length: AT_ONCE }, (_, index) => `${index}`.padEnd(FILE_BYTES, '.'));
    expect(await stored(contents)).deep.equal({ rows: FITTING, objects: FITTING });
  });

  it('counts every document of the same content, and a rejected one does not affect the others', async () => {
    const contents = Array.from({ length: AT_ONCE }, () => 'x'.repeat(FILE_BYTES));
    expect(await stored(contents)).deep.equal({ rows: FITTING, objects: 1 });
  });
});
