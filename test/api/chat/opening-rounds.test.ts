import { expect } from 'chai';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { createChatRoundOpener } from '#src/modules/chat/rounds.ts';
import { aPublishedAgent, ask } from '#test/support/builders.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const settings = {
  ragEnabled: false,
  ragReranking: null,
  ragRerankingType: null,
  ragIncludeDocumentIds: null,
  ragExcludeDocumentIds: null,
  visibility: null,
  teamIds: [],
  idempotencyKey: null,
};

describe('opening a round', () => {
  let model: ScriptedModel;
  let stack: Stack;

  before(async () => {
    model = await startScriptedModel();
    // Without workers, which would lock the chat while they score it.
    stack = await startStack({ OPENAI_BASE_URL: model.baseUrl }, { workers: false });
  });
  after(async () => {
    await stack.close();
    await model.close();
  });

  it('holds no database connection and no lock while it asks the provider for the context window', async () => {
    const { auth, teams, config } = stack.container;
    const ada = await stack.signUp('Ada');
    const agentId = await aPublishedAgent(ada);
    const { chat_id: chatId } = await ask(ada, { agent_id: agentId, message: 'A loan?', enable_rag: false }, 201);
    const actor: Actor | null = await auth.findActor(ada.userId);
    if (actor === null) throw new Error('Ada was not found.');

    const { url } = config.database;
    const db = createDatabase({ url, maxConnections: 1, applicationName: 'opening-rounds' });
    let asked = 0;
    const contextWindow = async () => {
      // Fails if a transaction holds the only connection or the lock.
      await db('chats').where({ id: chatId }).forUpdate().noWait().first('id');
      asked += 1;
      return null;
    };
    const openRound = createChatRoundOpener({
      db,
      teams,
      models: { contextWindow },
      tokenCounter: createTokenCounter(),
    });
    try {
      await openRound(actor, { ...settings, text: 'And a mortgage?', chatId, agentId: null });
      await openRound(actor, { ...settings, text: 'What is a fee?', chatId: null, agentId });
    } finally {
      await db.destroy();
    }
    expect(asked).equal(2);
  });
});
