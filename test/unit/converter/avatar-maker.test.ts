import { tmpdir } from 'node:os';
import { expect } from 'chai';
import { createAvatarMaker } from '#src/adapters/converter/avatar/avatar-maker.ts';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { plainImage } from '#test/support/images.ts';

describe('the maker of avatars', () => {
  it('makes none for who has left', async () => {
    const makeAvatar = createAvatarMaker({ sandbox: createParserSandbox('auto'), tempDir: tmpdir() });
    const image = await plainImage({ width: 20, height: 20 }).png().toBuffer();
    const leaving = new AbortController();
    const outcomes = [0, 1, 2].map(() =>
      makeAvatar(image, leaving.signal).then(
        () => 'made',
        (error: unknown) => error,
      ),
    );
    const reason = new Error('he has left');
    leaving.abort(reason);
    expect(await Promise.all(outcomes)).deep.equal([reason, reason, reason]);
  });
});
