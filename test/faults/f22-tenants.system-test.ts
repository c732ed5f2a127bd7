import { expect } from 'chai';
import {
  aColleague,
  aComparison,
  aDraft,
  anApiKey,
  anIngestedDocument,
  aPublishedAgent,
  aStoredConnection,
  ask,
  aTeam,
  readDocument,
  rootOf,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { expectInvariants } from '#test/support/fault-case.ts';
import { isFullRun, note } from '#test/support/fault-run.ts';
import { askRoute, bodiesOfRoutes, type Ids, namesThing } from '#test/support/route-requests.ts';
import { isForJudge, verdictText } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';

const REQUESTS = isFullRun ? 10_000 : 1_000;
const CLIENTS = 4;

/** Takes something away for good, or from the one who asks: what is left could not be asked any more. */
const ending = ['logout', 'deleteOrganization', 'deleteAccount', 'removeMember', 'disableUser', 'resetPassword'];
/** Stays open for as long as its job. */
const endless = 'watchJob';

type Route = ScriptedStack['routes'][number];
type Tenant = { member: Member; canary: string; ids: Ids };

describe('F22: users who request objects of another organization', function () {
  this.timeout(isFullRun ? 1_800_000 : 240_000);
  let stack: ScriptedStack;
  let tenants: [Tenant, ...Tenant[]];
  const random = seeded(runSeed);

  before(async () => {
    stack = await scriptedStack();
    // Says all that it was shown, so that what retrieval lets through is in the answer.
    stack.model.behave((request) => {
      const shown = request.messages.map(({ content }) => content).join('\n');
      return { kind: 'answer', text: isForJudge(request) ? verdictText(request) : shown };
    });
    tenants = (await Promise.all([0, 1, 2, 3, 4].map(createTenant))) as typeof tenants;
  });

  /** An organization where everything says its canary. */
  async function createTenant(index: number): Promise<Tenant> {
    const canary = `canary${index}${crypto.randomUUID().slice(0, 8)}`;
    const member = await stack.signUp(canary);
    await stack.container.db('organizations').where({ id: member.orgId }).update({ name: canary, tier: 'max' });
    const visibility = 'org_level';
    const documentId = await anIngestedDocument(member, canary, `A loan of ${canary} is repaid month by month.`);
    const folderId = await rootOf(member, 'org_root');
    await member.post(`/documents/${documentId}/links`, { folder_id: folderId }, 201);
    const prompt = { agent_name: canary, agent_prompt: `You speak for ${canary}.`, visibility };
    const agentId = await aPublishedAgent(member, prompt);
    const draft = await aDraft(member, { ...prompt, anchor_words: { loan: 5 } });
    const message = `How is a loan repaid, ${canary}?`;
    const { chat_id } = await ask(member, { agent_id: agentId, message, visibility }, 201);
    const { items } = Object((await member.get(`/documents/${documentId}/chunks`, 200)).body);
    const colleague = await aColleague(stack, member, canary);
    const made = Object((await member.post('/entity/org/exports', undefined, 202)).body);
    const client = { network: '127.0.0.1', userAgent: null };
    const { sessionId } = await stack.container.sessions.open(stack.container.db, member.userId, client);
    const ids = {
      session_id: sessionId,
      export_id: made.export_id,
      key_id: (await anApiKey(member, ['read'], { name: canary })).key.id,
      document_id: documentId,
      chunk_id: items[0].id,
      agent_id: agentId,
      draft_id: draft.id,
      version_id: draft.head_version_id,
      comparison_id: await aComparison(member, { draft_id: draft.id, version_id: draft.head_version_id }),
      chat_id,
      round_index: '1',
      job_id: `ingest-${documentId}-1`,
      folder_id: folderId,
      team_id: await aTeam(member, [colleague]),
      user_id: colleague.userId,
      provider: 'brave_search',
      connection_id: await aStoredConnection(stack, member, canary),
    };
    return { member, canary, ids };
  }

  it(`see nothing of that organization in ${REQUESTS} requests, and get 404 for each of its ids (I9)`, async () => {
    const { body: config } = await tenants[0].member.get(`/rag/config/${tenants[0].ids.document_id}`, 200);
    const bodies = bodiesOfRoutes('How is a loan repaid?', Object(config).config);
    const routes = stack.routes.filter(
      ({ access, operationId }) => access !== 'public' && ![...ending, endless].includes(operationId),
    );
    expect(routes).not.empty;
    const wrong: string[] = [];
    const seen = { foreign: 0, own: 0 };

    async function request(): Promise<void> {
      const route = random.pick(routes as [Route, ...Route[]]);
      const caller = random.pick(tenants);
      const target = random.next() < 0.7 ? random.pick(tenants) : caller;
      const isForeign = target !== caller;
      // Deletes only objects of others, which must stay.
      if (!isForeign && (route.method === 'delete' || /disable|remove/.test(route.operationId))) return;
      const body = bodies[route.operationId]?.(target.ids);
      const response = await askRoute(caller.member, route, target.ids, { body });
      const text = await response.text();
      const what = `${route.operationId} of ${tenants.indexOf(target)} by ${tenants.indexOf(caller)}: ${response.status}`;
      seen[isForeign ? 'foreign' : 'own'] += 1;
      if (response.status >= 500) wrong.push(what);
      const namesForeign = isForeign && (namesThing(route) || 'agent_id' in Object(body) || 'draft_id' in Object(body));
      if (namesForeign && response.status !== 404) wrong.push(what);
      for (const [index, other] of tenants.entries()) {
        if (other !== caller && text.includes(other.canary)) wrong.push(`${what} says the canary of ${index}`);
      }
    }

    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let done = client; done < REQUESTS; done += CLIENTS) await request();
    });
    await Promise.all(clients);
    expect(wrong).deep.equal([]);
    expect(Math.min(seen.foreign, seen.own)).above(REQUESTS / 10);
    note(`${seen.foreign} requests about things of others, ${seen.own} about own ones`);
    for (const { member, ids, canary } of tenants) {
      expect((await readDocument(member, ids.document_id ?? '')).content).contain(canary);
    }
    await expectInvariants(stack);
  });
});
