import { expect } from 'chai';
import { aColleague, aDraft, aDraftWithVersions, commitVersion, readDraft } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('versions of drafts', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const addressOf = (draftId: string, versionId: string | undefined) =>
    `/agent-drafts/${draftId}/versions/${versionId}`;
  const versionIds = async (draftId: string) => (await readDraft(ada, draftId)).versions.map(({ id }) => id);

  describe('PATCH /agent-drafts/{draft_id}/versions/{version_id}', () => {
    it('200: changes the title, and neither counter nor order', async () => {
      const { id, versions } = await aDraftWithVersions(ada, 2);
      const path = addressOf(id, versions[0]?.id);
      for (const title of [' Calm tone ', 'x'.repeat(256)]) {
        expect((await ada.patch(path, { title }, 200)).body).to.deep.equal({ ...versions[0], title: title.trim() });
      }
      const after = await readDraft(ada, id);
      expect(after.versions.map(({ title }) => title)).to.deep.equal(['x'.repeat(256), 'v2']);
      expect(after).to.include({ next_version_number: 3, head_version_id: versions[1]?.id });
      const next = await commitVersion(ada, id, { parent_version_id: after.head_version_id });
      expect(next.title).to.equal('v3');
    });

    it('401: without a token', async () => {
      await shared.anonymous.patch(addressOf(crypto.randomUUID(), crypto.randomUUID()), { title: 'x' }, 401);
    });

    it('403: rejects a user who may only read the draft', async () => {
      const draft = await aDraft(ada, { visibility: 'org_level' });
      const grace = await aColleague(shared, ada);
      await grace.patch(addressOf(draft.id, draft.head_version_id), { title: 'Mine' }, 403);
    });

    it('404: rejects an unknown draft, and a version of another draft', async () => {
      const [one, two] = [await aDraft(ada), await aDraft(ada)];
      const codeAt = async (draftId: string) =>
        (await ada.patch(addressOf(draftId, one.head_version_id), { title: 'x' }, 404)).body;
      expect(await codeAt(crypto.randomUUID())).to.include({ code: 'draft_not_found' });
      expect(await codeAt(two.id)).to.include({ code: 'version_not_found' });
      const eve = await shared.signUp('Eve');
      await eve.patch(addressOf(one.id, one.head_version_id), { title: 'x' }, 404);
    });

    it('412: rejects an outdated If-Match', async () => {
      const { id, head_version_id } = await aDraft(ada);
      const etag = (await ada.get(`/agent-drafts/${id}`, 200)).headers.get('etag') ?? '';
      const path = addressOf(id, head_version_id);
      await ada.patch(path, { title: 'First' }, 200, { 'if-match': etag });
      await ada.patch(path, { title: 'Second' }, 412, { 'if-match': etag });
    });

    it('422: with a title that is blank, too long, more than one line, or missing', async () => {
      const { id, head_version_id } = await aDraft(ada);
      for (const title of ['', '  ', 'x'.repeat(257), 'two\nlines', null, undefined]) {
        const { body } = await ada.patch(addressOf(id, head_version_id), { title }, 422);
        expect(body).to.nested.include({ 'errors[0].path': 'title' });
      }
    });
  });

  describe('DELETE /agent-drafts/{draft_id}/versions/{version_id}', () => {
    it('204: puts what comes after it under its parent', async () => {
      const { id, versions } = await aDraftWithVersions(ada, 3);
      const [first, second, third] = versions;
      await ada.delete(addressOf(id, second?.id), 204);
      const after = await readDraft(ada, id);
      expect(after.versions).to.deep.equal([first, { ...third, parent_version_id: first?.id }]);
      expect(after).to.include({ head_version_id: third?.id, next_version_number: 4 });
    });

    it('204: makes the next version the root when the root is deleted', async () => {
      const { id, versions } = await aDraftWithVersions(ada, 3);
      await ada.delete(addressOf(id, versions[0]?.id), 204);
      const after = await readDraft(ada, id);
      expect(after.versions.map(({ parent_version_id }) => parent_version_id)).to.deep.equal([null, versions[1]?.id]);
    });

    it('204: of the head, makes its parent the head, with its name, and gives no number again', async () => {
      const { id, head_version_id } = await aDraft(ada);
      const second = await commitVersion(ada, id, { parent_version_id: head_version_id, agent_name: 'Second' });
      await ada.delete(addressOf(id, second.id), 204);
      expect(await readDraft(ada, id)).to.include({ head_version_id, name: 'Clerk', next_version_number: 3 });
      expect((await commitVersion(ada, id, { parent_version_id: head_version_id })).title).to.equal('v3');
    });

    it('401: without a token', async () => {
      await shared.anonymous.delete(addressOf(crypto.randomUUID(), crypto.randomUUID()), 401);
    });

    it('403: rejects a user who may only read the draft', async () => {
      const { id, head_version_id } = await aDraftWithVersions(ada, 2, { visibility: 'org_level' });
      const grace = await aColleague(shared, ada);
      await grace.delete(addressOf(id, head_version_id), 403);
      expect(await versionIds(id)).to.have.length(2);
    });

    it('404: rejects an unknown draft, a version of another draft and a deleted version', async () => {
      const [one, two] = [await aDraftWithVersions(ada, 2), await aDraft(ada)];
      const codeAt = async (draftId: string) => (await ada.delete(addressOf(draftId, one.head_version_id), 404)).body;
      expect(await codeAt(crypto.randomUUID())).to.include({ code: 'draft_not_found' });
      expect(await codeAt(two.id)).to.include({ code: 'version_not_found' });
      await ada.delete(addressOf(one.id, one.head_version_id), 204);
      expect(await codeAt(one.id)).to.include({ code: 'version_not_found' });
    });

    it('409: keeps the last version, also of two concurrent deletions', async () => {
      const { id, versions } = await aDraftWithVersions(ada, 2);
      const answers = await Promise.all(
        versions.map((version) => ada.raw(addressOf(id, version.id), { method: 'DELETE' })),
      );
      expect(answers.map(({ status }) => status).sort()).to.deep.equal([204, 409]);
      const [left] = await versionIds(id);
      expect((await ada.delete(addressOf(id, left), 409)).body).to.include({ code: 'last_version' });
    });
  });
});
