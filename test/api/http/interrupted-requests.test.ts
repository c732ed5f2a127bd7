import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { createApp } from '#src/app.ts';
import type { HttpRoute } from '#src/http/routing/route.ts';
import type { IdempotencyStore } from '#src/ports/idempotency-store.ts';
import { aPublishedAgent, aStoredConnection, freshEmail } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { readEvents } from '#test/support/event-stream.ts';
import { askRoute, bodiesOfRoutes, type Ids } from '#test/support/route-requests.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { answerWith, startWebSite, type WebSite } from '#test/support/web-site.ts';

/** Points at which the process crashes while it handles a request with a key. */
type Crash = 'before the effect' | 'before the answer is stored' | 'before the answer is sent';

type Request = { ids?: Ids; body?: object | undefined };
type Case = {
  request: () => Promise<Request> | Request;
  /** These routes reject a second request while the first one runs. */
  isExclusive?: true;
};

const emptyBucket = `<?xml version="1.0"?><ListBucketResult><Name>reports</Name><KeyCount>0</KeyCount></ListBucketResult>`;
/** Rows of these tables are not compared: they are totals, pieces of a stream, or swept later. */
const uncountedTables = [
  ...['idempotency_keys', 'blob_claims', 'rate_limits', 'evaluation_days', 'log_totals', 'round_events'],
];

describe('a request with an Idempotency-Key whose process dies', () => {
  let stack: Stack;
  let model: ScriptedModel;
  let site: WebSite;
  let ada: Member;
  let server: Server;
  let baseUrl: string;
  let ids: Ids;
  let bodies: ReturnType<typeof bodiesOfRoutes>;
  let crash: Crash | null = null;
  let areLeasesOver = false;

  before(async () => {
    [model, site] = await Promise.all([startScriptedModel(), startWebSite()]);
    model.behave(() => ({ kind: 'answer', text: 'Month by month.' }));
    // No workers run, so that only the requests change the database.
    const settings = { OPENAI_BASE_URL: model.baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl, ECHO_WAIT_MS: '0' };
    stack = await startStack({ ...settings, EGRESS_ALLOW: site.place }, { workers: false });
    server = createServer(
      createApp({ ...stack.container, idempotency: crashing(stack.container.idempotency) }).express,
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    ada = await stack.signUp();
    // Limits are raised for all that the tests create.
    await stack.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
    bodies = bodiesOfRoutes('A loan.', {});
    const { id: documentId } = Object((await ada.post('/documents/paste', bodies.pasteDocument?.({}), 201)).body);
    const root = await stack.container.db('folders').where({ ownerId: ada.userId }).first('id');
    ids = {
      document_id: documentId,
      folder_id: root.id,
      agent_id: await aPublishedAgent(ada),
      team_id: Object((await ada.post('/entity/teams', { name: 'Red' }, 201)).body).id,
      connection_id: await aStoredConnection(stack, ada, 'Reports'),
    };
  });
  after(async () => {
    server?.closeAllConnections();
    server?.close();
    await stack?.close();
    await Promise.all([model?.close(), site?.close()]);
  });

  /** Undoes what a crashed process would not have done, and lets the request end otherwise. */
  function crashing(store: IdempotencyStore): IdempotencyStore {
    return {
      ...store,
      claim: async (key, fingerprint, leaseSeconds) => {
        const claimed = await store.claim(key, fingerprint, areLeasesOver ? -1 : leaseSeconds);
        if (crash === 'before the effect') throw new Error('The process is dead.');
        return claimed;
      },
      complete: async (...complete) => {
        if (crash !== 'before the answer is stored') await store.complete(...complete);
      },
    };
  }

  async function newDraft(): Promise<Ids> {
    const { id, head_version_id } = Object((await ada.post('/agent-drafts', { agent_prompt: 'A.' }, 201)).body);
    return { draft_id: id, version_id: head_version_id };
  }

  const plain = (operationId: string): Case => ({ request: () => ({ body: bodies[operationId]?.(ids) }) });
  const ofNewDraft = (operationId: string): Case => ({
    request: async () => {
      const draft = await newDraft();
      return { ids: draft, body: bodies[operationId]?.({ ...ids, ...draft }) };
    },
  });

  const cases: Record<string, Case> = {
    createTeam: plain('createTeam'),
    createMember: plain('createMember'),
    createTeamMember: plain('createTeamMember'),
    createFolder: plain('createFolder'),
    createDraft: plain('createDraft'),
    // With force, a second request would replace the new version, which descends from the parent.
    commitVersion: ofNewDraft('commitVersion'),
    publishVersion: {
      request: async () => {
        const { body } = await ada.post(
          '/agent-drafts',
          { agent_prompt: 'A.', agent_name: 'A', anchor_words: { a: 1 } },
          201,
        );
        return { ids: { draft_id: Object(body).id }, body: { version_id: Object(body).head_version_id } };
      },
    },
    startEvaluation: ofNewDraft('startEvaluation'),
    uploadDocument: plain('uploadDocument'),
    pasteDocument: plain('pasteDocument'),
    importDocumentFromUrl: {
      request: () => ({ body: { url: site.page(answerOnce('<p>A loan.</p>')) } }),
      // The page only exists for the first request.
      isExclusive: true,
    },
    importDocumentsFromConnector: plain('importDocumentsFromConnector'),
    linkDocument: {
      request: async () => {
        const { body } = await ada.post('/folders', bodies.createFolder?.(ids), 201);
        return { body: { folder_id: Object(body).id } };
      },
    },
    ingestDocument: { request: () => ({ body: { redo: true } }) },
    createS3Connection: {
      request: () => {
        site.page(answerWith(emptyBucket, { 'content-type': 'application/xml' }), '/reports/');
        const config = { bucket: 'reports', endpoint: `http://${site.place}`, force_path_style: true };
        const credentials = { access_key_id: 'key', secret_access_key: 'secret' };
        return { body: { display_name: freshEmail(), credentials, config } };
      },
    },
    requestExport: {
      request: async () => {
        const finished = { status: 'succeeded', finishedAt: new Date() };
        await stack.container.db('jobs').where({ kind: 'export' }).update(finished);
        await stack.container.db('exports').update({ completedAt: finished.finishedAt });
        return {};
      },
    },
    sendMessage: { ...plain('sendMessage'), isExclusive: true },
    streamMessage: { ...plain('streamMessage'), isExclusive: true },
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
    const counted = tables.filter((table) => !uncountedTables.includes(table));
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
    const response = await askRoute(ada.at(baseUrl), route, { ...ids, ...request.ids }, options);
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
    const { status, headers } = response;
    // A stream that is written again may be split into other pieces.
    if (isStream) return { status, headers, body: (await collect(readEvents(response))).at(-1) };
    const text = await response.text();
    return { status, headers, text, body: text === '' ? null : JSON.parse(text) };
  }

  const endLease = (key: string) =>
    stack.container
      .db('idempotency_keys')
      .where({ key })
      .update({ leaseExpiresAt: new Date(0) });

  it('is tested for every idempotent route', () => {
    const idempotent = stack.routes.filter(({ idempotent }) => idempotent).map(({ operationId }) => operationId);
    expect(Object.keys(cases)).to.have.members(idempotent);
  });

  /** Creates a resource, deletes it, and repeats the request whose response was lost. */
  async function repeatAfterDeletion(operationId: string, remove: (made: Ids) => Promise<unknown>) {
    const route = stack.routes.find((one) => one.operationId === operationId);
    const asked = await cases[operationId]?.request();
    if (route === undefined || asked === undefined) throw new Error(`there is no route ${operationId}`);
    const key = crypto.randomUUID();
    crash = 'before the answer is stored';
    const first = await send(route, asked, key).finally(() => {
      crash = null;
    });
    await remove(first.body);
    await endLease(key);
    return send(route, asked, key);
  }

  it('404 for an agent, a member or a team that was deleted or disabled meanwhile', async () => {
    const agent = await repeatAfterDeletion('publishVersion', ({ id }) => ada.delete(`/agents/${id}`, 204));
    expect(agent.body).include({ code: 'agent_not_found' });
    const member = await repeatAfterDeletion('createMember', ({ user_id }) =>
      ada.delete(`/entity/members/${user_id}`, 204),
    );
    expect(member.body).include({ code: 'member_not_found' });
    const team = await repeatAfterDeletion('createTeam', ({ id }) => ada.delete(`/entity/teams/${id}`, 204));
    expect(team.body).include({ code: 'team_not_found' });
  });

  it('201 for a draft that is created again after its deletion', async () => {
    const draft = await repeatAfterDeletion('createDraft', ({ id }) => ada.delete(`/agent-drafts/${id}`, 204));
    expect(draft.status).equal(201);
  });

  for (const [operationId, { request, isExclusive }] of Object.entries(cases)) {
    it(`has one effect when it is sent again: ${operationId}`, async () => {
      const route = stack.routes.find((one) => one.operationId === operationId);
      if (route === undefined) throw new Error(`there is no route ${operationId}`);
      const undisturbed = await request();
      const start = await countRows();
      expect((await send(route, undisturbed, crypto.randomUUID())).status).below(300);
      const effect = await rowsAddedSince(start);
      expect(effect).not.deep.equal({});

      for (const point of ['before the effect', 'before the answer is stored', 'before the answer is sent'] as const) {
        const asked = await request();
        const key = crypto.randomUUID();
        const before = await countRows();
        crash = point;
        const first = await send(route, asked, key).finally(() => {
          crash = null;
        });
        await endLease(key);
        const again = await send(route, asked, key);
        expect(again.status, point).below(300);
        if (point !== 'before the effect') {
          expect({ status: again.status, body: again.body }, point).deep.equal({
            status: first.status,
            body: first.body,
          });
        }
        if (point === 'before the answer is sent') expect(again.text).equal(first.text);
        expect(await rowsAddedSince(before), `what was added by the death ${point}`).deep.equal(effect);
      }

      if (isExclusive) return;
      const asked = await request();
      const key = crypto.randomUUID();
      const before = await countRows();
      areLeasesOver = true;
      const both = [send(route, asked, key), send(route, asked, key)] as const;
      const [first, again] = await Promise.all(both).finally(() => {
        areLeasesOver = false;
      });
      expect(first.status, 'two at once').below(300);
      expect(again.body, 'two at once').deep.equal(first.body);
      expect(await rowsAddedSince(before), 'what two at once have added').deep.equal(effect);
    });
  }
});
