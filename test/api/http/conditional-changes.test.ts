import { expect } from 'chai';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('If-Match', () => {
  let stack: Stack;
  let ada: Member;
  let documentId: string;
  before(async () => {
    // Without workers, so that nothing else changes the document.
    stack = await startStack({ DATABASE_POOL_SIZE: '4' }, { workers: false });
    ada = await stack.signUp();
    const paste = { name: 'fox', content: 'The quick brown fox.', source_format: 'text' };
    documentId = (Object((await ada.post('/documents/paste', paste, 201)).body) as { id: string }).id;
  });
  after(() => stack.close());

  const changes = {
    'PATCH /documents/{document_id}': {
      path: () => `/documents/${documentId}`,
      method: 'PATCH',
      body: (index: number) => ({ name: `fox ${index}` }),
    },
    'PUT /rag/config/{document_id}': {
      path: () => `/rag/config/${documentId}`,
      method: 'PUT',
      body: (index: number, now: { config: { retrieval: object } }) => ({
        ...now.config,
        retrieval: { ...now.config.retrieval, rrf_k: 100 + index },
      }),
    },
  };
  for (const [name, { path, method, body }] of Object.entries(changes)) {
    it(`lets one of twenty changes of the same state pass: ${name}`, async () => {
      const read = await ada.get(path(), 200);
      const etag = read.headers.get('etag') ?? '';
      const now = Object(read.body);
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          ada.raw(path(), {
            method,
            headers: { 'content-type': 'application/json', 'if-match': etag },
            body: JSON.stringify(body(index, now)),
          }),
        ),
      );
      const statuses = answers.map(({ status }) => status).sort();
      expect(statuses).deep.equal([200, ...Array<number>(19).fill(412)]);
    });
  }

  it('412 for a tag of what has none, and not for any state', async () => {
    const rename = (tag: string, status: number) =>
      ada.patch('/entity/org', { name: 'Acme' }, status, { 'If-Match': tag });
    await rename('"x"', 412);
    await rename('*', 200);
  });

  it('is compared without waiting for a connection, when all others wait for the same document', async () => {
    const path = `/documents/${documentId}`;
    const etag = (await ada.get(path, 200)).headers.get('etag') ?? '';
    const headers = { 'content-type': 'application/json' };
    const change = (name: string, condition: Record<string, string> = {}) =>
      ada.raw(path, { method: 'PATCH', headers: { ...headers, ...condition }, body: JSON.stringify({ name }) });
    const answers = await Promise.all([
      change('wolf', { 'if-match': etag }),
      ...Array.from({ length: 16 }, (_, index) => change(`fox ${index}`)),
    ]);
    const [conditional, ...plain] = answers.map(({ status }) => status);
    expect(conditional).oneOf([200, 412]);
    expect(plain).deep.equal(Array<number>(16).fill(200));
  });
});
