import { expect } from 'chai';
import { aColleague, aPublishedAgent, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { readEvents } from '#test/support/event-stream.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';

describe('a user who is removed from a team while an answer is written', () => {
  let stack: ScriptedStack;
  let admin: Member;
  let [ada, bob]: [Member, Member] = [Object(null), Object(null)];
  let team: { visibility: string; team_ids: string[] };
  let agentId: string;
  let finish = Promise.withResolvers<void>();

  before(async () => {
    stack = await scriptedStack();
  });
  beforeEach(async () => {
    finish = Promise.withResolvers();
    stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
    admin = await stack.signUp('Grace');
    const { id } = Object((await admin.post('/entity/teams', { name: 'Red' }, 201)).body);
    team = { visibility: 'team_level', team_ids: [id] };
    ada = await aColleague(stack, admin, 'Ada', { team_id: id });
    bob = await aColleague(stack, admin, 'Bob', { team_id: id });
    agentId = await aPublishedAgent(ada, team);
  });
  afterEach(() => finish.resolve());

  // Writes to the database only, as another process of the service would.
  const removeFromTeam = ({ userId }: Member) => stack.container.db('team_memberships').where({ userId }).delete();
  const roundOf = ({ orgId }: Member) => stack.container.db('rounds').where({ orgId, round: 1 }).first();
  const question = () => ({ agent_id: agentId, message: 'How is a loan repaid?', ...team });

  it('loses the stream of a team chat, which goes on for its owner', async () => {
    const own = await openChatStream(ada, question());
    await own.next();
    const { chatId } = await roundOf(ada);
    const shared = readEvents(await bob.raw(`/chat/${chatId}/stream`));
    await shared.next();
    await removeFromTeam(bob);
    const rest = await collect(shared);
    expect(rest.map(({ event, data }) => [event, Object(data).code])).deep.equal([['error', 'chat_not_found']]);
    await bob.get(`/chat/${chatId}`, 404);
    finish.resolve();
    expect((await collect(own)).at(-1)?.event).equal('done');
  });

  it('loses the answer that uses the old rights, and can send the message again', async () => {
    const events = await openChatStream(bob, { ...question(), visibility: 'personal', team_ids: [] });
    await events.next();
    await removeFromTeam(bob);
    const rest = await collect(events);
    expect(rest.map(({ event, data }) => [event, Object(data).code])).deep.equal([['error', 'interrupted']]);
    const ended = await until('the round is over', async () => {
      const round = await roundOf(bob);
      return round?.status === 'error' && round;
    });
    expect(ended).include({ errorCode: 'interrupted', assistantReply: null, leaseOwner: null });
  });
});
