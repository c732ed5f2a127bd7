import { once } from 'node:events';
import { expect } from 'chai';
import PDFDocument from 'pdfkit';
import type { z } from 'zod';
import { searchResultSchema } from '#src/modules/search/search.schema.ts';
import { aColleague, anIngestedDocument, aTeam } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilRun } from '#test/support/until-job.ts';

type SearchResult = z.output<typeof searchResultSchema>;

async function search(client: ApiClient, q: string, page = ''): Promise<SearchResult> {
  return searchResultSchema.parse((await client.get(`/documents/search?q=${encodeURIComponent(q)}${page}`, 200)).body);
}

const namesOf = ({ items }: SearchResult): string[] => items.map(({ name }) => name);

/** Found by its name only. */
async function store(client: ApiClient, name: string, fields: Record<string, string> = {}): Promise<string> {
  const file = { name: 'note.txt', content: `Nothing to see in ${name.length}` };
  const { body } = await client.upload('/documents', file, 201, { fields: { name, ingest: 'false', ...fields } });
  return (body as { id: string }).id;
}

describe('GET /documents/search', () => {
  let api: Stack;
  let ada: Member;

  before(async () => {
    api = await stack();
  });

  beforeEach(async () => {
    ada = await api.signUp('Ada');
  });

  it('200: finds names by a word, a prefix, a typo, and regardless of accents and case', async () => {
    for (const name of ['Annual_Report-2024.PDF', 'Отчёт за март', '测试报告', 'Ängström notes', '100%_a\\b', 'Plan']) {
      await store(ada, name);
    }
    const found = async (q: string) => namesOf(await search(ada, q));
    for (const q of [
      'rep',
      'REPORT',
      'annual report 2024',
      '2024 annual',
      'report.pdf',
      'anual',
      'reprot',
      'anual repotr',
    ]) {
      expect(await found(q), q).deep.equal(['Annual_Report-2024.PDF']);
    }
    expect(await found('ОТЧЕТ')).deep.equal(['Отчёт за март']);
    expect(await found('очтёт')).deep.equal(['Отчёт за март']);
    expect(await found('报告')).deep.equal(['测试报告']);
    expect(await found('测')).deep.equal(['测试报告']);
    expect(await found('angstrom')).deep.equal(['Ängström notes']);
    expect(await found('100%')).deep.equal(['100%_a\\b']);
    expect(await found('p')).deep.equal(['Plan', 'Annual_Report-2024.PDF']);
    for (const q of ['%', '_', '\\', '%%%', 'x%y', '2025', 'annual budget']) expect(await found(q), q).deep.equal([]);
  });

  it('200: finds a phrase on page 37 of a PDF of 100 pages and shows it in the preview', async () => {
    await anIngestedDocument(ada, 'Heron.md', 'Herons are birds. They build in reeds, and a nest is not quiet.');
    const phrase = 'the heron builds a quiet nest in the reeds';
    const { body } = await ada.upload('/documents', { name: 'long.pdf', content: await pdfWith(phrase, 37, 100) }, 201);
    const { id, embedding_job_id } = body as { id: string; embedding_job_id: string };
    await untilRun(ada, embedding_job_id, 'succeeded');
    for (const q of [phrase, `"${phrase}"`]) {
      const { items } = await search(ada, q);
      expect(items[0]?.id).equal(id);
      expect(items[0]?.page_count).equal(100);
      const shown = items[0]?.content_preview ?? '';
      expect(shown).contain('<mark>heron</mark>');
      expect(shown.replaceAll(/<\/?mark>/g, '')).contain(phrase);
    }
    expect((await search(ada, `"${phrase}"`)).total).equal(1);
    expect((await search(ada, '"quiet heron"')).total).equal(0);
  });

  it('200: ranks a name and text match first, then a name match, a text match and a name with a typo', async () => {
    await anIngestedDocument(ada, 'Full.md', 'The contract binds. A contract ends when both sides end the contract.');
    await anIngestedDocument(ada, 'Contrast.md', 'Light and dark.');
    await anIngestedDocument(ada, 'Old contract.md', 'Signed long ago.');
    await store(ada, 'New contract.pdf');
    await store(ada, 'Contract.pdf');
    const result = await search(ada, 'contract');
    expect(namesOf(result)).deep.equal([
      'Contract.pdf',
      'Old contract.md',
      'New contract.pdf',
      'Full.md',
      'Contrast.md',
    ]);
    const ranks = result.items.map(({ rank }) => rank);
    expect(ranks).deep.equal(ranks.toSorted((a, b) => b - a));
    expect(result.query).equal('contract');
  });

  it('200: returns an escaped HTML preview: the matching passage, the beginning for a name match, empty before ingestion', async () => {
    await anIngestedDocument(ada, 'Risky.md', 'A `<script>` that was signing & "signed" contracts.');
    await store(ada, 'Risky too.md');
    const { items } = await search(ada, 'sign');
    expect(items[0]?.content_preview).contain('<mark>signing</mark> &amp; &quot;<mark>signed</mark>&quot;');
    expect(items[0]?.content_preview).contain('&lt;script&gt;');
    const [stored, begun] = (await search(ada, 'risk')).items;
    expect([begun?.content_preview, begun?.source_format]).deep.equal([
      'A `&lt;script&gt;` that was signing &amp; &quot;signed&quot; contracts.',
      'markdown',
    ]);
    expect([stored?.content_preview, stored?.char_count, stored?.page_count]).deep.equal(['', 0, 0]);
  });

  it('200: returns every document exactly once across the pages, and nothing beyond the last page', async () => {
    for (let place = 0; place < 7; place += 1) await store(ada, `Page ${place}.txt`);
    const whole = await search(ada, 'page');
    expect(whole.total).equal(7);
    const pages = [];
    for (const offset of [0, 3, 6, 9]) pages.push(await search(ada, 'page', `&limit=3&offset=${offset}`));
    expect(pages.map(({ items }) => items.length)).deep.equal([3, 3, 1, 0]);
    expect(pages.every(({ total }) => total === 7)).equal(true);
    expect(pages.flatMap(namesOf)).deep.equal(namesOf(whole));
    // Equal ones: what was changed last comes first.
    expect(namesOf(whole)[0]).equal('Page 6.txt');
  });

  it('200: returns nothing for a blank query, punctuation or stop words', async () => {
    await store(ada, 'Plan.txt');
    for (const q of ['', '   ', '\t', '?!', '""', 'zzz']) {
      expect(await search(ada, q), q).deep.equal({ items: [], total: 0, query: q });
    }
  });

  it('200: accepts 200 characters of different words, or of one repeated word', async () => {
    await anIngestedDocument(ada, 'Words.md', 'An apple and a pear.');
    const different = Array.from({ length: 60 }, (_, place) => `w${place}`)
      .join(' ')
      .slice(0, 194);
    expect(namesOf(await search(ada, `${different} apple`))).deep.equal(['Words.md']);
    expect(namesOf(await search(ada, 'apple '.repeat(33)))).deep.equal(['Words.md']);
  });

  it('200: reflects a rename, a lost permission and a deletion immediately', async () => {
    const bob = await aColleague(api, ada, 'Bob');
    const teamId = await aTeam(ada, [bob]);
    const roots = (await ada.get('/folders', 200)).body as { id: string; system_role: string; team_id?: string }[];
    const teamRoot = roots.find(({ system_role }) => system_role === 'team_root')?.id ?? '';
    const personalRoot = roots.find(({ system_role }) => system_role === 'personal_root')?.id ?? '';
    const id = await anIngestedDocument(ada, 'Zebra.md', 'About okapis.', { target_folder_id: teamRoot });
    const total = async (q: string) => (await search(bob, q)).total;
    expect([await total('zebra'), await total('okapi'), teamId !== '']).deep.equal([1, 1, true]);

    await ada.patch(`/documents/${id}`, { name: 'Quagga.md' }, 200);
    expect(namesOf(await search(bob, 'quagga'))).deep.equal(['Quagga.md']);
    expect((await search(bob, 'zebr')).total).equal(0);

    await ada.patch(`/documents/${id}`, { target_folder_id: personalRoot }, 200);
    expect([await total('quagga'), await total('okapi')]).deep.equal([0, 0]);
    expect((await search(ada, 'quagga')).total).equal(1);
    await ada.delete(`/documents/${id}`, 204);
    expect([(await search(ada, 'quagga')).total, (await search(ada, 'okapi')).total]).deep.equal([0, 0]);
  });

  it('401 without a token', async () => {
    await api.anonymous.get('/documents/search?q=a', 401);
  });

  it('422: rejects a missing query, more than 200 characters, and an invalid page', async () => {
    for (const [query, path] of [
      ['', 'q'],
      [`q=${'a'.repeat(201)}`, 'q'],
      ['q=a&limit=0', 'limit'],
      ['q=a&limit=51', 'limit'],
      ['q=a&offset=-1', 'offset'],
      ['q=a&page=2', 'page'],
    ]) {
      const { body } = await ada.get(`/documents/search?${query}`, 422);
      expect((body as { errors: { path: string }[] }).errors[0]?.path, query).equal(path);
    }
  });
});

/** On each page there is a text of its own. */
async function pdfWith(phrase: string, page: number, pages: number): Promise<Uint8Array<ArrayBuffer>> {
  const document = new PDFDocument();
  const chunks: Buffer[] = [];
  document.on('data', (chunk: Buffer) => chunks.push(chunk));
  const ended = once(document, 'end');
  for (let number = 1; number <= pages; number += 1) {
    if (number > 1) document.addPage();
    document.text(`Page ${number}. ${'Reeds grow by the water, and herons wait where it is quiet. '.repeat(12)}`);
    if (number === page) document.text(`On this page ${phrase}, as nobody knew.`);
  }
  document.end();
  await ended;
  return new Uint8Array(Buffer.concat(chunks));
}
