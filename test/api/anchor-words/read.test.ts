import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import { anchorWordsSchema } from '#src/modules/anchor-words/anchor-words.routes.ts';
import { aColleague, aPublishedAgent, loanAnchors } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('GET /anchor-words/{agent_id}', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  const refusalOf = async (agentId: string, member = ada) =>
    problemSchema.parse((await member.get(`/anchor-words/${agentId}`, 404)).body).code;

  it('200: returns words and weights to all users of the agent', async () => {
    const agentId = await aPublishedAgent(ada, { visibility: 'org_level' });
    const { created_at, ...words } = anchorWordsSchema.parse(
      (await (await aColleague(shared, ada)).get(`/anchor-words/${agentId}`, 200)).body,
    );
    expect(words).deep.equal({ agent_id: agentId, anchor_words: loanAnchors, anchor_word_count: 8 });
    expect(created_at).equal(Object((await ada.get(`/agents/${agentId}`, 200)).body).created_at);
  });

  it('401: without a token', async () => {
    await shared.anonymous.get(`/anchor-words/${crypto.randomUUID()}`, 401);
  });

  it('404: rejects agents of others, deleted and unknown agents', async () => {
    const agentId = await aPublishedAgent(ada);
    expect(await refusalOf(agentId, await shared.signUp())).equal('agent_not_found');
    await ada.delete(`/agents/${agentId}`, 204);
    expect(await refusalOf(agentId)).equal('agent_not_found');
    expect(await refusalOf('nobody')).equal('agent_not_found');
  });

  it('404: reports an agent without anchor words', async () => {
    const agentId = await aPublishedAgent(ada);
    await shared.container.db('agents').where({ id: agentId }).update({ anchorWords: '{}' });
    expect(await refusalOf(agentId)).equal('anchor_words_not_initialized');
  });
});
