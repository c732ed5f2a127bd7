import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { expect } from 'chai';
import { serveLocally } from '#test/support/local-server.ts';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';
import { until } from '#test/support/until.ts';
import { DiskFull } from '../../../scripts/models/fetch-failure.ts';
import { fetchModel } from '../../../scripts/models/fetch-model.ts';
import { verifiedModelFile } from '../../../services/model-server/model-files.ts';
import type { ModelSource } from '../../../services/model-server/model-manifest.ts';

const content = Buffer.from(Array.from({ length: 200_000 }, (_, index) => index % 251));
const twice = Buffer.concat([content, content]);
const file = {
  name: 'test.gguf',
  sha256: createHash('sha256').update(content).digest('hex'),
  sizeBytes: content.length,
};

describe('downloading a model', () => {
  const pathOf = useTemporaryFolder();
  const folders = () => ({ modelDir: pathOf('models'), toolsDir: pathOf() });
  const servers: { close(): Promise<void> }[] = [];
  beforeEach(() => mkdirSync(pathOf('models')));
  afterEach(() => Promise.all(servers.splice(0).map((server) => server.close())));

  const target = () => pathOf('models', file.name);
  const partial = () => `${target()}.partial`;

  async function serve(listener: RequestListener): Promise<ModelSource> {
    const server = await serveLocally(listener);
    servers.push(server);
    return { kind: 'download', url: `${server.baseUrl}/model` };
  }

  /** A host of files with ranges; with `limit`, it breaks off once some of so many bytes are stored. */
  const host = (bytes: Buffer, { limit = bytes.length, ranges = [] as string[] } = {}) =>
    serve((request, response) => {
      const range = request.headers.range ?? '';
      ranges.push(range);
      const start = Number(/bytes=(\d+)-/.exec(range)?.[1] ?? 0);
      response.writeHead(206, { 'content-length': bytes.length - start });
      if (limit === bytes.length) return response.end(bytes.subarray(start));
      response.write(bytes.subarray(start, limit));
      const isStored = async () => existsSync(partial()) && statSync(partial()).size > 0;
      void until('some is stored', isStored).then(() => response.destroy());
    });

  async function fetchFrom(sources: ModelSource[], freeBytes = 1e12) {
    const progress: number[] = [];
    const facts = { id: 'test-model', ownedBy: 'test', license: 'Apache-2.0', windowTokens: 100 };
    const model = { kind: 'chat', ...facts, contextBudgetTokens: 100, files: [{ ...file, sources }] } as const;
    const error = await fetchModel(model, {
      folders: folders(),
      onProgress: (_file, doneBytes) => progress.push(doneBytes),
      freeBytes: async () => freeBytes,
    }).catch((reason: Error) => reason);
    return { error: error instanceof Error ? error : null, progress };
  }
  const succeeds = async (...sources: ModelSource[]) => {
    expect((await fetchFrom(sources)).error).equal(null);
    expect(readFileSync(target()).equals(content)).equal(true);
  };
  const failureOf = async (...sources: ModelSource[]) => String((await fetchFrom(sources)).error?.message);

  it('stores the complete file, reports its progress, and downloads no file that exists', async () => {
    const { error, progress } = await fetchFrom([await host(content)]);
    expect([error, progress.at(-1)]).deep.equal([null, content.length]);
    expect(readdirSync(pathOf('models'))).members(['test.gguf', 'test.gguf.verified']);
    await succeeds();
  });

  it('continues an interrupted download, or restarts the download at a host without range requests', async () => {
    expect(await failureOf(await host(content, { limit: 70_000 }))).include('test.gguf could not be fetched');
    expect(existsSync(target())).equal(false);
    const kept = readFileSync(partial());
    expect(kept.length).within(1, 70_000);
    const ranges: string[] = [];
    await succeeds(await host(content, { ranges }));
    expect(ranges).deep.equal([`bytes=${kept.length}-`]);
    rmSync(target());
    writeFileSync(partial(), kept);
    await succeeds(await serve((_request, response) => response.end(content)));
  });

  it('requests nothing after the last byte, and restarts if the partial file is wrong or too long', async () => {
    writeFileSync(partial(), content);
    await succeeds(await serve((_request, response) => response.writeHead(416).end()));
    for (const kept of [Buffer.alloc(content.length), twice]) {
      rmSync(target());
      writeFileSync(partial(), kept);
      const ranges: string[] = [];
      await succeeds(await host(content, { ranges }));
      expect(ranges).deep.equal(['bytes=0-']);
    }
  });

  it('rejects and deletes wrong or additional content, and tries the next source', async () => {
    const forged = Buffer.from(content);
    forged[0] = 255;
    const wrong = await host(forged);
    expect(await failureOf(wrong)).include('SHA-256');
    expect(readdirSync(pathOf('models'))).deep.equal([]);
    expect(await failureOf(await host(twice))).include('more than the 200000 bytes');
    await succeeds(wrong, await host(content));
  });

  it('reports what to do about a damaged file, a full disk, and unusable sources', async () => {
    const missing = await serve((_request, response) => response.writeHead(404).end());
    const reasons = await failureOf(missing, { kind: 'download', url: 'http://127.0.0.1:1/model' });
    expect(reasons).include('answered 404').and.include('127.0.0.1:1');
    const { error } = await fetchFrom([await host(content)], 1_000_000);
    expect(error).instanceOf(DiskFull);
    expect(error?.message).match(/^The disk is full: \d+ MB more are needed in .+, and 1 MB are free\.$/);
    expect(existsSync(target())).equal(false);
    writeFileSync(target(), content.subarray(1));
    expect(await failureOf(await host(content)))
      .include(target())
      .and.include('Delete it, and fetch it again');
    expect(existsSync(target()), 'the user may have put it there').equal(true);
  });

  it('verifies a file again if it was changed after its last check, and rejects wrong content', async () => {
    const verify = () => verifiedModelFile({ ...file, sources: [] }, folders());
    writeFileSync(target(), content);
    expect(await verify()).equal(target());
    writeFileSync(target(), content.subarray(1));
    expect(await verify().catch((reason: Error) => reason.message)).include('SHA-256');
  });
});
