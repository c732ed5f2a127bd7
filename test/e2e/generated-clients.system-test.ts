import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import type { Context } from 'mocha';
import { anIngestedDocument, aPublishedAgent } from '#test/support/builders.ts';
import { testServices } from '#test/support/services.ts';
import { skip } from '#test/support/skip.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { installWheels, wheelsFolder } from '../../scripts/bootstrap/tools.mjs';

const run = promisify(execFile);

const root = join(import.meta.dirname, '../..');
const examples = join(root, 'docs/clients');
const tsc = join(root, 'node_modules/typescript-native/bin/tsc');
const pythonRequirements = [join(root, 'scripts/requirements-openapi-python-client.txt')];
const npmPackages = [
  ...['@hey-api/openapi-ts@0.99.0', 'openapi-typescript@7.13.0', 'openapi-fetch@0.17.0'],
  ...['eventsource-parser@4.1.3', 'typescript@5.9.3', '@types/node@24.19.2'],
];
const unreachable = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|NewConnectionError|name resolution/;

const text = '# Returns\n\nGoods can be returned within 30 days of delivery.\n\n# Shipping\n\nWe ship to Norway.';
const question = 'Within how many days can goods be returned?';

describe('a client that is generated from the OpenAPI document', function () {
  this.timeout(300_000);
  let s: Stack;
  let token: string;
  let agentId: string;
  let folder: string;

  before(async function () {
    s = await stack();
    const ada = await s.signUp();
    const credentials = { username: ada.email, password: ada.password };
    token = Object((await ada.post('/auth/login', credentials, 200)).body).access_token;
    await anIngestedDocument(ada, 'Returns', text);
    agentId = await aPublishedAgent(ada, { anchor_words: { returns: 5 } });
    folder = await mkdtemp(join(tmpdir(), 'generated-clients-'));
    await cp(examples, folder, { recursive: true });
    await writeFile(join(folder, 'Returns.md'), text);
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts', 'client'] }));
    await orSkip(this, run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', ...npmPackages], at()));
    await run(
      'npx',
      ['openapi-ts', '--file', 'openapi-ts.config.mjs'],
      at({ OPENAPI_URL: `${s.baseUrl}/openapi.json` }),
    );
    const schema = [
      'openapi-typescript',
      `${s.baseUrl}/openapi.json`,
      '--default-non-nullable=false',
      '-o',
      'schema.d.ts',
    ];
    await run('npx', schema, at());
  });
  after(() => rm(folder, { recursive: true, force: true }));

  const at = (env: Record<string, string> = {}) => ({ cwd: folder, env: { ...process.env, ...env } });

  it('compiles in TypeScript', async () => {
    const { stdout } = await run(process.execPath, [tsc, '-p', '.'], at());
    expect(stdout).equal('');
  });

  it('uploads a document, makes an agent and prints its answer with the citations, by @hey-api/openapi-ts', async () => {
    const { stdout } = await run(process.execPath, ['first-chat.ts', s.baseUrl, 'Returns.md', question], at());
    expect(stdout).contain('within 30 days of delivery').contain('[1] Returns.md, page 1: Goods can be returned');
  });

  it('streams an answer, by openapi-typescript and openapi-fetch', async () => {
    const { stdout } = await run(process.execPath, ['stream.ts', s.baseUrl, token, agentId, question], at());
    expect(stdout).match(/within 30 days of delivery[\s\S]*\nReturns\n$/);
  });

  it('streams an answer, by openapi-python-client', async function () {
    const wheels = wheelsFolder('openapi-python-client', pythonRequirements, dirname(testServices().toolsDir));
    const what = { what: 'openapi-python-client', size: '30 MB in your cache' };
    await orSkip(this, installWheels({ ...what, requirements: pythonRequirements, folder: wheels }));
    const python = at({ PYTHONPATH: [wheels, folder].join(delimiter), PYTHONDONTWRITEBYTECODE: '1' });
    const generate = ['-m', 'openapi_python_client', 'generate', '--url', `${s.baseUrl}/openapi.json`];
    const { stdout: report } = await run(
      'python3',
      [...generate, '--meta', 'none', '--output-path', 'acs_client'],
      python,
    );
    expect(report).not.match(/endpoint will not be generated|ERROR/i);
    const { stdout } = await run('python3', ['stream.py', s.baseUrl, token, agentId, question], python);
    expect(stdout).match(/within 30 days of delivery[\s\S]*\nReturns\n$/);
  });
});

const compilerOptions = {
  ...{ target: 'es2024', lib: ['es2024', 'dom', 'dom.iterable', 'dom.asynciterable'], types: ['node'] },
  ...{ module: 'nodenext', strict: true, noEmit: true, allowImportingTsExtensions: true, skipLibCheck: true },
};

/** Skips the test if the registry of the packages cannot be reached. */
async function orSkip(context: Context, installation: Promise<unknown>): Promise<void> {
  try {
    await installation;
  } catch (error) {
    if (unreachable.test(String(error))) skip(context, 'no package registry');
    throw error;
  }
}
