import { expect } from 'chai';
import type { z } from 'zod';
import { searchResultSchema } from '#src/modules/search/search.schema.ts';
import { aColleague, anIngestedDocument, aTeam, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { pdfFile } from '#test/support/document-fixtures.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilRun } from '#test/support/until-job.ts';

type SearchResult = z.output<typeof searchResultSchema>;

describe('GET /documents/search', () => {
  let api: Stack;
  let ada: Member;
  before(async () => {
    api = await stack();
  });
  beforeEach(async () => {
    ada = await api.signUp('Ada');
  });

  const search = async (q: string, page = '', as = ada): Promise<SearchResult> =>
    searchResultSchema.parse((await as.get(`/documents/search?q=${encodeURIComponent(q)}${page}`, 200)).body);
  const namesOf = ({ items }: SearchResult) => items.map(({ name }) => name);
  const found = async (q: string, as = ada) => namesOf(await search(q, '', as));

  /** Stores a document that is found by its name only. */
  async function store(name: string): Promise<void> {
    const file = { name: 'note.txt', content: `Nothing to see in ${name.length}` };
    await ada.upload('/documents', file, 201, { fields: { name, ingest: 'false' } });
  }

  it('finds documents by a word, a prefix or a typo of their name, regardless of accents and case', async () => {
    const report = 'Annual_Report-2024.PDF';
    const names = [report, 'Отчёт за март', '测试报告', 'Ängström notes', '100%_a\\b', 'Plan'];
    for (const name of names) await store(name);
    const expected: [queries: string[], names: string[]][] = [
      [
        ['rep', 'REPORT', 'annual report 2024', '2024 annual', 'report.pdf', 'anual', 'reprot', 'anual repotr'],
        [report],
      ],
      [['ОТЧЕТ', 'очтёт'], ['Отчёт за март']],
      [['报告', '测'], ['测试报告']],
      [['angstrom'], ['Ängström notes']],
      [['100%'], ['100%_a\\b']],
      [['p'], ['Plan', report]],
      [['%', '_', '\\', '%%%', 'x%y', '2025', 'annual budget', '', ' \t', '?!', '""', 'the', 'zzz'], []],
    ];
    for (const [queries, found_] of expected) for (const q of queries) expect(await found(q), q).deep.equal(found_);
    expect(await search('zzz')).deep.equal({ items: [], total: 0, query: 'zzz' });
    for (const query of ['', `q=${'a'.repeat(201)}`, 'q=a&limit=51']) await ada.get(`/documents/search?${query}`, 422);
  });

  it('finds a phrase on page 37 of a PDF of 100 pages and shows it in the preview', async () => {
    await anIngestedDocument(ada, 'Heron.md', 'Herons are birds. They build in reeds, and a nest is not quiet.');
    const phrase = 'the heron builds a quiet nest in the reeds';
    const reeds = 'Reeds grow by the water, and herons wait where it is quiet.';
    const textOf = (page: number) =>
      page === 37 ? `On this page ${phrase}, as nobody knew.` : `Page ${page}. ${reeds}`;
    const pages = Array.from({ length: 100 }, (_, index) => [{ text: textOf(index + 1), x: 50, y: 750 }]);
    const content = new Uint8Array(pdfFile(pages));
    const { id, embedding_job_id } = Object((await ada.upload('/documents', { name: 'long.pdf', content }, 201)).body);
    await untilRun(ada, embedding_job_id, 'succeeded');
    for (const q of [phrase, `"${phrase}"`]) {
      const [first] = (await search(q)).items;
      expect(first).include({ id, page_count: 100 });
      expect(first?.content_preview).contain('<mark>heron</mark>');
      expect(first?.content_preview.replaceAll(/<\/?mark>/g, '')).contain(phrase);
    }
    expect((await search(`"${phrase}"`)).total).equal(1);
    expect((await search('"quiet heron"')).total).equal(0);
    const different = Array.from({ length: 45 }, (_, n) => `w${n}`).join(' ');
    for (const long of [`${different} reeds`, 'reeds '.repeat(33)]) expect((await search(long)).total, long).equal(2);
  });

  it('ranks matching names first and typos last, and shows the matching passage or else the beginning', async () => {
    await anIngestedDocument(
      ada,
      'Full.md',
      'A `<b>` & two contracts. A contract ends when both sides end the contract.',
    );
    await anIngestedDocument(ada, 'Contrast.md', 'Light and dark.');
    await anIngestedDocument(ada, 'Old contract.md', 'Signed `<long>` ago.');
    for (const name of ['New contract.pdf', 'Contract.pdf']) await store(name);
    const result = await search('contract');
    const ranked = ['Contract.pdf', 'Old contract.md', 'New contract.pdf', 'Full.md', 'Contrast.md'];
    expect(namesOf(result)).deep.equal(ranked);
    const ranks = result.items.map(({ rank }) => rank);
    expect(ranks).deep.equal(ranks.toSorted((a, b) => b - a));
    const [stored, begun, , full] = result.items;
    expect(stored).include({ content_preview: '', char_count: 0, page_count: 0 });
    expect(begun).include({ content_preview: 'Signed `&lt;long&gt;` ago.', source_format: 'markdown' });
    expect(full?.content_preview).contain('`&lt;b&gt;` &amp; two <mark>contracts</mark>. A <mark>contract</mark> ends');
  });

  it('returns each document on one page only, and orders documents of equal rank by last change', async () => {
    for (let place = 0; place < 7; place += 1) await store(`Page ${place}.txt`);
    const whole = await search('page');
    expect(namesOf(whole)[0]).equal('Page 6.txt');
    const pages = [];
    for (const offset of [0, 3, 6, 9]) pages.push(await search('page', `&limit=3&offset=${offset}`));
    expect(pages.map(({ items, total }) => [items.length, total])).deep.equal([
      [3, 7],
      [3, 7],
      [1, 7],
      [0, 7],
    ]);
    expect(pages.flatMap(namesOf)).deep.equal(namesOf(whole));
  });

  it('reflects a rename, a lost permission and a deletion at once', async () => {
    const bob = await aColleague(api, ada, 'Bob');
    await aTeam(ada, [bob, ada]);
    const fields = { target_folder_id: await rootOf(ada, 'team_root') };
    const id = await anIngestedDocument(ada, 'Zebra.md', 'About okapis.', fields);
    for (const q of ['zebra', 'okapi']) expect(await found(q, bob)).deep.equal(['Zebra.md']);
    await ada.patch(`/documents/${id}`, { name: 'Quagga.md' }, 200);
    expect([await found('quagga', bob), await found('zebr', bob)]).deep.equal([['Quagga.md'], []]);
    await ada.patch(`/documents/${id}`, { target_folder_id: await rootOf(ada, 'personal_root') }, 200);
    for (const q of ['quagga', 'okapi']) expect([await found(q, bob), await found(q)]).deep.equal([[], ['Quagga.md']]);
    await ada.delete(`/documents/${id}`, 204);
    for (const q of ['quagga', 'okapi']) expect(await found(q)).deep.equal([]);
  });
});
