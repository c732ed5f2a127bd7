import { expect } from 'chai';
import { decodeJwt } from 'jose';
import type { HttpRoute, RouteAccess } from '#src/http/routing/route.ts';
import {
  aCast,
  aColleague,
  aComparison,
  anApiKey,
  anIngestedDocument,
  aPublishedAgent,
  aStoredConnection,
  ask,
  type Cast,
  freshEmail,
  rootOf,
} from '#test/support/builders.ts';
import { exportOf } from '#test/support/exported.ts';
import { gifOfFrames, uploadAvatar } from '#test/support/images.ts';
import { askRoute, bodiesOfRoutes, type Ids, namesThing } from '#test/support/route-requests.ts';
import { isForJudge, verdictText } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

type Caller = Exclude<keyof Cast, 'redTeamId'>;
/** `ok` is every answer but 401, 403 and 404. */
type Verdict = 'ok' | 401 | 403 | 404;

const callers: Caller[] = ['owner', 'sameTeam', 'sameOrganization', 'teamAdmin', 'orgAdmin', 'otherOrganization'];

/** In the order of `callers`, about something that the owner has made for the red team. Written by hand from the rules. */
const expected: Record<Exclude<RouteAccess, 'public'>, Verdict[]> = {
  user: ['ok', 'ok', 'ok', 'ok', 'ok', 'ok'],
  'organization:read': ['ok', 'ok', 'ok', 'ok', 'ok', 'ok'],
  'organization:administer': [403, 403, 403, 403, 'ok', 'ok'],
  'user:manage': [403, 403, 403, 'ok', 'ok', 404],
  'session:end': ['ok', 404, 404, 404, 404, 404],
  'team:list_members': ['ok', 'ok', 403, 'ok', 'ok', 404],
  'team:manage_members': [403, 403, 403, 'ok', 'ok', 404],
  'team:contribute': ['ok', 'ok', 404, 'ok', 'ok', 404],
  'folder:read': ['ok', 'ok', 404, 'ok', 'ok', 404],
  'folder:contribute': ['ok', 'ok', 404, 'ok', 'ok', 404],
  'folder:write': ['ok', 403, 404, 'ok', 'ok', 404],
  'folder:manage': [403, 403, 404, 'ok', 'ok', 404],
  'document:read': ['ok', 'ok', 404, 'ok', 'ok', 404],
  'document:write': ['ok', 403, 404, 'ok', 'ok', 404],
  'agent:read': ['ok', 'ok', 404, 'ok', 'ok', 404],
  'agent:write': ['ok', 403, 404, 'ok', 'ok', 404],
  'agent:delete': ['ok', 403, 404, 403, 'ok', 404],
  'draft:read': ['ok', 'ok', 404, 'ok', 'ok', 404],
  'draft:write': ['ok', 403, 404, 403, 403, 404],
  'chat:read': ['ok', 'ok', 404, 'ok', 'ok', 404],
  'chat:write': ['ok', 403, 404, 403, 403, 404],
  'connection:read': ['ok', 404, 404, 404, 404, 404],
  'connection:write': ['ok', 404, 404, 404, 404, 404],
  'job:read': ['ok', 'ok', 404, 'ok', 'ok', 404],
  'job:write': ['ok', 403, 404, 'ok', 'ok', 404],
};

/** Access to what the body names, for routes whose path names nothing. */
const namedInBody: [access: Exclude<RouteAccess, 'public'>, operationIds: string[]][] = [
  ['folder:contribute', ['createFolder']],
  ['connection:write', ['importDocumentsFromConnector']],
  ['agent:read', ['expandAnchorWords', 'sendMessage', 'streamMessage']],
  ['chat:read', ['signUrl']],
  ['draft:write', ['evaluate', 'evaluatePrompt', 'evaluateCase', 'compareVersions']],
];
const accessOf = ({ operationId, access }: HttpRoute): RouteAccess =>
  namedInBody.find(([, operationIds]) => operationIds.includes(operationId))?.[0] ?? access;

describe('permissions:', () => {
  let stack: ScriptedStack;
  let cast: Cast;
  /** What the parameters of paths stand for: the red team's, and the owner's own. */
  let shared: Ids;
  let personal: Ids;
  let bodies: ReturnType<typeof bodiesOfRoutes>;

  before(async () => {
    stack = await scriptedStack();
    stack.model.behave((request) => {
      const text = isForJudge(request) ? verdictText(request) : 'A loan is repaid month by month.';
      return { kind: 'answer', text };
    });
    cast = await aCast(stack);
    const { orgAdmin, owner, redTeamId } = cast;
    shared = await makeThings({ visibility: 'team_level', team_ids: [redTeamId] });
    await shareWithRed(shared.document_id);
    shared.folder_id = await rootOf(owner, 'team_root');
    const grace = await aColleague(stack, orgAdmin, 'Grace', { team_id: redTeamId });
    await uploadAvatar(grace, gifOfFrames(1), 200);
    shared.user_id = grace.userId;
    personal = await makeThings({ visibility: 'personal' });
    personal.folder_id = await rootOf(owner, 'personal_root');
    const { export_id, volumes } = await exportOf(orgAdmin);
    const { key } = await anApiKey(orgAdmin, ['read']);
    Object.assign(shared, { key_id: key.id, export_id, export_token: volumes[0]?.download_url?.split('/').at(-1) });
    const { body } = await owner.get(`/rag/config/${shared.document_id}`, 200);
    bodies = bodiesOfRoutes('A loan.', Object(body).config);
    const withBody = stack.routes.filter(({ body, access }) => body !== undefined && access !== 'public');
    expect(Object.keys(bodies)).include.members(withBody.map(({ operationId }) => operationId));
  });

  /** What a text looks like on paper is taken to be the text. */
  async function putPreview(documentId: string): Promise<void> {
    await stack.container.db.raw(
      `insert into previews (org_id, original_key, renderer_version, blob_key, sha256, size_bytes)
       select org_id, blob_key, 'none', blob_key, content_sha256, size_bytes from documents where id = ?
       on conflict do nothing`,
      [documentId],
    );
  }

  async function makeThings(scope: Record<string, unknown>): Promise<Ids> {
    const { owner, redTeamId } = cast;
    const get = async (path: string) => Object((await owner.get(path, 200)).body);
    const document_id = await anIngestedDocument(owner, 'Loans', 'A loan is repaid month by month.');
    await putPreview(document_id);
    const agent_id = await aPublishedAgent(owner, scope);
    const fields = { agent_prompt: 'Be brief.', anchor_words: { loan: 5 }, ...scope };
    const { id: draft_id, head_version_id: version_id } = Object((await owner.post('/agent-drafts', fields, 201)).body);
    const evaluation = `/agent-drafts/${draft_id}/versions/${version_id}/eval/start`;
    await owner.post(evaluation, {}, 200, { prefer: 'wait=60' });
    const comparison_id = await aComparison(owner, { draft_id, version_id });
    const { chat_id } = await ask(owner, { agent_id, message: 'How?', ...scope }, 201);
    const { url } = await get(`/documents/${document_id}/download-url`);
    const made = { document_id, agent_id, draft_id, version_id, comparison_id, chat_id, team_id: redTeamId };
    const token = String(url).split('/').at(-1) ?? '';
    const chunk_id = (await get(`/documents/${document_id}/chunks`)).items[0].id;
    const connection_id = await aStoredConnection(stack, owner, 'Reports');
    const session_id = crypto.randomUUID();
    const named = { round_index: '1', job_id: `ingest-${document_id}-1`, provider: 'brave_search', session_id };
    return { ...made, ...named, token, chunk_id, connection_id };
  }

  async function shareWithRed(documentId = ''): Promise<void> {
    const folder_id = await rootOf(cast.owner, 'team_root');
    await cast.owner.post(`/documents/${documentId}/links`, { folder_id }, 201);
  }

  const inRed = () => ({ visibility: 'team_level', team_ids: [cast.redTeamId] });
  const post = async (by: 'owner' | 'orgAdmin', path: string, body: object) =>
    Object((await cast[by].post(path, body, 201)).body);

  const newProvider = async () => ({ provider: 'acme_s3' });
  const newDocument = async () => {
    const { id } = await post('owner', '/documents/paste', { name: 'n', content: 'A loan.', source_format: 'text' });
    await shareWithRed(id);
    return { document_id: id };
  };
  /** With two versions, of which one may be deleted. */
  const newDraft = async () => {
    const { id, head_version_id } = await post('owner', '/agent-drafts', inRed());
    await post('owner', `/agent-drafts/${id}/versions`, { parent_version_id: head_version_id });
    return { draft_id: id, version_id: head_version_id };
  };
  const newFolder = async () => {
    const fields = { name: freshEmail(), parent_id: shared.folder_id };
    return { folder_id: (await post('owner', '/folders', fields)).id };
  };
  const newMember = async () => {
    const fields = { email: freshEmail(), password: 'Correct-horse-1', team_id: cast.redTeamId };
    return { user_id: (await post('orgAdmin', '/entity/members', fields)).user_id };
  };

  /** Make a new resource for each request to a route that deletes or moves it. */
  const fresh: Record<string, () => Promise<Ids>> = {
    deleteDocument: newDocument,
    unlinkDocument: newDocument,
    changeFolder: newFolder,
    deleteFolder: newFolder,
    deleteDraft: newDraft,
    deleteVersion: newDraft,
    changeDraftScope: newDraft,
    removeTeamMember: newMember,
    removeMember: newMember,
    authorizeConnector: newProvider,
    returnFromConnectorConsent: newProvider,
    finishConnectorConsent: newProvider,
    deleteAgent: async () => ({ agent_id: await aPublishedAgent(cast.owner, inRed()) }),
    deleteChat: async () => {
      const { chat_id } = await ask(cast.owner, { agent_id: shared.agent_id, message: 'How?', ...inRed() }, 201);
      return { chat_id };
    },
    deleteConnection: async () => ({ connection_id: await aStoredConnection(stack, cast.owner, 'Reports') }),
    revokeApiKey: async () => ({ key_id: (await anApiKey(cast.orgAdmin, ['read'])).key.id }),
    disableTeam: async () => ({ team_id: (await post('orgAdmin', '/entity/teams', { name: freshEmail() })).id }),
    endSession: async () => {
      const { email: username, password } = cast.owner;
      const { body } = await stack.anonymous.post('/auth/login', { username, password }, 200);
      return { session_id: String(decodeJwt(Object(body).access_token).sid) };
    },
  };

  async function answerOf(route: HttpRoute, caller: Caller, ids: Ids): Promise<number> {
    const given = { ...ids, ...(await fresh[route.operationId]?.()) };
    const leaving = new AbortController();
    const body = bodies[route.operationId]?.(given);
    const { status } = await askRoute(cast[caller], route, given, { body, signal: leaving.signal });
    // Streams have begun to answer.
    leaving.abort();
    return status;
  }

  /** Asks by these callers. @returns where the answer is not the expected one */
  async function wrongAnswers(route: HttpRoute, ids: Ids, expectedOf: (caller: Caller, index: number) => unknown) {
    const wrong: string[] = [];
    for (const [index, caller] of callers.entries()) {
      const verdict = expectedOf(caller, index);
      if (verdict === undefined) continue;
      const status = await answerOf(route, caller, ids);
      const answered = [401, 403, 404].includes(status) ? status : 'ok';
      if (answered !== verdict) wrong.push(`${route.operationId} by ${caller}: ${status}, not ${verdict}`);
    }
    return wrong;
  }

  it('every route except public routes answers 401 to a disabled user and without a token', async () => {
    for (const route of stack.routes) {
      for (const caller of ['disabled', 'anonymous'] as const) {
        if (route.access === 'public' && caller === 'disabled') continue;
        const status = await answerOf(route, caller, { ...shared, code: 'not_found' });
        const message = `${route.operationId} by ${caller}`;
        if (route.access === 'public') expect(status, message).not.oneOf([401, 403, 404]);
        else expect(status, message).equal(401);
      }
    }
  });

  it('every route allows each role on resources of a team exactly what its declared access allows', async () => {
    const wrong: string[] = [];
    for (const route of stack.routes) {
      const names = accessOf(route);
      if (names === 'public') continue;
      // Who may delete the organization is not asked: the other tests need it.
      const leaves = route.operationId === 'deleteOrganization';
      const answers = await wrongAnswers(route, shared, (caller, index) => {
        // On a route that names nothing, an admin of another organization acts on that organization.
        const verdict = caller === 'otherOrganization' && namesThing(route) ? 404 : expected[names][index];
        return leaves && verdict === 'ok' ? undefined : verdict;
      });
      wrong.push(...answers);
    }
    expect(wrong).deep.equal([]);
  });

  it('every route shows personal resources to their owner only', async () => {
    const wrong: string[] = [];
    for (const route of stack.routes) {
      const names = accessOf(route);
      if (route.operationId in fresh || !/^(folder|document|agent|draft|chat|connection|job):/.test(names)) continue;
      wrong.push(...(await wrongAnswers(route, personal, (caller) => (caller === 'owner' ? 'ok' : 404))));
    }
    expect(wrong).deep.equal([]);
  });
});
