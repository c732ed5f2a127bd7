import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import iconv from 'iconv-lite';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { aColleague, anUpload, readDocument, replaceOriginal, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { pdfFile } from '#test/support/document-fixtures.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { answerWith, redirectTo, startWebSite, type WebSite } from '#test/support/web-site.ts';

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
    const limits = { fileSizeBytes: 20_000, storageBytes: 40_000 };
    stack = await startStack({ EGRESS_ALLOW: site.place, TIER_LIMITS: JSON.stringify({ free: limits }) });
    ada = await stack.signUp();
  });
  after(async () => {
    await stack.close();
    await site.close();
  });

  const importFrom = async (url: string, fields: object = {}) =>
    fullDocumentSchema.parse((await ada.post('/documents/import-from-url', { url, ...fields }, 201)).body);
  const ingested = (id: string) =>
    until('it is ingested', async () => {
      const document = await readDocument(ada, id);
      return document.embedding_complete || document.last_error !== null ? document : undefined;
    });
  async function countKept(member: Member) {
    const objects = await stack.container.blobs.list({ after: null, limit: 1_000 });
    const { total } = Object((await member.get('/documents', 200)).body);
    return { documents: total, originals: objects.filter(({ key }) => key.startsWith(member.orgId)).length };
  }

  /** Checks that a request is refused, keeps nothing and fetches no more pages than needed. */
  async function refuse(member: Member, sent: object, [status, code]: [number, string], fetched: number) {
    const [requests, before] = [site.requests.length, await countKept(member)];
    const { body } = await member.post('/documents/import-from-url', sent, status);
    const what = JSON.stringify(sent);
    expect(body, what).include({ code });
    expect(site.requests.length - requests, what).equal(fetched);
    expect(await countKept(member), what).deep.equal(before);
    return JSON.stringify(body);
  }

  it('fetches a page, follows redirects, and ingests the main text of the page', async () => {
    site.page(answerWith(gzipSync(page), { 'content-encoding': 'gzip' }), '/foxes');
    const asked = `${site.page(redirectTo('/foxes'))}?v=2&access_token=canary#part`;
    const queued = await importFrom(asked);
    expect(queued).include({ name: 'Foxes & loans', source_format: 'html', import_source_provider: null });
    expect(queued.import_source_url).equal(asked.replace('&access_token=canary#part', ''));
    expect(queued.parse_job_id).equal(`ingest-${queued.id}-1.parse`);
    const { content, embedding_complete } = await ingested(queued.id);
    expect(embedding_complete).equal(true);
    expect(content).contain('## Findings\n\nThe quick brown fox repaid the loan.');
    expect(content).not.match(/cookies|Shop|track/);
    // The original keeps the bytes that were sent, under a file name with the right extension.
    const original = await ada.raw(`/documents/${queued.id}/file`);
    expect(await original.text()).equal(page);
    expect(original.headers.get('content-disposition')).contain('foxes.html');
  });

  it('detects the format by media type, decodes by charset, and takes name and folder from the request', async () => {
    const words = '素早い狐は融資を返した';
    const japanese = iconv.encode(page.replace('Findings', words), 'shift_jis');
    const fields = { name: 'Plan', target_folder_id: await rootOf(ada, 'org_root') };
    const sent: [content: Uint8Array | string, type: string, path: string, format: string][] = [
      [japanese, 'text/html; charset=shift_jis', '/fox.php', 'html'],
      [pdfFile([[{ text: words, x: 50, y: 750 }]]), 'application/pdf', '/policy?id=7', 'pdf'],
      ['{"fox":"quick"}', 'application/ld+json', '/fox', 'json'],
      ['print("fox")', 'text/plain', '/raw/fox.py', 'code'],
      ['<rss version="2.0"><channel><title>News</title></channel></rss>', 'application/rss+xml', '/feed', 'html'],
      ['a,b\n1,2\n', 'text/csv', '/table', 'csv'],
    ];
    for (const [content, type, path, source_format] of sent) {
      const url = site.page(answerWith(content, { 'content-type': type }), path);
      const document = await importFrom(url, fields);
      expect(document, type).deep.include({ name: 'Plan', folder_ids: [fields.target_folder_id], source_format });
      const read = await ingested(document.id);
      expect(read, type).include({ source_format });
      if (path === '/fox.php') expect(read.content).contain(`## ${words}`);
    }
  });
  it('fetches nothing for a caller who may not write to the folder or has reached a limit', async () => {
    const grace = await aColleague(stack, ada);
    const url = site.page(answerWith(page));
    const readOnly = { url, target_folder_id: await rootOf(ada, 'org_root') };
    await refuse(grace, readOnly, [403, 'forbidden'], 0);
    await refuse(grace, { url, target_folder_id: crypto.randomUUID() }, [404, 'folder_not_found'], 0);

    const bob = await stack.signUp('Bob');
    const file = (length: number) => ({ name: 'a.txt', content: 'x'.repeat(length) });
    await anUpload(bob, file(20_000), { ingest: 'false' });
    const { id } = await anUpload(bob, file(20_000), { ingest: 'false' });
    await refuse(bob, { url }, [409, 'storage_quota_exceeded'], 0);
    await replaceOriginal(bob, id, file(19_999), { ingest: 'false' });
    await refuse(bob, { url }, [409, 'storage_quota_exceeded'], 1);
  });

  it('stores nothing of a response that is too large, empty, incomplete or failed', async () => {
    const eve = await stack.signUp('Eve');
    const bomb = answerWith(gzipSync(Buffer.alloc(2_000_000)), { 'content-encoding': 'gzip' });
    await refuse(eve, { url: site.page(bomb) }, [413, 'payload_too_large'], 1);
    for (const none of [answerWith(''), answerWith('', {}, 204)]) {
      await refuse(eve, { url: site.page(none) }, [422, 'empty_document'], 1);
    }
    const broken = site.page((response) => {
      response.writeHead(200, { 'content-length': 100 });
      response.write('half', () => response.destroy());
    });
    for (const url of [broken, site.page(answerWith('x', {}, 404))]) {
      await refuse(eve, { url }, [422, 'url_unreachable'], 1);
    }
  });

  it('rejects a non-public address without revealing what is there', async () => {
    const eve = await stack.signUp('Eve');
    const addresses = [stack.baseUrl, 'http://127.0.0.1/', 'file:///etc/passwd', 'http://ada:canary@example.com/'];
    const led = site.page(redirectTo('http://169.254.169.254/latest/?token=canary'));
    for (const url of [...addresses.map((address) => `${address}?token=canary`), led]) {
      const answer = await refuse(eve, { url }, [422, 'url_not_allowed'], url === led ? 1 : 0);
      expect(answer).not.match(/canary|169\.254|closed|refused/);
    }
  });
});
