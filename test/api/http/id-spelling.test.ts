import { expect } from 'chai';
import { aPublishedAgent, ask, aTeam, rootOf } from '#test/support/builders.ts';
import { stack } from '#test/support/stack.ts';

describe('ids in capitals', () => {
  it('refer to the same resources in paths, queries and bodies, and are stored in lower case', async () => {
    const api = await stack();
    const ada = await api.signUp();
    const capitals = (id: string) => id.toUpperCase();
    const post = async (path: string, body: object) => Object((await ada.post(path, body, 201)).body);
    const get = async (path: string) => Object((await ada.get(path, 200)).body);

    const teamId = await aTeam(ada, [ada]);
    const scope = { visibility: 'team_level', team_ids: [capitals(teamId), teamId] };
    const draft = await post('/agent-drafts', { agent_name: 'Clerk', agent_prompt: 'Help.', ...scope });
    expect(draft.team_ids).to.deep.equal([teamId]);
    const commit = { parent_version_id: capitals(draft.head_version_id) };
    const { version } = await post(`/agent-drafts/${capitals(draft.id)}/versions`, commit);
    expect(version).to.include({ draft_id: draft.id, parent_version_id: draft.head_version_id });
    expect(await post('/agent-drafts', { source_version_id: capitals(version.id) })).include({ name: 'Clerk' });
    const row = await api.container.db('drafts').where({ id: draft.id }).first();
    expect(row.acl).to.include(`team:${teamId}`);

    const folderId = await rootOf(ada, 'org_root');
    const text = { name: 'Rates', content: 'The rate is 4 percent.', source_format: 'text' };
    const document = await post('/documents/paste', { ...text, target_folder_id: capitals(folderId) });
    expect(document.folder_ids).to.deep.equal([folderId]);
    const id = capitals(document.id);
    expect(await get(`/documents/${id}`)).include({ id: document.id });
    const { items } = await get(`/documents?folder_id=${capitals(folderId)}`);
    expect(items.map((item: { id: string }) => item.id)).to.deep.equal([document.id]);
    expect((await get(`/jobs?document_id=${id}`)).items).to.have.length(1);

    const agent_id = await aPublishedAgent(ada);
    const { chat_id } = await ask(ada, { message: 'Hello', agent_id: capitals(agent_id) }, 201);
    await ask(ada, { message: 'And?', chat_id: capitals(chat_id), include_document_ids: [id] }, 200);
    expect(await get(`/chat/${capitals(chat_id)}`)).to.include({ chat_id, agent_id });
  });
});
