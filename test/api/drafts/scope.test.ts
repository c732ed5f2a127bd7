import { expect } from 'chai';
import { aColleague, aDraft, aSettledAgentOfDraft, aTeam, readDraft } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('PATCH /agent-drafts/{draft_id}/scope', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  let team: string;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
    team = await aTeam(ada, [grace]);
  });

  const addressOf = (draftId: string) => `/agent-drafts/${draftId}/scope`;

  it('200: changes who sees the draft with all its versions', async () => {
    const { id } = await aDraft(ada);
    const barbara = await aColleague(shared, ada, 'Barbara');
    await grace.get(`/agent-drafts/${id}`, 404);
    const forTeam = { visibility: 'team_level', team_ids: [team] };
    const { body } = await ada.patch(addressOf(id), forTeam, 200);
    expect(body).to.deep.include(forTeam);
    expect(await readDraft(grace, id)).to.deep.equal(body);
    await barbara.get(`/agent-drafts/${id}`, 404);
    await ada.patch(addressOf(id), { visibility: 'org_level' }, 200);
    await barbara.get(`/agent-drafts/${id}`, 200);
    expect((await ada.patch(addressOf(id), { visibility: 'personal' }, 200)).body).to.deep.include({ team_ids: [] });
    await grace.get(`/agent-drafts/${id}`, 404);
    await ada.get(`/agent-drafts/${id}`, 200);
  });

  it('200: leaves agents that were published before as they are', async () => {
    const draft = await aDraft(ada);
    const agent = await aSettledAgentOfDraft(ada, draft, { visibility: 'org_level' });
    await ada.patch(addressOf(draft.id), { visibility: 'team_level', team_ids: [team] }, 200);
    expect((await ada.get(`/agents/${agent.id}`, 200)).body).to.deep.equal(agent);
  });

  it('401: without a token', async () => {
    await shared.anonymous.patch(addressOf(crypto.randomUUID()), { visibility: 'personal' }, 401);
  });

  it('403: rejects users who may only read the draft, including org admins', async () => {
    const { id } = await aDraft(grace, { visibility: 'org_level' });
    await ada.patch(addressOf(id), { visibility: 'personal' }, 403);
  });

  it('404: rejects an unknown draft, and a team that the caller does not belong to', async () => {
    const { id } = await aDraft(grace);
    const personal = { visibility: 'personal' };
    expect((await ada.patch(addressOf(id), personal, 404)).body).to.include({ code: 'draft_not_found' });
    await grace.patch(addressOf(crypto.randomUUID()), personal, 404);
    const others = { visibility: 'team_level', team_ids: [await aTeam(ada)] };
    expect((await grace.patch(addressOf(id), others, 404)).body).to.include({ code: 'team_not_found' });
    expect(await readDraft(grace, id)).to.include(personal);
  });

  it('412: rejects an outdated If-Match', async () => {
    const { id } = await aDraft(ada);
    const etag = (await ada.get(`/agent-drafts/${id}`, 200)).headers.get('etag') ?? '';
    await ada.patch(addressOf(id), { visibility: 'org_level' }, 200, { 'if-match': etag });
    await ada.patch(addressOf(id), { visibility: 'personal' }, 412, { 'if-match': etag });
  });

  it('422: rejects a missing visibility, teams without team_level, and team_level without teams', async () => {
    const { id } = await aDraft(ada);
    for (const [wrong, path] of [
      [{}, 'visibility'],
      [{ visibility: 'public' }, 'visibility'],
      [{ visibility: 'team_level' }, 'team_ids'],
      [{ visibility: 'org_level', team_ids: [team] }, 'team_ids'],
      [{ visibility: 'personal', title: 'x' }, 'title'],
    ] as const) {
      const { body } = await ada.patch(addressOf(id), wrong, 422);
      expect(body).to.nested.include({ 'errors[0].path': path });
    }
  });
});
