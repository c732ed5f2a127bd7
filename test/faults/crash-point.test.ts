import { expect } from 'chai';
import { runCase } from './scenario.ts';
import { ingest } from './scenarios.ts';

describe('a worker process that is killed after it stored embeddings', () => {
  it('leaves a run that the next worker completes with the same content, without embedding a text twice', async () => {
    const embedding = { step: 'embedChunks', scenario: ingest, queues: 'ingestion' };
    const [undisturbed, killed] = await Promise.all([runCase(embedding, []), runCase(embedding, ['after_effect'])]);
    expect(killed.digest).equal(undisturbed.digest);
    expect(killed.texts).members(undisturbed.texts);
  });
});
