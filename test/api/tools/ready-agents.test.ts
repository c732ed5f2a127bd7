import { expect } from 'chai';
import { aPublishedAgent } from '#test/support/builders.ts';
import { connectSearch, toolStack } from '#test/support/tool-stack.ts';

describe('agents with tools', () => {
  it('are ready while their organization has the connections that their tools need', async () => {
    const api = await toolStack();
    const [ada, eve] = [await api.signUp(), await api.signUp('Eve')];
    const id = await aPublishedAgent(ada, { enabled_tools: ['web.search', 'time.now'] });
    const isReady = async () => Object((await ada.get(`/agents/${id}`, 200)).body).ready;
    await connectSearch(api, eve);
    expect(await isReady()).equal(false);
    const key = await connectSearch(api, ada);
    expect(await isReady()).equal(true);
    expect(Object((await ada.get('/agents', 200)).body).items[0]).include({ id, ready: true });
    api.brave.withdraw(key);
    await ada.delete('/agents/tools/brave_search/connection', 204);
    expect(await isReady()).equal(false);
  });
});
