import { writeFile } from 'node:fs/promises';
import { expect } from 'chai';
import { chromium } from 'playwright-core';
import { type OpenApiExample, openApiExamples } from '#src/http/server/openapi-examples.ts';
import { chromiumPath } from '#test/support/chromium.ts';
import { aDocumentedAdmin, type DocumentedStack, startDocumentedStack } from '#test/support/documented-stack.ts';
import { skip } from '#test/support/skip.ts';
import {
  type Caller,
  callerInBrowser,
  callerWithoutBrowser,
  type DescribedOperation,
  operationsOf,
  readDocument,
  type Tried,
} from './documented-operations.ts';
import { exampleAnswer } from './example-answer.ts';

/** Fetches example.com, which a test does not. */
const needsInternet = ['importDocumentFromUrl'];
/** Sent first, by a stranger, in this order: the page signs in with the tokens that it receives. */
const asStranger = ['register', 'login', 'refreshTokens', 'logout'];
/** Each deletes the account that sends it. */
const asNewcomer = ['deleteAccount', 'deleteOrganization'];
/** Delete what the others need. */
const lastOfAll = [
  'deleteDocument',
  'removeTeamMember',
  'removeMember',
  'disableTeam',
  'endOtherSessions',
  'endSession',
];

describe('the page of the documentation', function () {
  this.timeout(900_000);
  let stack: DocumentedStack;
  let operations: DescribedOperation[];
  before(async () => {
    stack = await startDocumentedStack();
    operations = operationsOf(await readDocument(stack.baseUrl));
  });
  after(() => stack?.close());

  it('has examples of requests that are accepted as they stand (`UPDATE_EXAMPLES=1` records the answers)', async () => {
    const tried = await tryAll(await callerWithoutBrowser(stack.baseUrl));
    if (process.env.UPDATE_EXAMPLES) await record(tried);
    expectAccepted(tried);
  });

  it('sends them from a browser', async function () {
    const executablePath = chromiumPath();
    if (executablePath === undefined) return skip(this, 'no Chromium');
    const browser = await chromium.launch({ executablePath, args: ['--headless=new', '--no-sandbox'] });
    try {
      const page = await browser.newPage();
      const caller = await callerInBrowser(page, stack.baseUrl);
      expect(await page.locator('.opblock').count(), 'what the search of the browser finds').equal(operations.length);
      expectAccepted(await tryAll(caller));
    } finally {
      await browser.close();
    }
  });

  /** Sends every operation once: what reads before what writes, and what deletes at the end. */
  async function tryAll(caller: Caller): Promise<Map<string, Tried>> {
    const tried = new Map<string, Tried>();
    const send = async (operationId: string) => {
      const operation = operations.find((each) => each.operationId === operationId);
      if (operation === undefined) throw new Error(`no operation ${operationId}`);
      const answer = await caller.send(operation);
      tried.set(operationId, answer);
    };
    for (const operationId of asStranger) await send(operationId);
    for (const operationId of asNewcomer) {
      await caller.authorize(null);
      await send('register');
      await send(operationId);
    }
    await caller.authorize(await stack.signInAtProvider());
    await send('setPassword');
    const ada = await aDocumentedAdmin(stack);
    const credentials = { username: ada.email, password: ada.password };
    const { body } = await stack.anonymous.post('/auth/login', credentials, 200);
    await caller.authorize(Object(body).access_token);
    const order = ['get', 'post', 'put', 'patch', 'delete'];
    const others = operations
      .filter(({ operationId }) => !tried.has(operationId) && ![...lastOfAll, ...needsInternet].includes(operationId))
      .sort((a, b) => order.indexOf(a.method) - order.indexOf(b.method));
    for (const { operationId } of others) await send(operationId);
    for (const operationId of lastOfAll) await send(operationId);
    return tried;
  }

  function expectAccepted(tried: ReadonlyMap<string, Tried>): void {
    const isAccepted = ({ status }: Tried) => status !== null && status >= 200 && status < 300;
    const refused = [...tried].filter(([, answer]) => !isAccepted(answer));
    const unexplained = refused.filter(([operationId]) => openApiExamples[operationId]?.choose === undefined);
    expect(unexplained.map(([operationId, { status, body }]) => ({ operationId, status, body }))).deep.equal([]);
    expect(1 - refused.length / tried.size).least(0.95);
    expect(tried.size).equal(operations.length - needsInternet.length);
  }

  async function record(tried: ReadonlyMap<string, Tried>): Promise<void> {
    const examples = operations.flatMap(({ operationId }) => {
      const { answer: _, ...request }: OpenApiExample = openApiExamples[operationId] ?? {};
      const { status = null, body } = tried.get(operationId) ?? {};
      const isShown = status !== null && status < 300 && body !== undefined && operationId !== 'getOpenApi';
      const example = { ...request, ...(isShown && { answer: { status, body: exampleAnswer(body) } }) };
      return Object.keys(example).length === 0 ? [] : [[operationId, example]];
    });
    const path = new URL('../../src/http/server/openapi-examples.json', import.meta.url);
    await writeFile(path, `${JSON.stringify(Object.fromEntries(examples), null, 2)}\n`);
  }
});
