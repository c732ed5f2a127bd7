import { expect } from 'chai';
import type { HttpRoute } from '#src/http/routing/route.ts';
import type { Member } from '#test/support/client.ts';
import {
  askRoute,
  badEmails,
  badNames,
  badPasswords,
  badSwitches,
  blankNames,
  bodiesOfRoutes,
  type Ids,
} from '#test/support/route-requests.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const unknownId = '0197f1a0-0000-7000-8000-000000000000';
const noId = ['', 'x', 7, null, [], `${unknownId}0`];
const noText = [7, null, [], {}, 'a\0', '\ud800'];
const noTextButNull = noText.filter((value) => value !== null);
const noList = ['x', 7, {}, null];
const noObject = ['x', 7, [], null];
const noNumber = ['x', null, [], {}, true];
const notOneOf = ['no_such_value', '', 7, null, []];
const listOf = (values: readonly unknown[], tooMany: number, right: unknown) => [
  ...noList,
  ...values.map((value) => [value]),
  Array(tooMany).fill(right),
];
const noIdList = listOf(noId, 1_001, unknownId);
const noWords = listOf(noText, 1_001, 'word');
const noName = [...badNames, ...blankNames];
/** A password that is only compared may break the rule for new ones. */
const noPassword = [...noText, '', 'Aa1-'.repeat(1_000)];
const fileName = ['a\nb', 'x'.repeat(256), ...noText];
const folderName = [...blankNames, '.', '..', ' .. ', 'a/b', 'a\\b', 'a\nb', '\u202eabc', 'x'.repeat(256), ...noText];
/** What stands in paths: nothing that exists, except where a provider is read before the body. */
const idsOf = ({ path }: HttpRoute): Ids => {
  const provider = path.startsWith('/connectors') ? 'acme_drive' : 'brave_search';
  const named: Ids = { provider, round_index: '1', code: 'not_found' };
  return new Proxy(named, { get: (_, name: string) => named[name] ?? unknownId });
};
const goldenCase = { id: 'a', prompt: 'x' };
const manyWords = Object.fromEntries(Array.from({ length: 201 }, (_, n) => [`word${n}`, 1]));

const refusedAsId = (field: string) => (/_id$/.test(field) ? noId : /_ids$/.test(field) ? noIdList : undefined);
const notAnIdInQuery = (field: string) => (field.endsWith('_id') ? ['', 'x', '7'] : undefined);
const each = <Values>(values: Values, names: string): Record<string, Values> =>
  Object.fromEntries(names.split(' ').map((name) => [name, values]));

/**
 * Values that a field of a body refuses, by the field's name, or by operation and name where operations differ. Fields
 * in `_id` and `_ids` take ids. Written by hand from the contract, so that a schema that became too wide is found.
 */
const refused: Record<string, readonly unknown[]> = {
  ...each(
    badSwitches,
    'accept_deletions enable_rag force is_admin is_org_admin is_team_admin promote redo reranking run_golden team_admins_contribute with_documents',
  ),
  ...each(noText, 'agent_prompt evaluator_model folder page path provider'),
  ...each(noWords, 'expandAnchorWords.anchor_words exclude_words words'),
  ...each(noPassword, 'current_password login.password deleteAccount.password'),
  ...each(badNames, 'display_name first_name last_name org_name'),
  ...each(noName, 'createS3Connection.display_name updateProfile.display_name updateUser.display_name name'),
  agent_name: [...noText, 'a\nb', 'x'.repeat(257)],
  'evaluatePromptAdhoc.agent_prompt': [...noText, ''],
  anchor_words: [...noObject, { a: 11 }, { a: 0 }, { a: '1' }, { 'one two three four': 1 }, { '': 1 }, manyWords],
  api_key: [...noText, '', '  ', 'two words', 'line\nbreak', 'x'.repeat(513)],
  case: [...noObject, {}, { input: 7 }, { input: '' }],
  cases: [...noList, [{}], ['x'], [{ input: '' }], Array(21).fill({ input: 'x' })],
  chunking: [...noObject, {}],
  color: ['blue', '#12345', 7, []],
  config: [...noObject, { status: 'active' }, { sync: { enabled: true, interval_minutes: 4 } }],
  'createS3Connection.config': [
    ...[...noObject, {}, { bucket: '../x' }],
    ...['http://user:pass@host', 'ftp://host'].map((endpoint) => ({ bucket: 'reports', endpoint })),
    ...[{ enabled: true }, { enabled: true, interval_minutes: 1 }].map((sync) => ({ bucket: 'reports', sync })),
  ],
  consent_code: [...noText, ''],
  content: [...noText, ' \n'],
  credentials: [
    ...[...noObject, {}, { access_key_id: 'key', secret_access_key: 'two words' }],
    { access_key_id: 'key', secret_access_key: 'secret', password: 'x' },
  ],
  document_scope: [...noObject.filter((value) => value !== null), {}, { folder_ids: noId }, { extra: [] }],
  embedding: [...noObject, {}],
  enabled_tools: [...noList, ['no.such.tool'], [7]],
  error_code: [...noText, '', 'x'.repeat(101)],
  eval_scores: ['x', 7, []],
  expires_at: [7, [], {}, '', 'tomorrow', '2999-01-01', '2020-01-01T00:00:00Z'],
  files: [...noList, [], [{}], ['x'], [{ path: '' }], [{ folder: 'x' }], [{ path: 'x', id: 'y' }]],
  golden_case_ids: [...noList, [7], [null]],
  golden_cases: [...noList, [{}], [{ id: 'a' }], [goldenCase, goldenCase], [{ ...goldenCase, extra: 1 }]],
  icon_name: [7, [], {}, 'a\nb'],
  ingest: [null, 'perhaps', [], {}],
  language: [...noText, '', 'english', 'e', 'en_GB', `en${'-x'.repeat(20)}`],
  max_tokens: [...noNumber, 0, -1, 1.5],
  message: [...noText, '', ' \n\t\u00a0\u2003', 'x'.repeat(100_001)],
  'createFolder.name': folderName,
  'changeFolder.name': folderName,
  'pasteDocument.name': [...fileName, ''],
  'importDocumentFromUrl.name': fileName,
  'changeDocument.name': fileName,
  overlap_tokens: [...noNumber, -1, 1.5, 8_193],
  redirect_uri: [...noText, 'x'],
  refresh_token: [...noText, '', 'x'.repeat(4_000)],
  'setRagConfig.reranking': [...noObject, {}],
  retrieval: [...noObject, {}],
  rubric: [...noText, 'strict'],
  scopes: [...noList, [], ['no_such_scope'], [7], Array(6).fill('read')],
  source_format: [...notOneOf, 'pdf'],
  tags: [...noList, [7], [null], [''], ['x'.repeat(201)]],
  target_tokens: [...noNumber, 0, -1, 1.5, 8_193],
  temperature: [...noNumber, -0.1, 2.1],
  title: [...badNames.filter((value) => value !== badNames[4]), ...blankNames, 'x'.repeat(257)],
  'commitVersion.title': [...noText, 'a\nb', 'x'.repeat(257)],
  url: [...noText, '', 'x', 'http://exam\nple.com/', 'http://a.com/\r\nHost: b', `http://a.com/${'x'.repeat(9_000)}`],
  user_off_topic_streak_threshold: [1],
  user_on_topic_streak_threshold: [1],
  visibility: [...notOneOf, 'public'],
  chat_model: noTextButNull,
  chunking_method: notOneOf,
  reranking_type: notOneOf,
  email: badEmails,
  username: badEmails,
  new_password: badPasswords,
  password: badPasswords,
};

/** Fields without which a body is refused. An empty path is that of a body that changes nothing. */
const required: Record<string, string[]> = {
  register: ['email', 'password'],
  login: ['password'],
  refreshTokens: ['refresh_token'],
  logout: ['refresh_token'],
  changePassword: ['current_password', 'new_password'],
  setPassword: ['password'],
  authorizeSso: ['provider'],
  updateProfile: [''],
  renameOrganization: [''],
  createApiKey: ['name', 'scopes', 'expires_at'],
  rotateApiKey: ['expires_at'],
  createMember: ['email', 'password'],
  setOrgAdmin: ['is_org_admin'],
  updateUser: [''],
  resetPassword: ['new_password'],
  createTeam: ['name'],
  createTeamMember: ['email', 'password'],
  setTeamAdmin: ['is_team_admin'],
};

/** Query parameters. Where a filter takes any text, only its control characters are refused. */
const refusedInQuery: Record<string, readonly string[]> = {
  ...each(['perhaps', ''], 'cascade include_documents include_total mine preview'),
  cursor: ['x', '%00'],
  date_from: ['yesterday', '2026-13-01', '', '0000-01-01', '12026-01-01', '2026-01-01T25:00:00Z'],
  date_to: ['tomorrow', '2026-02-30', ''],
  error_code: ['', 'x'.repeat(101)],
  kind: ['no_such_kind', ''],
  limit: ['0', '-1', '1.5', 'x', '1001', ''],
  'listDocuments.limit': ['0', '101'],
  'listRecentDocuments.limit': ['0', '32'],
  offset: ['-1', '1.5', 'x'],
  // One without the other is refused, too.
  quote_offset: ['-1', '1.5', 'x', '0'],
  quote_length: ['-1', '1.5', 'x', '1'],
  state: ['no_such_state', ''],
  status: ['no_such_status', ''],
};
/** Texts that the service does not read itself, and those whose rules their own tests hold. */
const freeQuery = new Set(['code', 'error', 'format', 'iss', 'login_hint', 'q', 'return_to', 'scopes', 'site_id']);

const fieldsOf = ({ body }: HttpRoute): string[] => {
  const schema = body !== undefined && 'kind' in body ? body.fields : body;
  return Object.keys(Object(schema).shape ?? Object(schema).in?.shape ?? Object(schema).out?.shape ?? {});
};

describe('a request', () => {
  let api: Stack;
  let member: Member;
  let bodies: ReturnType<typeof bodiesOfRoutes>;
  let withJson: HttpRoute[];

  before(async () => {
    api = await stack();
    member = await api.signUp();
    bodies = bodiesOfRoutes('word', {});
    withJson = api.routes.filter((route) => fieldsOf(route).length > 0);
  });

  async function send(route: HttpRoute, body: object | undefined, query?: string) {
    const path = query === undefined ? route.path : `${route.path}?${query}`;
    const answer = await askRoute(member, { ...route, path }, idsOf(route), { body });
    return { status: answer.status, problem: Object(await answer.json().catch(() => ({}))) };
  }

  const rightBody = (route: HttpRoute) => Object(bodies[route.operationId]?.(idsOf(route)) ?? {});
  const isForm = (route: HttpRoute) => Object(route.body).kind === 'multipart';
  const pathsOf = ({ errors = [] }: { errors?: { path: string }[] }) => errors.map(({ path }) => path.split('.')[0]);

  it('with a wrong value in its body gets 422, which names the field', async () => {
    const wrong: string[] = [];
    for (const route of withJson.filter((each) => !isForm(each))) {
      for (const field of fieldsOf(route)) {
        const values = refused[`${route.operationId}.${field}`] ?? refused[field] ?? refusedAsId(field);
        if (values === undefined) wrong.push(`${route.operationId}: no values for ${field}`);
        for (const value of values ?? []) {
          const { status, problem } = await send(route, { ...rightBody(route), [field]: value });
          if (status === 422 && pathsOf(problem).includes(field)) continue;
          wrong.push(
            `${route.operationId}: ${field}=${JSON.stringify(value)?.slice(0, 60)} ${status} ${problem.detail ?? ''}`,
          );
        }
      }
    }
    expect(wrong).deep.equal([]);
  });

  it('without a required field in its body gets 422, which names the field', async () => {
    for (const [operationId, fields] of Object.entries(required)) {
      const [route] = withJson.filter((each) => each.operationId === operationId);
      if (route === undefined) throw new Error(`There is no operation ${operationId}.`);
      const { status, problem } = await send(route, {});
      expect([status, pathsOf(problem)], operationId).deep.equal([422, fields]);
    }
  });

  it('with an unknown field in its body gets 422, which names the field', async () => {
    for (const route of withJson.filter((each) => !isForm(each))) {
      const { status, problem } = await send(route, { ...rightBody(route), no_such_field: 1 });
      expect(status, route.operationId).equal(422);
      expect(problem.errors[0], route.operationId).include({ path: 'no_such_field', code: 'unknown_field' });
    }
  });

  it('gets 400 for broken JSON, 415 for another media type, and 422 for JSON that is no object', async () => {
    for (const route of withJson.filter((each) => !isForm(each))) {
      const ids = idsOf(route);
      const path = route.path.replaceAll(/:(\w+)/g, (_, name: string) => ids[name] ?? '');
      const statusOf = async (type: string, body: string) => {
        const answer = await member.raw(path, {
          method: route.method.toUpperCase(),
          headers: { 'content-type': type },
          body,
        });
        await answer.arrayBuffer();
        return answer.status;
      };
      expect(await statusOf('application/json', '{"a":'), route.operationId).equal(400);
      expect(await statusOf('text/plain', '{}'), route.operationId).equal(415);
      for (const text of ['null', '[]', '"text"', '7']) {
        expect(await statusOf('application/json', text), `${route.operationId} ${text}`).equal(422);
      }
    }
  });

  it('with a wrong or unknown query parameter gets 422, which names the parameter', async () => {
    const wrong: string[] = [];
    for (const route of api.routes) {
      for (const field of Object.keys(Object(route.query).shape ?? {})) {
        if (freeQuery.has(field) || route.access === 'public') continue;
        const values =
          refusedInQuery[`${route.operationId}.${field}`] ?? refusedInQuery[field] ?? notAnIdInQuery(field);
        if (values === undefined) wrong.push(`${route.operationId}: no values for ${field}`);
        for (const value of values ?? []) {
          const { status, problem } = await send(route, undefined, `${field}=${value}`);
          if (status === 422 || (field === 'cursor' && status === 400)) continue;
          wrong.push(`${route.operationId}: ?${field}=${value} ${status} ${problem.detail ?? ''}`);
        }
      }
      const { status } = await send(route, undefined, 'no_such_parameter=1');
      if (status !== 422) wrong.push(`${route.operationId}: ?no_such_parameter ${status}`);
    }
    expect(wrong).deep.equal([]);
  });

  it('with a malformed id in its path gets 404', async () => {
    for (const route of api.routes.filter(({ path, access }) => /:\w+_id/.test(path) && access !== 'public')) {
      const path = route.path.replaceAll(/:\w+/g, 'no-id');
      const { status } = await send({ ...route, path }, bodies[route.operationId]?.(idsOf(route)));
      expect(status, route.operationId).equal(404);
    }
  });
});
