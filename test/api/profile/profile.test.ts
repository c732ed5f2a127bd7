import { expect } from 'chai';
import sharp, { type Sharp } from 'sharp';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { membershipSchema, profileSchema } from '#src/modules/profile/profile.schema.ts';
import { aColleague, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { gifOfFrames, imageClaiming, plainImage, readAvatar, uploadAvatar } from '#test/support/images.ts';
import { blankNames } from '#test/support/route-requests.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const path = '/entity/me/profile';

describe('the profile of the caller', () => {
  let shared: Stack;
  let ada: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const patch = async (body: object) => profileSchema.parse((await ada.patch(path, body, 200)).body);

  it('stores sent names trimmed and in NFC, keeps names not sent, and updates the author name of content', async () => {
    const { userId: user_id, email } = ada;
    const before = profileSchema.parse((await ada.get(path, 200)).body);
    const names = { first_name: null, last_name: null, display_name: 'Ada' };
    const more = { has_avatar: false, has_password: true, avatar_fallback_url: null };
    expect(before).deep.equal({ user_id, email, ...names, ...more });
    await patch({ first_name: ' Zoe\u0308 ', last_name: 'Lovelace' });
    const after = await patch({ display_name: 'The Countess' });
    const changed = { first_name: 'Zo\u00eb', last_name: 'Lovelace', display_name: 'The Countess' };
    expect(after).deep.equal({ ...before, ...changed });
    expect((await ada.get(path, 200)).body).deep.equal(after);
    const { id } = Object((await ada.post('/agent-drafts', {}, 201)).body);
    await patch({ display_name: 'Lady Lovelace' });
    expect((await ada.get(`/agent-drafts/${id}`, 200)).body).include({ created_by_name: 'Lady Lovelace' });
  });

  it('is complete with a first and a last name, and incomplete when a blank last name removes it', async () => {
    const needsCompletion = async () => {
      const sent = { username: ada.email, password: ada.password };
      const { body } = await shared.anonymous.post('/auth/login', sent, 200);
      return tokenResponse.parse(body).needs_profile_completion;
    };
    expect(await needsCompletion()).equal(true);
    await patch({ first_name: 'Ada', last_name: 'Lovelace' });
    expect(await needsCompletion()).equal(false);
    for (const blank of blankNames) expect((await patch({ last_name: blank })).last_name).equal(null);
    expect(await needsCompletion()).equal(true);
  });

  it('includes a membership with the organization, the enabled teams and the roles', async () => {
    const membership = async (member: Member) =>
      membershipSchema.parse((await member.get('/entity/me/membership', 200)).body);
    const organization = {
      ...{ org_id: ada.orgId, org_name: "Ada's organization", tier: 'free' },
      team_admins_contribute: false,
    };
    const founder = { user_id: ada.userId, is_org_admin: true, teams: [] };
    expect(await membership(ada)).deep.equal({ ...organization, ...founder });
    const grace = await aColleague(shared, ada);
    const [red, blue] = [await aTeam(ada, [grace]), await aTeam(ada, [grace])];
    await ada.patch(`/entity/teams/${blue}/members/${grace.userId}/team-admin`, { is_team_admin: true }, 200);
    const { teams, ...rest } = await membership(grace);
    expect(rest).deep.equal({ ...organization, user_id: grace.userId, is_org_admin: false });
    expect(teams.map((team) => [team.team_id, team.is_team_admin])).deep.equal([
      [red, false],
      [blue, true],
    ]);
    await ada.delete(`/entity/teams/${red}`, 204);
    expect((await membership(grace)).teams.map(({ team_id }) => team_id)).deep.equal([blue]);
  });
});

const own = '/entity/me/avatar';
const avatarOf = ({ userId }: Member) => `/entity/users/${userId}/avatar`;
const limitBytes = 5 * 1024 ** 2;

describe('avatars:', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const square = (side: number) => plainImage({ width: side, height: side });

  describe('POST /entity/me/avatar', () => {
    const uploaded = async (image: Buffer | Sharp) => {
      await uploadAvatar(ada, Buffer.isBuffer(image) ? image : await image.toBuffer(), 200);
      return readAvatar(ada);
    };

    it('200: converts the centre of a PNG, JPEG, WebP or GIF (its first frame) to a WebP of at most 512 pixels per side', async () => {
      for (const format of ['png', 'jpeg', 'webp', 'gif'] as const) {
        const avatar = sharp(await uploaded(redWithBlue(1_600, 800, 800, 400).toFormat(format)));
        expect(await avatar.metadata(), format).include({ format: 'webp', width: 512, height: 512 });
        expect(await colourOf(avatar), format).equal('0.0,0.0,1.0');
      }
      const small = await uploaded(plainImage({ width: 90, height: 300 }).png());
      expect(await sharp(small).metadata(), 'not enlarged').include({ width: 90, height: 90 });
      expect((await sharp(await uploaded(gifOfFrames(10_000))).metadata()).pages).equal(undefined);
    });

    it('200: applies the EXIF orientation, and removes metadata and files appended to the image', async () => {
      const exif = { IFD0: { Artist: 'canary of the artist' }, IFD3: { GPSLatitude: '52/1 31/1 0/1' } };
      const turned = redWithBlue(300, 300, 150, 150).withExif(exif).withMetadata({ orientation: 6 });
      const image = Buffer.concat([await turned.jpeg().toBuffer(), Buffer.from('<script>canary</script>')]);
      const avatar = await uploaded(image);
      const half = (top: number) => colourOf(sharp(avatar).extract({ left: 0, top, width: 300, height: 140 }));
      expect([await half(0), await half(160)]).deep.equal(['1.0,0.0,0.0', '0.0,0.0,1.0']);
      expect(await sharp(avatar).metadata()).not.have.any.keys('exif', 'icc', 'xmp', 'orientation');
      expect(avatar.includes('canary')).equal(false);
    });

    it('401: for a user who is deleted during the upload, of which nothing is stored', async () => {
      const { db } = shared.container;
      const eve = await aColleague(shared, ada, 'Eve');
      const trx = await db.transaction();
      await trx('users').where({ id: eve.userId }).update({ deletedAt: db.fn.now(), eraseDueAt: db.fn.now() });
      const upload = uploadAvatar(eve, gifOfFrames(1), 401);
      const waiting = db('pg_stat_activity').where({ waitEventType: 'Lock' }).whereRaw('datname = current_database()');
      await until('the avatar waits for its user', () => waiting.clone().first());
      await trx.commit();
      expect((await upload).body).include({ code: 'invalid_token' });
      await ada.get(avatarOf(eve), 404);
    });

    it('413: for an image above 5 MB, but not for one of exactly 5 MB', async () => {
      const image = await square(20).png().toBuffer();
      const padded = (sizeBytes: number) => Buffer.concat([image, Buffer.alloc(sizeBytes - image.length)]);
      await uploadAvatar(ada, padded(limitBytes), 200);
      expect((await uploadAvatar(ada, padded(limitBytes + 1), 413)).body).include({ code: 'payload_too_large' });
    });

    it('422: for a file that is no PNG, JPEG, WebP or GIF, is damaged or has too many pixels; the old avatar stays', async () => {
      const before = await uploaded(gifOfFrames(1));
      const halfOf = (image: Buffer) => image.subarray(0, image.length / 2);
      // It takes room in every format.
      const gaussian = { type: 'gaussian', mean: 99, sigma: 50 } as const;
      const noise = sharp({ create: { width: 300, height: 300, channels: 3, background: 'blue', noise: gaussian } });
      const cases: [content: Buffer, code: string][] = [
        [Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'), 'unsupported_format'],
        [await square(20).tiff().toBuffer(), 'unsupported_format'],
        [Buffer.from('No image at all.'), 'unsupported_format'],
        [halfOf(await noise.clone().png().toBuffer()), 'corrupt_document'],
        [halfOf(await noise.clone().gif().toBuffer()), 'corrupt_document'],
        [Buffer.alloc(0), 'corrupt_document'],
        [imageClaiming('png', 50_000, 50_000), 'too_large'],
        [imageClaiming('jpg', 20_000, 20_000), 'too_large'],
        [imageClaiming('gif', 65_535, 65_535), 'too_large'],
      ];
      for (const [index, [content, code]] of cases.entries()) {
        const file = { name: 'me.png', content: new Uint8Array(content), type: 'image/png' };
        expect((await ada.upload(own, file, 422)).body, `case ${index}`).include({ code });
      }
      expect(await readAvatar(ada)).deep.equal(before);
    });
  });

  it('GET /entity/me/avatar sends a sandboxed image with ETag and ranges until the avatar is deleted', async () => {
    const { body: profile } = await uploadAvatar(ada, await square(64).png().toBuffer(), 200);
    expect(profile).include({ has_avatar: true, avatar_fallback_url: null });
    expect((await ada.get(path, 200)).body).deep.equal(profile);
    const { headers } = await ada.get(own, 200);
    const { etag = '', ...sent } = Object.fromEntries(headers);
    expect(etag).match(/^"[0-9a-f]{64}"$/);
    expect(sent).include({
      'content-type': 'image/webp',
      'cache-control': 'private, no-cache',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "sandbox; default-src 'none'",
    });
    expect(sent['content-disposition']).contain('attachment');
    const part = await ada.raw(own, { headers: { range: 'bytes=4-9' } });
    expect(part.status).equal(206);
    expect(Buffer.from(await part.arrayBuffer())).deep.equal((await readAvatar(ada)).subarray(4, 10));
    const { body } = await ada.get(own, 416, { range: 'bytes=1000000-' });
    expect(body).include({ code: 'range_not_satisfiable' });
    await ada.get(own, 304, { 'If-None-Match': etag });
    await uploadAvatar(ada, gifOfFrames(1), 200);
    await ada.get(own, 200, { 'If-None-Match': etag });
    for (const _ of ['there', 'gone']) {
      expect((await ada.delete(own, 200)).body).include({ user_id: ada.userId, has_avatar: false });
    }
    expect((await ada.get(own, 404)).body).include({ code: 'avatar_not_found' });
  });

  it('GET /entity/users/{user_id}/avatar shows the avatar to colleagues until its user is disabled or deleted', async () => {
    const grace = await aColleague(shared, ada);
    await uploadAvatar(grace, gifOfFrames(1), 200);
    const image = await readAvatar(grace);
    for (const member of [ada, grace, await aColleague(shared, ada)]) {
      expect(await readAvatar(member, avatarOf(grace))).deep.equal(image);
    }
    const { headers } = await ada.get(avatarOf(grace), 200);
    await ada.get(avatarOf(grace), 304, { 'If-None-Match': headers.get('etag') ?? '' });
    await ada.get(avatarOf(grace), 206, { range: 'bytes=0-3' });
    await ada.get(avatarOf(grace), 416, { range: 'bytes=1000000-' });
    await ada.post(`/entity/users/${grace.userId}/disable`, undefined, 204);
    await ada.get(avatarOf(grace), 404);
    await ada.post(`/entity/users/${grace.userId}/enable`, undefined, 204);
    await ada.get(avatarOf(grace), 200);
    await ada.delete(`/entity/members/${grace.userId}`, 204);
    await ada.get(avatarOf(grace), 404);
  });
});

/** Red, with a blue rectangle that is as high as the image. */
function redWithBlue(width: number, height: number, blueWidth: number, left: number): Sharp {
  const blue = { create: { width: blueWidth, height, channels: 3, background: 'blue' } } as const;
  const red = sharp({ create: { width, height, channels: 3, background: 'red' } });
  return red.composite([{ input: blue, left, top: 0 }]);
}

/** The mean of red, green and blue, rounded, because lossy formats move a colour a little. */
async function colourOf(image: Sharp): Promise<string> {
  const { channels } = await sharp(await image.toBuffer()).stats();
  return channels.map(({ mean }) => (mean / 255).toFixed(1)).join();
}
