import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';

const A_VECTOR = { size: 3, distance: 'Cosine' };
const JSON_BODY = { 'content-type': 'application/json' };
const STRICT = { enabled: true, unindexed_filtering_retrieve: false, unindexed_filtering_update: false };

describe('the Qdrant facade', () => {
  const children: ChildProcessWithoutNullStreams[] = [];
  let dataDir: string;

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'qdrant-facade-'));
  });
  afterEach(async () => {
    const ended = children.splice(0).map((child) => {
      child.kill('SIGKILL');
      return child.exitCode ?? child.signalCode ?? once(child, 'exit');
    });
    await Promise.all(ended);
    await rm(dataDir, { recursive: true });
  });

  function start(settings: Record<string, string> = {}) {
    const { PATH, TOOLS_DIR = '' } = process.env;
    const child = spawn('python3', ['-B', join(import.meta.dirname, 'main.py')], {
      env: { PATH, TOOLS_DIR, DATA_DIR: dataDir, PORT: '0', ...settings },
    });
    children.push(child);
    let log = '';
    child.stdout.on('data', (chunk) => {
      log += chunk;
    });
    return { child, log: () => log, exited: once(child, 'close').then(([code]) => code) };
  }

  async function serve(settings: Record<string, string> = {}) {
    const { child, log, exited } = start(settings);
    while (!log().includes('"listening"')) await Promise.race([once(child.stdout, 'data'), exited.then(failWith(log))]);
    const url = /"url": "([^"]+)"/.exec(log())?.[1] ?? '';
    const ask = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
      const json = body === undefined ? {} : { body: JSON.stringify(body) };
      const response = await fetch(url + path, { method, headers: { ...JSON_BODY, ...headers }, ...json });
      const answer = (await response.json()) as { result?: unknown; status: unknown };
      return { code: response.status, ...answer };
    };
    return { child, log, exited, url, ask };
  }

  const failWith = (log: () => string) => () => {
    throw new Error(log());
  };

  it('says what it is for, serves, and ends with code 0 on SIGTERM', async () => {
    const { child, log, exited, url } = await serve();
    expect(log()).include('for development and small installations');
    expect((await fetch(`${url}/readyz`)).status).equal(200);
    expect((await fetch(url)).headers.get('content-type')).equal('application/json');
    child.kill('SIGTERM');
    expect(await exited).equal(0);
  });

  it('rejects requests whose Host header names another machine', async () => {
    const { url } = await serve();
    const ask = get(`${url}/collections`, { headers: { host: 'attacker.example' } });
    const [answer]: IncomingMessage[] = await once(ask, 'response');
    expect(answer?.statusCode).equal(403);
    answer?.resume();
  });

  it('names the setting that is wrong, and refuses an address that others can reach', async () => {
    const wrong: Record<string, string> = { HOST: '0.0.0.0', PORT: 'many', TOOLS_DIR: '/nowhere', DATA_DIR: '' };
    for (const [name, value] of Object.entries(wrong)) {
      const { log, exited } = start({ [name]: value });
      expect(await exited).equal(1);
      expect(JSON.parse(log()).msg).match(new RegExp(`^${name}: `));
    }
  });

  it('flushes and changes nothing of a collection that was deleted meanwhile', async () => {
    const program = `
import sys
sys.path[:0] = [${JSON.stringify(import.meta.dirname)}, ${JSON.stringify(process.env.TOOLS_DIR)}]
from pathlib import Path
from collections_folder import CollectionsFolder
collections = CollectionsFolder(Path(${JSON.stringify(dataDir)}))
collections.create("one", {"vectors": {"size": 3, "distance": "Cosine"}})
held = collections.get("one")
held.upsert({"points": [{"id": 1, "vector": [1, 0, 0]}]})
collections.delete("one")
held.flush()
try:
    held.upsert({"points": [{"id": 2, "vector": [1, 0, 0]}]})
except Exception as error:
    print(error.status, error)
`;
    const { stdout } = await promisify(execFile)('python3', ['-B', '-c', program]);
    expect(stdout).equal("404 Not found: Collection `one` doesn't exist!\n");
  });

  it('leaves a folder alone that another one serves', async () => {
    const first = await serve();
    await first.ask('PUT', '/collections/one', { vectors: A_VECTOR });
    const second = start();
    expect(await second.exited).equal(1);
    expect(second.log()).include('DATA_DIR');
  });

  it('answers errors as the server does', async () => {
    const { ask, url } = await serve();
    const create = () => ask('PUT', '/collections/one', { vectors: A_VECTOR, strict_mode_config: STRICT });
    expect(await create()).include({ code: 200, result: true, status: 'ok' });
    const unindexed = { filter: { must: [{ should: [{ key: 'color', match: { value: 'red' } }] }] } };
    const refusals: [code: number, says: string, answer: ReturnType<typeof ask>][] = [
      [404, "Collection `none` doesn't exist", ask('POST', '/collections/none/points/count', {})],
      [404, 'Not found', ask('GET', '/somewhere')],
      [405, 'Method not allowed', ask('DELETE', '/collections')],
      [409, 'already exists', create()],
      [400, 'expected dim: 3, got 2', ask('PUT', '/collections/one/points', { points: [{ id: 1, vector: [1, 0] }] })],
      [400, 'expected dim: 3, got 2', ask('POST', '/collections/one/points/query', { query: [1, 0] })],
      [400, 'Format error', ask('PUT', '/collections/one/points', { points: [{ id: 1, vector: [1, 'a', 0] }] })],
      [400, 'Index required', ask('POST', '/collections/one/points/scroll', unindexed)],
      [400, 'Index required', ask('POST', '/collections/one/points/delete', unindexed)],
      [400, 'Format error', ask('PUT', '/collections/one/points', {})],
      [400, 'Content type', ask('POST', '/collections/one/points/delete', {}, { 'content-type': 'text/plain' })],
      [400, 'does not know', ask('POST', '/collections/one/points/query', { query: { fusion: 'rrf' } })],
      [400, 'not a valid collection name', ask('PUT', '/collections/..%2Fup', { vectors: A_VECTOR })],
    ];
    for (const [code, says, answer] of refusals) {
      const { status, ...rest } = await answer;
      expect(JSON.stringify(status))
        .match(/^\{"error":/)
        .include(says);
      expect(rest).include({ code }).not.property('result');
    }
    const tooLarge = await fetch(`${url}/collections/one/points`, { method: 'PUT', body: 'x'.repeat(33 * 1024 ** 2) });
    expect(tooLarge.status).equal(413);
  });

  it('asks for its key where it has one', async () => {
    const { ask } = await serve({ API_KEY: 'secret' });
    expect(await ask('GET', '/collections')).include({ code: 401 });
    expect(await ask('GET', '/collections', undefined, { 'api-key': 'secret' })).include({ code: 200 });
  });

  it('has every point that it acknowledged, however often it is killed', async () => {
    let acknowledged = 0;
    for (let round = 0; round < 3; round++) {
      const { child, ask, exited } = await serve();
      if (round === 0) await ask('PUT', '/collections/one', { vectors: A_VECTOR });
      const { result } = await ask('POST', '/collections/one/points/count', {});
      // The request that was in flight when the process died may have been stored too.
      expect((result as { count: number }).count - acknowledged).within(0, 1);

      const aim = acknowledged + 40;
      const writing = (async () => {
        for (;;) {
          await ask('PUT', '/collections/one/points?wait=true', {
            points: [{ id: acknowledged + 1, vector: [1, acknowledged, 0], payload: { round } }],
          });
          acknowledged++;
          if (acknowledged === aim) child.kill('SIGKILL');
        }
      })();
      await writing.catch(() => undefined);
      await exited;
    }
    expect(acknowledged).at.least(120);
  });
});
