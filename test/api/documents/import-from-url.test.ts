import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import iconv from 'iconv-lite';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { pdfFile } from '#test/support/document-fixtures.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { answerWith, redirectTo, startWebSite, type WebSite } from '#test/support/web-site.ts';

const path = '/documents/import-from-url';
const article = `<article><h2>Findings</h2>${'<p>The quick brown fox repaid the loan.</p>'.repeat(20)}</article>`;
const page = `<!doctype html><html><head><title>Foxes &amp;\n loans</title></head><body>
  <nav><a href="/">Home</a><a href="/shop">Shop</a></nav><div class="cookie-banner">We value your cookies.</div>
  ${article}<script>track()</script></body></html>`;

describe('POST /documents/import-from-url', () => {
  let site: WebSite;
  let stack: Stack;
  let ada: Member;
  before(async () => {
    site = await startWebSite();
    const limits = { documents: 30, fileSizeBytes: 20_000, storageBytes: 100_000 };
    stack = await startStack({ EGRESS_ALLOW: site.place, TIER_LIMITS: JSON.stringify({ free: limits }) });
    ada = await stack.signUp();
  });
  after(async () => {
    await stack.close();
    await site.close();
  });

  const importFrom = async (url: string, fields: Record<string, unknown> = {}, headers = {}) =>
    fullDocumentSchema.parse((await ada.post(path, { url, ...fields }, 201, headers)).body);
  const refusal = async (url: string, status: number, member = ada) => {
    const { body } = await member.post(path, { url }, status);
    return Object(body).code;
  };
  const ingested = (id: string) =>
    until('it is ingested', async () => {
      const document = fullDocumentSchema.parse((await ada.get(`/documents/${id}`, 200)).body);
      return document.embedding_complete || document.last_error !== null ? document : undefined;
    });
  const orgRootOf = async (member: Member) => {
    const folders = folderTreeNodeSchema.array().parse((await member.get('/folders', 200)).body);
    return folders.find(({ system_role }) => system_role === 'org_root')?.id;
  };
  /** Checks that a rejected import leaves nothing behind and fetches no more than needed. */
  const leavesNothing = async (member: Member, work: () => Promise<unknown>, fetched = 0) => {
    const before = site.requests.length;
    await work();
    expect(site.requests.length - before, 'requests').to.equal(fetched);
    const { db } = stack.container;
    expect(await db('documents').where({ orgId: member.orgId })).to.have.length(0);
    const objects = await stack.container.blobs.list({ after: null, limit: 1_000 });
    expect(objects.filter(({ key }) => key.startsWith(member.orgId))).to.deep.equal([]);
  };

  it('201: fetches a page, follows redirects, and ingests its main text', async () => {
    site.page(answerWith(gzipSync(page), { 'content-encoding': 'gzip' }), '/foxes');
    const asked = `${site.page(redirectTo('/foxes'))}?v=2&access_token=canary#part`;
    const queued = await importFrom(asked);
    expect(queued).to.include({ name: 'Foxes & loans', source_format: 'html', import_source_provider: null });
    expect(queued.import_source_url).to.equal(asked.replace('&access_token=canary#part', ''));
    expect(queued.parse_job_id).to.equal(`ingest-${queued.id}-1.parse`);
    const { content, embedding_complete } = await ingested(queued.id);
    expect(embedding_complete).to.equal(true);
    expect(content).to.contain('## Findings\n\nThe quick brown fox repaid the loan.');
    expect(content).to.not.match(/cookies|Shop|track/);
    const { items } = Object((await ada.get(`/documents/${queued.id}/chunks`, 200)).body);
    expect(items[0].content).to.contain('quick brown fox');
    // The original keeps the bytes that were sent, under a file name with the right extension.
    const original = await ada.raw(`/documents/${queued.id}/file`);
    expect(await original.text()).to.equal(page);
    expect(original.headers.get('content-disposition')).to.contain('foxes.html');
  });

  it('201: detects each format by the media type that the server sends', async () => {
    const pdf = pdfFile([[{ text: 'Leave policy', x: 50, y: 750 }]]);
    const feed = '<?xml version="1.0"?><rss version="2.0"><channel><title>News</title></channel></rss>';
    const sent: [Uint8Array | string, string, string, string][] = [
      [pdf, 'application/pdf', '/policy?id=7', 'pdf'],
      ['{"fox":"quick"}', 'application/ld+json', '/fox', 'json'],
      ['# Fox\n\nQuick.', 'text/markdown; charset=UTF-8', '/notes/', 'markdown'],
      ['Plain words.', 'text/plain', '/words', 'text'],
      ['print("fox")', 'text/plain', '/raw/fox.py', 'code'],
      [feed, 'application/rss+xml', '/feed', 'html'],
      ['a,b\n1,2\n', 'text/csv', '/table', 'csv'],
      [`<?xml version="1.0"?>${page}`, 'application/xhtml+xml', '/page.php', 'html'],
    ];
    for (const [content, type, place, format] of sent) {
      const { id, source_format } = await importFrom(site.page(answerWith(content, { 'content-type': type }), place));
      expect(source_format, type).to.equal(format);
      const document = await ingested(id);
      expect(document, `${type}: ${JSON.stringify(document.last_error)}`).to.include({ source_format: format });
    }
  });

  it('201: decodes with the charset that only the server names', async () => {
    for (const [charset, words] of [
      ['windows-1251', 'Быстрая лиса вернула заём'],
      ['shift_jis', '素早い狐は融資を返した'],
    ] as const) {
      const text = page.replace('Foxes &amp;\n loans', words).replace('Findings', words);
      const type = { 'content-type': `text/html; charset=${charset}` };
      const { id, name } = await importFrom(site.page(answerWith(iconv.encode(text, charset), type)));
      expect(name).to.equal(words);
      expect((await ingested(id)).content).to.contain(`## ${words}`);
    }
  });

  it('201: takes the requested name, else the name from the server, the page or the URL', async () => {
    const folder = await orgRootOf(ada);
    const named = { 'content-disposition': `attachment; filename="x.html"; filename*=UTF-8''%C3%9Cbersicht.html` };
    const address = site.page(answerWith(page, named), '/download');
    const requested = await importFrom(address, { name: 'Plan', target_folder_id: folder });
    expect(requested.name).to.equal('Plan');
    expect(requested.folder_ids).to.deep.equal([folder]);
    expect((await importFrom(address)).name).to.equal('Übersicht.html');
    const untitled = answerWith(article);
    expect((await importFrom(site.page(untitled, '/a/Annual%20report'))).name).to.equal('Annual report');
    expect((await importFrom(site.page(untitled, '/'))).name).to.equal('127.0.0.1');
  });

  it('201: answers a repeated Idempotency-Key with the same document and fetches once', async () => {
    const url = site.page(answerWith(page));
    const headers = { 'Idempotency-Key': 'once' };
    const before = site.requests.length;
    const first = await importFrom(url, {}, headers);
    expect(await importFrom(url, {}, headers)).to.deep.equal(first);
    expect(site.requests.length - before).to.equal(1);
  });

  it('201: reports that a page rendered by scripts alone has no text', async () => {
    const shell =
      '<!doctype html><html><head><title>App</title></head><body><div id="root"></div><noscript>Enable JavaScript.</noscript><script src="/a.js"></script></body></html>';
    const { id } = await importFrom(site.page(answerWith(shell)));
    expect((await ingested(id)).last_error).to.include({ code: 'empty_document' });
  });

  it('401: rejects a request without a token', async () => {
    await stack.anonymous.post(path, { url: site.page(answerWith(page)) }, 401);
  });

  it('403 and 404: fetches nothing for a caller who may not write to the folder', async () => {
    const grace = await aColleague(stack, ada);
    const url = site.page(answerWith(page));
    const before = site.requests.length;
    await grace.post(path, { url, target_folder_id: await orgRootOf(ada) }, 403);
    await grace.post(path, { url, target_folder_id: crypto.randomUUID() }, 404);
    expect(site.requests.length).to.equal(before);
  });

  it('409: fetches nothing when a limit is reached, and keeps nothing of a file above the quota', async () => {
    const grace = await stack.signUp('Grace');
    const { db } = stack.container;
    const used = (sizeBytes: number) => db('documents').where({ orgId: grace.orgId }).update({ sizeBytes });
    await grace.post('/documents/paste', { name: 'n', content: 'x', source_format: 'text' }, 201);
    const url = site.page(answerWith(page));
    await used(100_000);
    const before = site.requests.length;
    expect(await refusal(url, 409, grace)).to.equal('storage_quota_exceeded');
    expect(site.requests.length).to.equal(before);
    await used(99_999);
    expect(await refusal(url, 409, grace)).to.equal('storage_quota_exceeded');
    expect(site.requests.length).to.equal(before + 1);
    expect(await db('documents').where({ orgId: grace.orgId })).to.have.length(1);
  });

  it('413: rejects a file above the size limit and keeps nothing of it', async () => {
    const grace = await stack.signUp('Grace');
    const bomb = site.page(answerWith(gzipSync(Buffer.alloc(2_000_000)), { 'content-encoding': 'gzip' }));
    await leavesNothing(grace, async () => expect(await refusal(bomb, 413, grace)).to.equal('payload_too_large'), 1);
  });

  it('422: rejects an empty, incomplete or failed response and keeps nothing of it', async () => {
    const grace = await stack.signUp('Grace');
    const none = [site.page(answerWith('')), site.page((response) => response.writeHead(204).end())];
    const broken = site.page((response) => {
      response.writeHead(200, { 'content-length': 100 });
      response.write('half', () => response.destroy());
    });
    const missing = site.page(answerWith('x', {}, 404));
    await leavesNothing(
      grace,
      async () => {
        for (const url of none) expect(await refusal(url, 422, grace)).to.equal('empty_document');
        for (const url of [broken, missing]) expect(await refusal(url, 422, grace)).to.equal('url_unreachable');
      },
      4,
    );
  });

  it('422: rejects a non-public address without revealing what is there', async () => {
    const grace = await stack.signUp('Grace');
    const led = site.page(redirectTo('http://169.254.169.254/latest/?token=canary'));
    await leavesNothing(
      grace,
      async () => {
        for (const url of [
          stack.baseUrl,
          'http://127.0.0.1/',
          'file:///etc/passwd',
          'http://ada:canary@example.com/',
          led,
        ]) {
          const { body } = await grace.post(path, { url: `${url}${url === led ? '' : '?token=canary'}` }, 422);
          expect(body).to.include({ code: 'url_not_allowed' });
          expect(JSON.stringify(body)).to.not.match(/canary|169\.254|closed|refused/);
        }
      },
      1,
    );
  });

  it('422: rejects a malformed URL, control characters, an overlong URL and unknown fields', async () => {
    for (const wrong of [
      { url: 'example' },
      { url: '' },
      { url: 'http://exam\nple.com/' },
      { url: 'http://example.com/\r\nHost: 127.0.0.1' },
      { url: `http://example.com/${'x'.repeat(9_000)}` },
      { url: 'http://127.0.0.1/', depth: 2 },
      { url: 'http://127.0.0.1/', name: '' },
      { url: 'http://127.0.0.1/', target_folder_id: 'root' },
    ]) {
      expect(Object((await ada.post(path, wrong, 422)).body).code).to.equal('validation_failed');
    }
  });

  it('leaves the stores consistent with the database', async () => {
    const { db } = stack.container;
    await until('no job is left', async () => (await db('jobs').whereNull('finishedAt').first('id')) === undefined);
    await expectStoresMatch(stack);
  });
});
