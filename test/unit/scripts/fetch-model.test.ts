import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { until } from '#test/support/until.ts';
import { DiskFull } from '../../../scripts/models/fetch-failure.ts';
import { fetchModel } from '../../../scripts/models/fetch-model.ts';
import { verifiedModelFile } from '../../../services/model-server/model-files.ts';
import type { ChatModel, ModelSource } from '../../../services/model-server/model-manifest.ts';

const content = Buffer.from(Array.from({ length: 200_000 }, (_, index) => index % 251));
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

describe('fetching a model', () => {
  let dir: string;
  let modelDir: string;
  const servers: Server[] = [];

  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'fetch-model-'));
    modelDir = join(dir, 'models');
  });
  afterEach(async () => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    }
    rmSync(dir, { recursive: true });
  });

  async function serve(listener: RequestListener): Promise<ModelSource> {
    const server = createServer(listener).listen(0, '127.0.0.1');
    servers.push(server);
    await once(server, 'listening');
    return { kind: 'download', url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/model` };
  }

  /** Answers like a host of files, with ranges; `limit` breaks off once some of so many bytes are stored. */
  function host(bytes: Buffer, { limit = bytes.length, ranges = [] as string[] } = {}): RequestListener {
    return (request, response) => {
      const range = request.headers.range ?? '';
      ranges.push(range);
      const start = Number(/bytes=(\d+)-/.exec(range)?.[1] ?? 0);
      response.writeHead(206, { 'content-length': bytes.length - start });
      if (limit < bytes.length) {
        response.write(bytes.subarray(start, limit));
        void until('some is stored', async () => existsSync(partial()) && statSync(partial()).size > 0).then(() =>
          response.destroy(),
        );
      } else response.end(bytes.subarray(start));
    };
  }

  function model(...sources: ModelSource[]): ChatModel {
    return {
      kind: 'chat',
      id: 'test-model',
      ownedBy: 'test',
      license: 'Apache-2.0',
      windowTokens: 100,
      contextBudgetTokens: 100,
      files: [{ name: 'test.gguf', sha256: sha256(content), sizeBytes: content.length, sources }],
    };
  }

  const run = (fetched: ChatModel, freeBytes = 1e12) => {
    const progress: number[] = [];
    const done = fetchModel(fetched, {
      folders: { modelDir, toolsDir: dir },
      onProgress: (_file, doneBytes) => progress.push(doneBytes),
      freeBytes: async () => freeBytes,
    });
    return done.then(
      () => ({ error: null, progress }),
      (error: Error) => ({ error, progress }),
    );
  };
  const target = () => join(modelDir, 'test.gguf');
  const partial = () => `${target()}.partial`;

  it('puts the whole file under its name, and says how far it is', async () => {
    const { error, progress } = await run(model(await serve(host(content))));
    expect(error).to.equal(null);
    expect(readFileSync(target()).equals(content)).to.equal(true);
    expect(progress.at(-1)).to.equal(content.length);
    expect(readdirSync(modelDir)).to.have.members(['test.gguf', 'test.gguf.verified']);
  });

  it('goes on where a download was cut', async () => {
    const cut = await run(model(await serve(host(content, { limit: 70_000 }))));
    expect(cut.error?.message).to.include('test.gguf could not be fetched');
    expect(existsSync(target())).to.equal(false);
    const kept = statSync(partial()).size;
    expect(kept).to.be.within(1, 70_000);

    const ranges: string[] = [];
    expect((await run(model(await serve(host(content, { ranges }))))).error).to.equal(null);
    expect(ranges).to.deep.equal([`bytes=${kept}-`]);
    expect(readFileSync(target()).equals(content)).to.equal(true);
  });

  it('begins anew at a host without ranges', async () => {
    await run(model(await serve(host(content, { limit: 70_000 }))));
    const plain: RequestListener = (_request, response) => response.end(content);
    expect((await run(model(await serve(plain)))).error).to.equal(null);
    expect(readFileSync(target()).equals(content)).to.equal(true);
  });

  it('asks for nothing when a run was stopped after its last byte', async () => {
    mkdirSync(modelDir);
    writeFileSync(partial(), content);
    const { error } = await run(model(await serve((_request, response) => response.writeHead(416).end())));
    expect(error).to.equal(null);
    expect(readFileSync(target()).equals(content)).to.equal(true);
  });

  it('begins anew when what was kept is wrong or too long', async () => {
    mkdirSync(modelDir);
    for (const kept of [Buffer.alloc(content.length), Buffer.concat([content, content])]) {
      writeFileSync(partial(), kept);
      const ranges: string[] = [];
      expect((await run(model(await serve(host(content, { ranges }))))).error).to.equal(null);
      expect(ranges).to.deep.equal(['bytes=0-']);
      rmSync(target());
    }
  });

  it('says what to do about a file that is there and damaged', async () => {
    mkdirSync(modelDir);
    writeFileSync(target(), content.subarray(1));
    const { error } = await run(model(await serve(host(content))));
    expect(error?.message).to.include(target()).and.include('Delete it, and fetch it again');
    expect(existsSync(target()), 'somebody may have put it there').to.equal(true);
  });

  it('refuses another content, keeps nothing of it, and tries the next source', async () => {
    const forged = Buffer.from(content);
    forged[0] = 255;
    const wrong = await serve(host(forged));
    const refused = await run(model(wrong));
    expect(refused.error?.message).to.include('SHA-256');
    expect(readdirSync(modelDir)).to.deep.equal([]);
    expect((await run(model(wrong, await serve(host(content))))).error).to.equal(null);
  });

  it('refuses more than the file has', async () => {
    const { error } = await run(model(await serve(host(Buffer.concat([content, content])))));
    expect(error?.message).to.include('more than the 200000 bytes');
  });

  it('says of each source why it did not help', async () => {
    const missing = await serve((_request, response) => response.writeHead(404).end());
    const { error } = await run(model(missing, { kind: 'download', url: 'http://127.0.0.1:1/model' }));
    expect(error?.message).to.include('answered 404').and.include('127.0.0.1:1');
  });

  it('says that the disk is full before it begins', async () => {
    const { error } = await run(model(await serve(host(content))), 1_000_000);
    expect(error).to.be.instanceOf(DiskFull);
    expect(error?.message).to.match(/^The disk is full: \d+ MB more are needed in .+, and 1 MB are free\.$/);
    expect(existsSync(target())).to.equal(false);
  });

  it('fetches nothing that is there', async () => {
    await run(model(await serve(host(content))));
    expect((await run(model())).error).to.equal(null);
  });
});

describe('a model file', () => {
  it('that was changed after it was found right is read again, and refused', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'model-file-'));
    try {
      const file = { name: 'a.gguf', sha256: sha256(content), sizeBytes: content.length, sources: [] };
      const folders = { modelDir: dir, toolsDir: dir };
      writeFileSync(join(dir, 'a.gguf'), content);
      expect(await verifiedModelFile(file, folders)).to.equal(join(dir, 'a.gguf'));
      writeFileSync(join(dir, 'a.gguf'), content.subarray(1));
      const error = await verifiedModelFile(file, folders).catch((reason: Error) => reason.message);
      expect(error).to.include('SHA-256');
    } finally {
      rmSync(dir, { recursive: true });
    }
  });
});
