import { expect } from 'chai';
import { aColleague, aPublishedAgent, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';

describe('PATCH /chat/{chat_id}', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
  });
  beforeEach(() => stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.' })));

  const newChat = (fields: object = {}) =>
    ask(ada, { agent_id: agentId, message: 'How is a loan repaid?', ...fields }, 201);

  it('200 with the chat as lists show it', async () => {
    const { chat_id } = await newChat();
    const { body } = await ada.patch(`/chat/${chat_id}`, { title: '  My loan ' }, 200);
    expect(body).include({ id: chat_id, title: 'My loan', round: 1 });
    expect((await ada.get(`/chat/${chat_id}`, 200)).body).include({ title: 'My loan' });
  });

  it('keeps the new title when the model proposes another one', async () => {
    const { chat_id, postprocess_job_id } = await newChat();
    await ada.patch(`/chat/${chat_id}`, { title: 'Mine' }, 200);
    await untilRun(ada, postprocess_job_id, 'succeeded');
    const second = await ask(ada, { chat_id, message: 'And then?' }, 200);
    await untilRun(ada, second.postprocess_job_id, 'succeeded');
    expect(second.title).equal('Mine');
    expect((await ada.get(`/chat/${chat_id}`, 200)).body).include({ title: 'Mine' });
  });

  it('412 if the chat was renamed meanwhile', async () => {
    const { chat_id } = await newChat();
    await until('the round is scored and the chat has its title', async () => {
      const { body } = await ada.get(`/chat/${chat_id}`, 200);
      const chat = body as { echo_scoring_pending: boolean; title: string };
      return !chat.echo_scoring_pending && chat.title === 'A scripted title';
    });
    const etag = (await ada.get(`/chat/${chat_id}`, 200)).headers.get('etag') ?? '';
    await ada.patch(`/chat/${chat_id}`, { title: 'First' }, 200, { 'if-match': etag });
    await ada.patch(`/chat/${chat_id}`, { title: 'Second' }, 412, { 'if-match': etag });
  });

  it('200 with an ETag from before the round was scored and the model proposed a title', async () => {
    const { chat_id, postprocess_job_id } = await newChat();
    const { headers } = await ada.get(`/chat/${chat_id}`, 200);
    await untilRun(ada, postprocess_job_id, 'succeeded');
    await ada.patch(`/chat/${chat_id}`, { title: 'Mine' }, 200, { 'if-match': headers.get('etag') ?? '' });
  });

  it('401 without a token', async () => {
    await stack.anonymous.patch(`/chat/${crypto.randomUUID()}`, { title: 'Mine' }, 401);
  });

  it('403 for a colleague with read access only', async () => {
    const { chat_id } = await newChat({ visibility: 'org_level' });
    await (await aColleague(stack, ada)).patch(`/chat/${chat_id}`, { title: 'Mine' }, 403);
  });

  it('404 for a chat that is not readable', async () => {
    const { chat_id } = await newChat();
    await (await stack.signUp('Eve')).patch(`/chat/${chat_id}`, { title: 'Mine' }, 404);
  });

  for (const [what, title] of [
    ['blank', ' '],
    ['of several lines', 'a\nb'],
    ['of 201 characters', 'x'.repeat(201)],
    ['missing', undefined],
  ]) {
    it(`422 for a title that is ${what}`, async () => {
      const { body } = await ada.patch(`/chat/${crypto.randomUUID()}`, { title }, 422);
      expect(body).nested.property('errors[0].path', 'title');
    });
  }
});
