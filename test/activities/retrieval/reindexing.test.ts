import { expect } from 'chai';
import { detectLanguage } from '#src/adapters/text/language-detector.ts';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createReindexingService } from '#src/modules/ingestion/reindexing.service.ts';
import { createWordSearchRepository } from '#src/modules/retrieval/word-search.repository.ts';
import { termCountsMatchChunks } from '#src/modules/store-audit/invariants/ingestion.ts';
import { addIndexedDocument, addOrganization } from '#test/support/indexed-documents.ts';
import { useTestDatabase } from '#test/support/services.ts';

describe('documents that an older text analyzer has indexed', () => {
  const own = useTestDatabase();

  it('are indexed again by their language, unless their terms stay the same', async () => {
    const owner = await addOrganization(own.db);
    const add = (text: string) => addIndexedDocument(own.db, owner, Array<string>(300).fill(text), { language: 'und' });
    // The old analyzer stemmed by English rules only.
    const russian = await add('Арендаторы платят арендную плату каждый месяц вперёд по договорам аренды.');
    const spanish = await add('Los inquilinos pagan los alquileres cada mes por adelantado según los contratos.');
    const english = await add('The tenants pay their rents every month in advance by their contracts.');
    const rowsOf = async ({ documentId }: { documentId: string }): Promise<{ ctid: string }[]> =>
      own.db('documentTerms').where({ documentId }).orderBy('term').select('ctid');
    const untouched = await rowsOf(english);
    const service = createReindexingService({ db: own.db, analyze: createTextAnalyzer(), detectLanguage });
    // Two processes at once, then one that finds nothing to do.
    await Promise.all([service.reindexOutdated(), service.reindexOutdated()]);
    await service.reindexOutdated();

    expect(await rowsOf(english)).deep.equal(untouched);
    const { searchWords } = createWordSearchRepository(own.db);
    for (const [{ documentId }, language, term] of [
      [russian, 'ru', 'договор'],
      [spanish, 'es', 'inquilin'],
      [english, 'en', 'tenant'],
    ] as const) {
      const document = await own.db('documents').where({ id: documentId }).first('activeLanguage');
      const generation = await own.db('documentGenerations').where({ documentId }).first('language', 'analyzerVersion');
      expect([document, generation]).deep.equal([{ activeLanguage: language }, { language, analyzerVersion: 2 }]);
      const readable = { orgId: owner.orgId, acl: ['user:ada'], includeDocumentIds: [documentId] };
      expect(await searchWords({ readable, terms: [term], limit: 400 }), term).length(300);
    }
    const faults: unknown[] = [];
    const [deps, grace] = [{ db: own.db }, {}] as unknown as Parameters<typeof termCountsMatchChunks.run>;
    await termCountsMatchChunks.run(deps, grace, (fault) => faults.push(fault));
    expect(faults).deep.equal([]);
  });
});
