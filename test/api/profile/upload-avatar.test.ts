import { expect } from 'chai';
import sharp from 'sharp';
import { profileSchema } from '#src/modules/profile/profile.schema.ts';
import { readAvatar, uploadAvatar } from '#test/support/avatars.ts';
import type { Member } from '#test/support/client.ts';
import {
  imageOfHalves,
  imageWithMiddle,
  isBlue,
  isRed,
  noisyImage,
  pixelsOf,
  plainImage,
} from '#test/support/images.ts';
import { gifOfFrames, imageClaiming } from '#test/support/poison/images.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const path = '/entity/me/avatar';
const limitBytes = 5 * 1024 ** 2;

describe('POST /entity/me/avatar', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const avatarOf = async (image: Buffer) => {
    await uploadAvatar(ada, image, 200);
    return readAvatar(ada);
  };

  it('200: returns the profile with has_avatar', async () => {
    const { body } = await uploadAvatar(ada, await plainImage({ width: 64, height: 64 }).png().toBuffer(), 200);
    expect(profileSchema.parse(body)).include({ user_id: ada.userId, has_avatar: true, avatar_fallback_url: null });
    expect((await ada.get('/entity/me/profile', 200)).body).deep.equal(body);
  });

  for (const format of ['png', 'jpeg', 'webp', 'gif'] as const) {
    it(`200: converts the centre of a ${format} to a WebP of 512 pixels per side`, async () => {
      const image = await imageWithMiddle({ width: 1_600, height: 800 }).toFormat(format).toBuffer();
      const avatar = await avatarOf(image);
      expect(await sharp(avatar).metadata()).include({ format: 'webp', width: 512, height: 512 });
      const { at } = await pixelsOf(avatar);
      expect([at(2, 2), at(509, 2), at(256, 256), at(2, 509), at(509, 509)].every(isBlue)).equal(true);
    });
  }

  it('200: never enlarges an image', async () => {
    const avatar = await avatarOf(await plainImage({ width: 90, height: 300 }).png().toBuffer());
    expect(await sharp(avatar).metadata()).include({ width: 90, height: 90 });
  });

  it('200: applies the EXIF orientation and removes the metadata', async () => {
    const exif = { IFD0: { Artist: 'canary of the artist' }, IFD3: { GPSLatitude: '52/1 31/1 0/1' } };
    const turned = imageOfHalves({ width: 300, height: 300 }).withExif(exif).withMetadata({ orientation: 6 });
    const image = await turned.jpeg().toBuffer();
    expect(image.includes('canary')).equal(true);
    const avatar = await avatarOf(image);
    const { at } = await pixelsOf(avatar);
    expect(isRed(at(150, 20)) && isBlue(at(150, 280))).equal(true);
    const { exif: kept, icc, xmp, orientation } = await sharp(avatar).metadata();
    expect([kept, icc, xmp, orientation]).deep.equal([undefined, undefined, undefined, undefined]);
    expect(avatar.includes('canary')).equal(false);
  });

  it('200: uses the first of ten thousand frames', async () => {
    const avatar = await avatarOf(gifOfFrames(10_000));
    expect((await sharp(avatar).metadata()).pages).equal(undefined);
  });

  it('200: removes a file appended to the image', async () => {
    const image = await plainImage({ width: 20, height: 20 }).png().toBuffer();
    const avatar = await avatarOf(Buffer.concat([image, Buffer.from('<script>canary</script>')]));
    expect(avatar.includes('canary')).equal(false);
  });

  it('200: replaces the previous avatar, also for concurrent uploads', async () => {
    const sides = [30, 31, 32];
    const images = await Promise.all(sides.map((side) => plainImage({ width: side, height: side }).png().toBuffer()));
    // One upload at a time is accepted; the others are repeated.
    const upload = (image: Buffer) => until('it is taken', () => uploadAvatar(ada, image, 200).catch(() => false));
    await Promise.all(images.map(upload));
    const { width } = await pixelsOf(await readAvatar(ada));
    expect(sides).include(width);
    expect(await shared.container.db('avatars').where({ userId: ada.userId })).length(1);
  });

  it('401: without a token', async () => {
    await uploadAvatar(shared.anonymous, gifOfFrames(1), 401);
  });

  it('401: for a user who was deleted during the upload, and nothing is stored', async () => {
    const { db } = shared.container;
    const eve = await shared.signUp('Eve');
    const upload = await db.transaction(async (trx) => {
      await trx('users').where({ id: eve.userId }).update({ deletedAt: db.fn.now(), eraseDueAt: db.fn.now() });
      const answer = uploadAvatar(eve, gifOfFrames(1), 401);
      const waiting = db('pg_stat_activity').whereRaw('datname = current_database()').where({ waitEventType: 'Lock' });
      await until('the avatar waits for its user', async () => (await waiting.clone()).length > 0);
      return { answer };
    });
    expect((await upload.answer).body).include({ code: 'invalid_token' });
    expect(await db('avatars').where({ userId: eve.userId })).deep.equal([]);
  });

  it('413: above 5 MB, but not for exactly 5 MB', async () => {
    const image = await plainImage({ width: 20, height: 20 }).png().toBuffer();
    const padded = (sizeBytes: number) => Buffer.concat([image, Buffer.alloc(sizeBytes - image.length)]);
    await uploadAvatar(ada, padded(limitBytes), 200);
    expect((await uploadAvatar(ada, padded(limitBytes + 1), 413)).body).include({ code: 'payload_too_large' });
  });

  it('422: for other formats, whatever their name and media type', async () => {
    const image = plainImage({ width: 20, height: 20 });
    const others: Record<string, Buffer> = {
      svg: Buffer.from(
        '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>',
      ),
      tiff: await image.clone().tiff().toBuffer(),
      avif: await image.clone().avif().toBuffer(),
      ppm: Buffer.from('P3 1 1 255 0 0 0\n'),
      text: Buffer.from('No image at all.'),
    };
    for (const [name, content] of Object.entries(others)) {
      const file = { name: 'me.png', content: new Uint8Array(content), type: 'image/png' };
      const { body } = await ada.upload(path, file, 422);
      expect(body, name).include({ code: 'unsupported_format' });
    }
  });

  it('422: for a damaged image; the previous avatar stays', async () => {
    const before = await avatarOf(gifOfFrames(1));
    for (const format of ['png', 'gif'] as const) {
      const image = await noisyImage({ width: 300, height: 300 }).toFormat(format).toBuffer();
      const { body } = await uploadAvatar(ada, image.subarray(0, image.length / 2), 422);
      expect(body, format).include({ code: 'corrupt_document' });
    }
    expect((await uploadAvatar(ada, Buffer.alloc(0), 422)).body).include({ code: 'corrupt_document' });
    expect(await readAvatar(ada)).deep.equal(before);
  });

  it('422: for too many pixels, before the image is decoded', async () => {
    const claims = [
      ['png', 50_000],
      ['jpg', 20_000],
      ['gif', 65_535],
    ] as const;
    for (const [format, side] of claims) {
      const { body } = await uploadAvatar(ada, imageClaiming(format, side, side), 422);
      expect(body, format).include({ code: 'too_large' });
    }
  });

  it('503: above the limit of uploads per process, until other uploads end', async () => {
    const leaving = new AbortController();
    const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="me.gif"\r\n\r\nGIF89a';
    const senders = await Promise.all(Array.from({ length: 23 }, () => shared.signUp()));
    const begin = async (sender: Member) => {
      // This upload never ends.
      const body = new ReadableStream({ start: (form) => form.enqueue(Buffer.from(part)) });
      const headers = { 'content-type': 'multipart/form-data; boundary=b' };
      return sender.raw(path, { method: 'POST', headers, body, duplex: 'half', signal: leaving.signal });
    };
    const answers = senders.map(begin);
    expect((await Promise.race(answers)).status).equal(503);
    leaving.abort();
    await Promise.allSettled(answers);
    const image = { name: 'me.gif', content: new Uint8Array(gifOfFrames(1)) };
    await until('there is memory again', () => ada.upload(path, image, 200).catch(() => false));
  });

  it('422: without a file, and for another field', async () => {
    expect((await ada.postForm(path, {}, 422)).body).nested.include({ 'errors[0].path': 'file' });
    const file = { name: 'me.gif', content: new Uint8Array(gifOfFrames(1)) };
    const { body } = await ada.upload(path, file, 422, { fields: { name: 'Ada' } });
    expect(body).nested.include({ 'errors[0].path': 'name' });
  });
});
