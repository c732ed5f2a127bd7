import { tmpdir } from 'node:os';
import { expect } from 'chai';
import { createAvatarImageMaker } from '#src/adapters/converter/avatar/avatar-maker.ts';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { plainImage } from '#test/support/images.ts';

describe('the avatar image maker', () => {
  it('stops running and queued conversions when their request is aborted', async () => {
    const makeAvatar = createAvatarImageMaker({ sandbox: createParserSandbox('auto'), tempDir: tmpdir() });
    const image = await plainImage({ width: 20, height: 20 }).png().toBuffer();
    const request = new AbortController();
    const conversions = Promise.allSettled([0, 1, 2].map(() => makeAvatar(image, request.signal)));
    const reason = new Error('client disconnected');
    request.abort(reason);
    expect(await conversions).deep.equal(Array(3).fill({ status: 'rejected', reason }));
  });
});
