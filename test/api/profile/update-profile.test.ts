import { expect } from 'chai';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { profileSchema } from '#src/modules/profile/profile.schema.ts';
import { badNames, blankNames, eachBad } from '#test/support/bad-fields.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const path = '/entity/me/profile';

describe('PATCH /entity/me/profile', () => {
  let shared: Stack;
  let ada: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const patch = async (body: object) => profileSchema.parse((await ada.patch(path, body, 200)).body);
  const signIn = async () => {
    const sent = { username: ada.email, password: ada.password };
    return tokenResponse.parse((await shared.anonymous.post('/auth/login', sent, 200)).body);
  };

  it('200: changes the sent names, trimmed, and keeps the others', async () => {
    const names = { first_name: ' Ada ', last_name: 'Lovelace' };
    expect(await patch(names)).to.include({ first_name: 'Ada', last_name: 'Lovelace', display_name: 'Ada' });
    const after = await patch({ display_name: 'The Countess' });
    expect(after).to.include({ first_name: 'Ada', last_name: 'Lovelace', display_name: 'The Countess' });
    expect((await ada.get(path, 200)).body).to.deep.equal(after);
  });

  it('200: sets first and last name, and a blank one removes them', async () => {
    expect((await signIn()).needs_profile_completion).to.equal(true);
    await patch({ first_name: 'Ada', last_name: 'Lovelace' });
    expect((await signIn()).needs_profile_completion).to.equal(false);
    for (const blank of blankNames) expect((await patch({ last_name: blank })).last_name).to.equal(null);
    expect((await signIn()).needs_profile_completion).to.equal(true);
  });

  it('200: normalizes a name to NFC', async () => {
    expect((await patch({ first_name: 'Zoe\u0308' })).first_name).to.equal('Zo\u00eb');
  });

  it('200: shows the new name as the author of content', async () => {
    const draft = (await ada.post('/agent-drafts', {}, 201)).body as { id: string };
    await patch({ display_name: 'The Countess' });
    expect((await ada.get(`/agent-drafts/${draft.id}`, 200)).body).to.include({ created_by_name: 'The Countess' });
  });

  it('401: without a token', async () => {
    await shared.anonymous.patch(path, { first_name: 'Ada' }, 401);
  });

  it('412: for an outdated ETag', async () => {
    const etag = (await ada.get(path, 200)).headers.get('etag') ?? '';
    await ada.patch(path, { first_name: 'Ada' }, 200, { 'If-Match': etag });
    const { body } = await ada.patch(path, { first_name: 'Eve' }, 412, { 'If-Match': etag });
    expect(body).to.include({ code: 'precondition_failed' });
    expect((await patch({ last_name: 'Lovelace' })).first_name).to.equal('Ada');
  });

  it('412: for all but one of several concurrent changes with one ETag', async () => {
    const headers = {
      'content-type': 'application/json',
      'If-Match': (await ada.get(path, 200)).headers.get('etag') ?? '',
    };
    const replies = await Promise.all(
      Array.from({ length: 8 }, (_, n) => {
        return ada.raw(path, { method: 'PATCH', headers, body: JSON.stringify({ first_name: `Ada ${n}` }) });
      }),
    );
    expect(replies.map(({ status }) => status).sort()).to.deep.equal([200, ...Array(7).fill(412)]);
  });

  it('422: without fields, with unknown ones or with invalid names', async () => {
    for (const wrong of [
      {},
      { email: 'ada@example.com' },
      { has_avatar: true },
      ...['first_name', 'last_name', 'display_name'].flatMap((field) => eachBad({}, field, badNames)),
    ]) {
      expect((await ada.patch(path, wrong, 422)).body).to.include({ code: 'validation_failed' });
    }
  });

  it('422: for a blank display name, which is required', async () => {
    for (const wrong of eachBad({}, 'display_name', blankNames)) {
      const { body } = await ada.patch(path, wrong, 422);
      expect(body).to.nested.include({ 'errors[0].path': 'display_name', 'errors[0].code': 'blank' });
    }
  });
});
