import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { aColleague, anIngestedDocument, aPublishedAgent, ask, aTeam } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

describe('documents of a team in chats', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let grace: Member;
  let agent: string;
  let team: string;
  let plan: string;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp();
    grace = await aColleague(stack, ada);
    agent = await aPublishedAgent(grace);
    team = await aTeam(ada);
    const folders = folderTreeNodeSchema.array().parse((await ada.get('/folders', 200)).body);
    const root = folders.find(({ system_role }) => system_role === 'team_root')?.id;
    await anIngestedDocument(grace, 'Own', 'The loan fee is one percent.');
    plan = await anIngestedDocument(ada, 'Plan', 'The loan fee of the team is two percent.', {
      target_folder_id: root,
    });
  });

  const answered = async (): Promise<string[]> => {
    stack.model.behave(() => ({ kind: 'answer', text: 'It is one percent.' }));
    await ask(grace, { agent_id: agent, message: 'What is the loan fee?' }, 201);
    const prompt = stack.model.requests[0]?.messages.map((message) => message.content).join('\n') ?? '';
    return [...prompt.matchAll(/<<[a-z0-9]+ \d+ \| ([^|]+) \| p\. \d+>>/g)].map((match) => match[1] ?? '').sort();
  };
  const member = () => `/entity/teams/${team}/members/${grace.userId}`;

  it('are used from the next message on for a new member, and no longer for a removed one', async () => {
    expect(await answered()).to.deep.equal(['Own']);
    await ada.put(member(), {}, 200);
    expect(await answered()).to.deep.equal(['Own', 'Plan']);
    expect(fullDocumentSchema.parse((await grace.get(`/documents/${plan}`, 200)).body).name).to.equal('Plan');
    await ada.delete(member(), 204);
    expect(await answered()).to.deep.equal(['Own']);
    await grace.get(`/documents/${plan}`, 404);
  });

  it('are only used for org admins once the team is disabled', async () => {
    await ada.put(member(), {}, 200);
    await ada.delete(`/entity/teams/${team}`, 204);
    expect(await answered()).to.deep.equal(['Own']);
    await grace.get(`/documents/${plan}`, 404);
    await ada.get(`/documents/${plan}`, 200);
  });
});
