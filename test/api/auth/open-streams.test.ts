import { expect } from 'chai';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { aColleague, anApiKey, aPublishedAgent, aTeam, openChatStream } from '#test/support/builders.ts';
import { type ApiClient, type Member, readEvents, type StreamEvent } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack, stoppedIngestion } from '#test/support/scripted-stack.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

describe('an answer that is being written', () => {
  let stack: ScriptedStack;
  /** Another process on the same database, whose changes the first one has to notice. */
  let replica: Stack;
  let admin: Member;
  let elsewhere: ApiClient;
  let ada: Member;
  let agentId: string;
  let finish: PromiseWithResolvers<void>;

  before(async () => {
    stack = await scriptedStack();
    replica = await startStack({ ...stack.settings, PORT: '0' }, { workers: false });
  });
  after(() => replica.close());
  beforeEach(async () => {
    finish = Promise.withResolvers();
    stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
    admin = await stack.signUp('Olga');
    elsewhere = admin.at(replica.baseUrl);
    ada = await aColleague(stack, admin, 'Ada');
    agentId = await aPublishedAgent(ada);
  });
  afterEach(() => {
    finish.resolve();
    stack.model.failEmbeddings(false);
  });

  const message = 'How is a loan repaid?';
  const question = () => ({ agent_id: agentId, message, visibility: 'org_level' });
  const open = async (member: Member, body: Record<string, unknown>) => {
    const events = await openChatStream(member, body);
    await events.next();
    return events;
  };
  const newestChat = async (): Promise<string> => Object((await admin.get('/chat?limit=1', 200)).body).items[0].id;
  const follow = async (member: Pick<Member, 'raw'>, chatId: string) =>
    readEvents(await member.raw(`/chat/${chatId}/stream`));
  const endOf = async (events: AsyncIterable<StreamEvent>) =>
    (await collect(events)).map(({ event, data }) => [event, Object(data).code]);
  /** Follows all chats of the member to their ends. */
  const expectDiscarded = async (code: string, member = admin) => {
    for (const { id } of Object((await member.get('/chat', 200)).body).items) {
      expect((await endOf(await follow(member, id))).at(-1)).deep.equal(['error', code]);
      expect(Object((await member.get(`/chat/${id}`, 200)).body).messages).length(1);
    }
  };
  const expectEnded = async (events: AsyncIterable<StreamEvent>) => {
    const [[event, code] = [], ...others] = await endOf(events);
    expect([event, others]).deep.equal(['error', []]);
    expect(code).oneOf(['invalid_token', 'account_disabled']);
  };

  it('is not stored when its user is disabled; its stream ends, and a request without a stream gets 403', async () => {
    const events = await open(ada, question());
    const refused = ada.post('/chat', question(), 403);
    await until('the model is asked for both answers', async () => stack.model.requests.length === 2);
    await elsewhere.post(`/entity/users/${ada.userId}/disable`, {}, 204);
    await expectEnded(events);
    expect((await refused).body).property('code', 'account_disabled');
    await expectDiscarded('account_disabled');
  });

  it('is completed and stored when its session ends; the streams of this session are closed, others stay open', async () => {
    const { jobId } = await stoppedIngestion(stack, ada, 'parked');
    const progress = readEvents(await ada.raw(`/jobs/${jobId}/events`));
    await progress.next();
    const events = await open(ada, question());
    const { body } = await ada.post('/auth/login', { username: ada.email, password: ada.password }, 200);
    const other = await follow(ada.withToken(tokenResponse.parse(body).access_token), await newestChat());
    await ada.post('/auth/logout', { refresh_token: ada.refreshToken }, 204);
    for (const stream of [events, progress]) await expectEnded(stream);
    finish.resolve();
    expect((await endOf(other)).at(-1)).deep.equal(['done', undefined]);
  });

  it('ends with the API key that asked for it when the key is revoked; a new secret only closes its streams', async () => {
    const asked = {
      agent_id: await aPublishedAgent(ada, { visibility: 'org_level' }),
      message,
      visibility: 'org_level',
    };
    const ask = async () => {
      const chatter = await anApiKey(admin, ['chat']);
      const answer = await open(chatter, asked);
      return { path: `/entity/org/api-keys/${chatter.key.id}`, answer, chatId: await newestChat() };
    };
    const [revoked, rotated] = [await ask(), await ask()];
    await elsewhere.delete(revoked.path, 204);
    await elsewhere.post(`${rotated.path}/rotate`, { expires_at: null }, 200);
    for (const { answer } of [revoked, rotated]) await expectEnded(answer);
    expect((await endOf(await follow(admin, revoked.chatId))).at(-1)).deep.equal(['error', 'account_disabled']);
    finish.resolve();
    expect((await endOf(await follow(admin, rotated.chatId))).at(-1)).deep.equal(['done', undefined]);
  });

  it('ends for a user who is removed from the team meanwhile, and goes on for the owner of the chat', async () => {
    const bob = await aColleague(stack, admin, 'Bob');
    const team = await aTeam(admin, [ada, bob]);
    const ofTeam = { visibility: 'team_level', team_ids: [team] };
    const asked = { agent_id: await aPublishedAgent(ada, ofTeam), message };
    const own = await open(ada, { ...asked, ...ofTeam });
    const chatId = await newestChat();
    const shared = await follow(bob, chatId);
    await shared.next();
    const personal = await open(bob, asked);
    await elsewhere.delete(`/entity/teams/${team}/members/${bob.userId}`, 204);
    expect(await endOf(shared)).deep.equal([['error', 'chat_not_found']]);
    await bob.get(`/chat/${chatId}`, 404);
    // The answer uses the old rights, too.
    expect(await endOf(personal)).deep.equal([['error', 'interrupted']]);
    await expectDiscarded('interrupted', bob);
    finish.resolve();
    expect((await collect(own)).at(-1)?.event).equal('done');
  });
});
