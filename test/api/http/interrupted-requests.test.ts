import { expect } from 'chai';
import { createApp } from '#src/app.ts';
import type { HttpRoute } from '#src/http/routing/route.ts';
import type { IdempotencyStore } from '#src/ports/idempotency-store.ts';
import { recordAnsweredStatuses } from '#test/support/answered-statuses.ts';
import { aPublishedAgent, aStoredConnection, aTeam, freshEmail, rootOf } from '#test/support/builders.ts';
import { type Member, readEvents } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { serveLocally } from '#test/support/local-server.ts';
import { askRoute, bodiesOfRoutes, type Ids } from '#test/support/route-requests.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { answerWith, startWebSite, type WebSite } from '#test/support/web-site.ts';

/** Points at which the process crashes while it handles a request with a key. */
type Crash = 'before the effect' | 'before the answer is stored' | 'before the answer is sent';

type Request = { ids?: Ids; body?: object | undefined };

const emptyBucket = `<?xml version="1.0"?><ListBucketResult><Name>reports</Name><KeyCount>0</KeyCount></ListBucketResult>`;
/** Rows of these tables are not compared: they are totals, pieces of a stream, or swept later. */
const uncounted = ['idempotency_keys', 'blob_claims', 'rate_limits', 'evaluation_days', 'log_totals', 'round_events'];
/** These routes reject a second request while the first one runs, or find what they ask for only once. */
const exclusive = ['sendMessage', 'streamMessage', 'importDocumentFromUrl'];

describe('a request with an Idempotency-Key', () => {
  let stack: Stack;
  let model: ScriptedModel;
  let site: WebSite;
  let ada: Member;
  let crashing: Awaited<ReturnType<typeof serveLocally>>;
  let ids: Ids;
  let bodies: ReturnType<typeof bodiesOfRoutes>;
  let crash: Crash | null = null;
  let crashed: Crash | null = null;
  let areLeasesOver = false;

  before(async () => {
    [model, site] = await Promise.all([startScriptedModel(), startWebSite()]);
    model.behave(() => ({ kind: 'answer', text: 'Month by month.' }));
    // No workers run, so that only the requests change the database.
    const settings = { OPENAI_BASE_URL: model.baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl, ECHO_WAIT_MS: '0' };
    stack = await startStack({ ...settings, EGRESS_ALLOW: site.place }, { workers: false });
    const idempotency = crashingStore(stack.container.idempotency);
    crashing = await serveLocally(createApp({ ...stack.container, idempotency }).express);
    recordAnsweredStatuses(crashing.server, stack.routes);
    ada = await stack.signUp();
    // Limits are raised for all that the tests create.
    await stack.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
    bodies = bodiesOfRoutes('A loan.', {});
    const { id: documentId } = Object((await ada.post('/documents/paste', bodies.pasteDocument?.({}), 201)).body);
    ids = {
      document_id: documentId,
      folder_id: await rootOf(ada, 'personal_root'),
      agent_id: await aPublishedAgent(ada),
      team_id: await aTeam(ada),
      connection_id: await aStoredConnection(stack, ada, 'Reports'),
    };
  });
  after(async () => {
    await crashing.close();
    await stack.close();
    await Promise.all([model.close(), site.close()]);
  });

  /** Omits what a crashed process would not have done, and lets its lease expire at once. */
  function crashingStore(store: IdempotencyStore): IdempotencyStore {
    return {
      ...store,
      claim: async (key, fingerprint, leaseSeconds) => {
        const claimed = await store.claim(key, fingerprint, areLeasesOver || crash !== null ? -1 : leaseSeconds);
        crashed = crash === 'before the effect' ? crash : null;
        if (crashed !== null) throw new Error('The process is dead.');
        return claimed;
      },
      complete: async (...complete) => {
        crashed = crash;
        if (crash !== 'before the answer is stored') await store.complete(...complete);
      },
    };
  }

  const newDraft = async (fields: object) => Object((await ada.post('/agent-drafts', fields, 201)).body);
  const ofNewDraft = (operationId: string) => async () => {
    const { id, head_version_id } = await newDraft({ agent_prompt: 'A.' });
    const draft = { draft_id: id, version_id: head_version_id };
    return { ids: draft, body: bodies[operationId]?.({ ...ids, ...draft }) };
  };
  const asUsual = (operationId: string) => () => ({ body: bodies[operationId]?.(ids) });
  const usual = [
    ...['createTeam', 'createMember', 'createTeamMember', 'createFolder', 'createDraft', 'createAgent'],
    ...['uploadDocument', 'pasteDocument', 'importDocumentsFromConnector', 'sendMessage', 'streamMessage'],
  ];

  /** What is sent to each idempotent route. */
  const requests: Record<string, () => Promise<Request> | Request> = {
    ...Object.fromEntries(usual.map((operationId) => [operationId, asUsual(operationId)])),
    // With force, a second request would replace the new version, which descends from the parent.
    commitVersion: ofNewDraft('commitVersion'),
    startEvaluation: ofNewDraft('startEvaluation'),
    publishVersion: async () => {
      const { id, head_version_id } = await newDraft({ agent_prompt: 'A.', agent_name: 'A', anchor_words: { a: 1 } });
      return { ids: { draft_id: id }, body: { version_id: head_version_id } };
    },
    importDocumentFromUrl: () => ({ body: { url: site.page(answerOnce('<p>A loan.</p>')) } }),
    linkDocument: async () => {
      const { body } = await ada.post('/folders', bodies.createFolder?.(ids), 201);
      return { body: { folder_id: Object(body).id } };
    },
    ingestDocument: () => ({ body: { redo: true } }),
    createS3Connection: () => {
      site.page(answerWith(emptyBucket, { 'content-type': 'application/xml' }), '/reports/');
      const config = { bucket: 'reports', endpoint: `http://${site.place}`, force_path_style: true };
      const credentials = { access_key_id: 'key', secret_access_key: 'secret' };
      return { body: { display_name: freshEmail(), credentials, config } };
    },
    requestExport: async () => {
      const { items } = Object((await ada.get('/entity/org/exports', 200)).body);
      for (const { export_id } of items) await ada.delete(`/entity/org/exports/${export_id}`, 204);
      return {};
    },
  };

  /** A web page that only exists for the first request. */
  function answerOnce(content: string): Parameters<WebSite['page']>[0] {
    let isGone = false;
    return (response, request) => {
      answerWith(content, {}, isGone ? 404 : 200)(response, request);
      isGone = true;
    };
  }

  async function countRows(): Promise<Record<string, number>> {
    const { db } = stack.container;
    const tables: string[] = await db('pg_tables').where({ schemaname: 'public' }).pluck('tablename');
    const counted = tables.filter((table) => !uncounted.includes(table));
    const each = counted.map((table) => `select '${table}' as name, count(*)::int as n from "${table}"`);
    const { rows } = await db.raw(each.join(' union all '));
    return Object.fromEntries(rows.map(({ name, n }: { name: string; n: number }) => [name, n]));
  }

  async function rowsAddedSince(before: Record<string, number>): Promise<Record<string, number>> {
    const after = Object.entries(await countRows()).map(([name, n]) => [name, n - (before[name] ?? 0)] as const);
    return Object.fromEntries(after.filter(([, added]) => added !== 0));
  }

  async function send(route: HttpRoute, request: Request, key: string) {
    const options = { body: request.body, headers: { 'idempotency-key': key, prefer: 'wait=0' } };
    const response = await askRoute(ada.at(crashing.baseUrl), route, { ...ids, ...request.ids }, options);
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
    const { status } = response;
    // A stream that is written again may be split into other pieces.
    if (isStream) return { status, text: null, body: (await collect(readEvents(response))).at(-1) };
    const text = await response.text();
    return { status, text, body: text === '' ? null : JSON.parse(text) };
  }

  async function newRequest(operationId: string) {
    const route = stack.routes.find((one) => one.operationId === operationId);
    const request = await requests[operationId]?.();
    if (route === undefined || request === undefined) throw new Error(`there is no route ${operationId}`);
    const key = crypto.randomUUID();
    return {
      send: () => send(route, request, key),
      /** Sends the request to a process that crashes at this point. */
      sendAndCrash: (point: Crash) => {
        crash = point;
        return send(route, request, key).finally(() => {
          crash = null;
        });
      },
    };
  }

  it('has a case in this test for every idempotent route', () => {
    const idempotent = stack.routes.filter(({ idempotent }) => idempotent).map(({ operationId }) => operationId);
    expect(Object.keys(requests)).to.have.members(idempotent);
  });

  it('is refused with 422 if it uploads another file than the first one, and that file is not kept', async () => {
    const storedFiles = async () => (await stack.container.blobs.list({ after: null, limit: 1_000 })).length;
    const before = await storedFiles();
    const options = { headers: { 'idempotency-key': crypto.randomUUID() }, fields: { ingest: 'false' } };
    const upload = async (content: string, status: number) =>
      Object((await ada.upload('/documents', { name: 'f.txt', content }, status, options)).body);
    const { id } = await upload('One.', 201);
    expect(await upload('One.', 201)).include({ id });
    expect(await upload('Two.', 422)).include({ code: 'idempotency_key_reused' });
    expect(await storedFiles()).equal(before + 1);
  });

  it('gets 404 when repeated after a crash if what it created is deleted by then; only a draft is created again', async () => {
    for (const [operationId, pathOf, code] of [
      ['publishVersion', ({ id }) => `/agents/${id}`, 'agent_not_found'],
      ['createAgent', ({ id }) => `/agents/${id}`, 'agent_not_found'],
      ['createMember', ({ user_id }) => `/entity/members/${user_id}`, 'member_not_found'],
      ['createTeam', ({ id }) => `/entity/teams/${id}`, 'team_not_found'],
      ['createDraft', ({ id }) => `/agent-drafts/${id}`, undefined],
    ] satisfies [string, (made: Ids) => string, string | undefined][]) {
      const { send, sendAndCrash } = await newRequest(operationId);
      const { body } = await sendAndCrash('before the answer is stored');
      await ada.delete(pathOf(body), 204);
      const again = await send();
      expect([again.status, again.body.code], operationId).deep.equal([code ? 404 : 201, code]);
    }
  });

  for (const operationId of Object.keys(requests)) {
    it(`has one effect when its process dies and it is sent again: ${operationId}`, async () => {
      const undisturbed = await newRequest(operationId);
      const start = await countRows();
      expect((await undisturbed.send()).status).below(300);
      const effect = await rowsAddedSince(start);
      expect(effect).not.deep.equal({});

      for (const point of ['before the effect', 'before the answer is stored', 'before the answer is sent'] as const) {
        const { send, sendAndCrash } = await newRequest(operationId);
        const before = await countRows();
        const first = await sendAndCrash(point);
        expect(crashed).equal(point);
        const again = await send();
        expect(again.status, point).below(300);
        const answerOf = ({ status, body }: typeof first) => ({ status, body });
        if (point !== 'before the effect') expect(answerOf(again), point).deep.equal(answerOf(first));
        if (point === 'before the answer is sent') expect(again.text).equal(first.text);
        expect(await rowsAddedSince(before), `rows added by a crash ${point}`).deep.equal(effect);
      }

      if (exclusive.includes(operationId)) return;
      const { send } = await newRequest(operationId);
      const before = await countRows();
      areLeasesOver = true;
      const [first, again] = await Promise.all([send(), send()]).finally(() => {
        areLeasesOver = false;
      });
      expect(first.status, 'two at once').below(300);
      expect(again.body, 'two at once').deep.equal(first.body);
      expect(await rowsAddedSince(before), 'rows added by two at once').deep.equal(effect);
    });
  }
});
