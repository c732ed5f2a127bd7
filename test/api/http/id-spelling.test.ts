import { expect } from 'chai';
import { chatHistorySchema } from '#src/modules/chat/chat.schema.ts';
import { documentListSchema, fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { committedDraftVersionSchema, draftDetailSchema } from '#src/modules/drafts/drafts.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { jobListSchema } from '#src/modules/jobs/jobs.schema.ts';
import { aPublishedAgent, ask, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('ids in capitals', () => {
  let ada: Member;
  let teamId: string;
  let shared: Stack;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    teamId = await aTeam(ada, [ada]);
  });

  const capitals = (id: string) => id.toUpperCase();

  it('refer to the same draft, version and team and are stored in lower case', async () => {
    const shownTo = { visibility: 'team_level', team_ids: [capitals(teamId), teamId] };
    const { body } = await ada.post('/agent-drafts', { agent_name: 'Clerk', agent_prompt: 'Help.', ...shownTo }, 201);
    const draft = draftDetailSchema.parse(body);
    expect(draft.team_ids).to.deep.equal([teamId]);

    const path = `/agent-drafts/${capitals(draft.id)}/versions`;
    const commit = { parent_version_id: capitals(draft.head_version_id) };
    const { version } = committedDraftVersionSchema.parse((await ada.post(path, commit, 201)).body);
    expect(version).to.include({ draft_id: draft.id, parent_version_id: draft.head_version_id });
    const fork = { source_version_id: capitals(version.id) };
    expect(draftDetailSchema.parse((await ada.post('/agent-drafts', fork, 201)).body).name).to.equal('Clerk');
    const row = await shared.container.db('drafts').where({ id: draft.id }).first();
    expect(row.acl).to.include(`team:${teamId}`);
  });

  it('refer to the same folder, document and job', async () => {
    const { body } = await ada.get('/folders', 200);
    const folders = folderTreeNodeSchema.array().parse(body);
    const folderId = folders.find((folder) => folder.system_role === 'org_root')?.id ?? '';
    const text = { name: 'Plan', content: 'All of it.', source_format: 'text', target_folder_id: capitals(folderId) };
    const document = fullDocumentSchema.parse((await ada.post('/documents/paste', text, 201)).body);
    expect(document.folder_ids).to.deep.equal([folderId]);
    const read = fullDocumentSchema.parse((await ada.get(`/documents/${capitals(document.id)}`, 200)).body);
    expect(read.id).to.equal(document.id);
    const listed = await ada.get(`/documents?folder_id=${capitals(folderId)}`, 200);
    expect(documentListSchema.parse(listed.body).items.map(({ id }) => id)).to.deep.equal([document.id]);
    const jobs = await ada.get(`/jobs?document_id=${capitals(document.id)}`, 200);
    expect(jobListSchema.parse(jobs.body).items).to.have.length(1);
  });

  it('refer to the same agent, chat and document of a chat', async () => {
    const agentId = await aPublishedAgent(ada);
    const text = { name: 'Rates', content: 'The rate is 4 percent.', source_format: 'text' };
    const { id } = fullDocumentSchema.parse((await ada.post('/documents/paste', text, 201)).body);
    const first = await ask(ada, { message: 'Hello', agent_id: capitals(agentId) }, 201);
    const chat_id = capitals(first.chat_id);
    await ask(ada, { message: 'And?', chat_id, include_document_ids: [capitals(id)] }, 200);
    const history = chatHistorySchema.parse((await ada.get(`/chat/${chat_id}`, 200)).body);
    expect(history).to.include({ chat_id: first.chat_id, agent_id: agentId });
  });
});
