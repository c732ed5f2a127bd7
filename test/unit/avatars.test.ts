import { tmpdir } from 'node:os';
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { createAvatarImageMaker } from '#src/adapters/converter/avatar/avatar-maker.ts';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { createAvatarsService } from '#src/modules/profile/profile.service.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { plainImage } from '#test/support/images.ts';
import { anActor } from '#test/support/served-routes.ts';

describe('the limit of concurrent avatar uploads', () => {
  it('keeps the last six slots for organizations that have no upload under way', async () => {
    const avatars = createAvatarsService({ db: {} as never, makeAvatar: async (image) => image });
    const content = new PassThrough().setMaxListeners(0);
    let users = 0;
    const receive = (orgId: string) => {
      users += 1;
      const actor = anActor({ userId: `user ${users}`, orgId });
      return avatars.receive(actor, { fileName: 'me.png', content: content.pipe(new PassThrough()) });
    };
    const receiving = Array.from({ length: 15 }, (_, n) => receive(`organization ${n % 5}`));
    receiving.push(receive('acme'));
    expect(await appErrorCode(receive('acme'))).equal('service_unavailable');
    for (let n = 0; n < 6; n += 1) receiving.push(receive(`small organization ${n}`));
    expect(await appErrorCode(receive('another small organization'))).equal('service_unavailable');
    content.end('an image');
    const received = await Promise.all(receiving);
    expect(received.map(({ content: image }) => String(image))).deep.equal(Array(22).fill('an image'));
  });
});

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
