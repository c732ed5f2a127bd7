import { expect } from 'chai';
import { anIngestedDocument, aPublishedAgent, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

describe('the documents that an answer uses', () => {
  let stack: ScriptedStack;
  let grace: Member;
  let loanTerms: string;
  let houseRules: string;
  let gracesAgent: string;

  before(async () => {
    stack = await scriptedStack();
    grace = await stack.signUp('Grace');
    const eve = await stack.signUp('Eve');
    gracesAgent = await aPublishedAgent(grace);
    loanTerms = await anIngestedDocument(grace, 'Loan terms', 'The loan fee is one percent.');
    houseRules = await anIngestedDocument(grace, 'House rules', 'The loan fee is payable in the house of the bank.');
    await anIngestedDocument(eve, 'Canary', 'The loan fee is a canary of another organization.');
  });

  const documentsInPrompt = async (settings: object): Promise<string[]> => {
    stack.model.behave(() => ({ kind: 'answer', text: 'It is one percent.' }));
    await ask(grace, { agent_id: gracesAgent, message: 'What is the loan fee?', ...settings }, 201);
    const prompt = stack.model.requests[0]?.messages.map((message) => message.content).join('\n') ?? '';
    expect(prompt).not.match(/canary/i);
    return [...prompt.matchAll(/<<[a-z0-9]+ \d+ \| ([^|]+) \| p\. \d+>>/g)]
      .map(([, name = '']) => name.replaceAll('ˆ', ' '))
      .sort();
  };

  it('are those of the organization by default', async () => {
    expect(await documentsInPrompt({})).deep.equal(['House rules', 'Loan terms']);
  });
  it('are only those in include_document_ids', async () => {
    expect(await documentsInPrompt({ include_document_ids: [houseRules.toUpperCase()] })).deep.equal(['House rules']);
  });
  it('are all except those in exclude_document_ids', async () => {
    expect(await documentsInPrompt({ exclude_document_ids: [houseRules] })).deep.equal(['Loan terms']);
  });
  it('do not include private documents of a colleague', async () => {
    await stack.container
      .db('documents')
      .where({ id: loanTerms })
      .update({ acl: ['user:another'] });
    expect(await documentsInPrompt({})).deep.equal(['House rules']);
  });
});
