import { expect } from 'chai';
import { createCursorCodec } from '#src/http/request/pagination.ts';

describe('cursors', () => {
  const cursors = createCursorCodec('a signing key of the tests, long enough');
  const position = { sortKey: '2026-01-02T03:04:05.123456Z', id: '01890000-0000-7000-8000-000000000000' };
  const list = ['chats', { agentId: null }];

  it('decode to the position that they were created from', () => {
    const cursor = cursors.encode(position, list);
    expect(cursor).to.match(/^v1\.[\w-]+\.[\w-]{22}$/);
    expect(cursors.decode(cursor ?? '', list)).to.deep.equal(position);
  });

  it('are null at the start and at the end of a list', () => {
    expect(cursors.encode(null, list)).to.equal(null);
    expect(cursors.decode(undefined, list)).to.equal(null);
  });

  it('do not depend on the order of the filters', () => {
    const cursor = cursors.encode(position, { a: 1, b: 2 });
    expect(cursors.decode(cursor ?? '', { b: 2, a: 1 })).to.deep.equal(position);
  });

  const cursor = cursors.encode(position, list) ?? '';
  const [version, payload = '', signature = ''] = cursor.split('.');
  const foreign = createCursorCodec('another signing key, also long enough').encode(position, list) ?? '';
  const refused: [string, string, unknown][] = [
    ['garbage', 'hello', list],
    ['nothing', '', list],
    ['another position under the old signature', `${version}.${payload.slice(0, -2)}AA.${signature}`, list],
    ['a cut signature', cursor.slice(0, -1), list],
    ['another version', cursor.replace('v1', 'v2'), list],
    ['a cursor signed with another key', foreign, list],
    ['a cursor of the same list with other filters', cursor, ['chats', { agentId: 'x' }]],
  ];
  for (const [what, text, usedFor] of refused) {
    it(`reject ${what}`, () => {
      expect(() => cursors.decode(text, usedFor))
        .to.throw()
        .with.property('code', 'invalid_cursor');
    });
  }
});
