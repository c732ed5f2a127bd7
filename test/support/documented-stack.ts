import { previewWorkflowId } from '#src/contracts/workflow-ids.ts';
import {
  aComparison,
  aFolder,
  anIngestedDocument,
  anUpload,
  aPublishedAgent,
  ask,
  commitVersion,
  freshEmail,
  rootOf,
} from './builders.ts';
import type { ApiClient, Member } from './client.ts';
import { consentAt, finishConsent } from './consents.ts';
import { docxFile, docxParagraph } from './document-fixtures.ts';
import { exportOf } from './exported.ts';
import { startFakeGotenberg } from './fake-document-services.ts';
import { startFakeDrive } from './fake-drive.ts';
import { startIdentityProvider } from './identity-provider.ts';
import { gifOfFrames, uploadAvatar } from './images.ts';
import { isForJudge, verdictText } from './scripted-judge.ts';
import { startScriptedModel } from './scripted-model.ts';
import { stoppedIngestion } from './scripted-stack.ts';
import { signInAtProvider } from './sign-in-at-provider.ts';
import { signUpAt, startStack } from './stack.ts';
import { startToolProviders } from './tool-stack.ts';
import { untilJob } from './until-job.ts';

export type DocumentedStack = Awaited<ReturnType<typeof startDocumentedStack>>;

const signedInUrl = 'https://app.example.com/signed-in';
const persona = 'You answer questions about returns and shipping from the documents. Be brief.';
const text = '# Returns\n\nGoods can be returned within 30 days of delivery.\n\n# Shipping\n\nWe ship to Norway.';

/** A deployment on which everything is configured, by fakes on this machine. All its workers run. */
export async function startDocumentedStack() {
  const [model, provider, drive, gotenberg, tools] = await Promise.all([
    startScriptedModel(),
    startIdentityProvider({ redirectOrigins: [new URL(signedInUrl).origin] }),
    startFakeDrive(),
    startFakeGotenberg({ pages: ['The lease of the office begins in March.'] }),
    startToolProviders(),
  ]);
  model.behave((request) => {
    const answer = 'Goods can be returned within 30 days of delivery [1].';
    return { kind: 'answer', text: isForJudge(request) ? verdictText(request) : answer };
  });
  const settings = {
    ...{ ...model.settings, ...provider.settings, ...tools.settings, SSO_REDIRECT_URI: signedInUrl },
    SSO_REDIRECT_ORIGINS: new URL(signedInUrl).origin,
    ...{ ACME_DRIVE_BASE_URL: drive.baseUrl, ACME_DRIVE_CLIENT_ID: drive.client.id },
    ...{ ACME_DRIVE_CLIENT_SECRET: drive.client.secret, GOTENBERG_URL: gotenberg.url },
    ...{ EGRESS_ALLOW: `${drive.place},${tools.place}`, ECHO_WAIT_MS: '10000' },
  };
  const stack = await startStack(settings, { workers: 'all', schedules: true });
  drive.tree.add('Handbook.md', text);
  return {
    ...stack,
    ...{ model, drive, brave: tools.brave },
    /** @returns the access token of a new user who has no password */
    async signInAtProvider(): Promise<string> {
      const account = provider.addAccount({ givenName: 'Sophie', familyName: 'Wilson' });
      const { body: begun } = await stack.anonymous.post('/auth/sso/authorize', { provider: 'acme' }, 200);
      const { search } = await signInAtProvider(Object(begun).authorization_url, account);
      return Object((await stack.anonymous.get(`/auth/sso/callback${search}`, 200)).body).access_token;
    },
    async close() {
      // Must come first: on shutdown the worker waits for running activities, which may wait for Gotenberg.
      await gotenberg.close();
      await stack.close();
      await Promise.all([model, provider, drive, tools.brave, tools.google].map((part) => part.close()));
    },
  };
}

/** An org admin who has one of everything, so that each list that the page of the documentation reads has an entry. */
export async function aDocumentedAdmin(stack: DocumentedStack): Promise<Member> {
  const ada = await signUpAt(stack.anonymous, 'Ada');
  await stack.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
  await uploadAvatar(ada, gifOfFrames(1), 200);
  await ada.post('/auth/login', { username: ada.email, password: ada.password }, 200);
  await aTeamWithMember(ada);
  await someDocuments(stack, ada);
  await anAgentWithChat(ada);
  await finishConsent(stack, ada, await consentAt(stack.drive, ada, '/connectors/oauth/acme_drive'));
  await aSyncedConnection(ada);
  await ada.post('/agents/tools/brave_search/connection', { api_key: stack.brave.newKey() }, 204);
  await exportOf(ada);
  await ada.post('/entity/org/api-keys', { name: 'Nightly import', scopes: ['ingest'], expires_at: null }, 201);
  return ada;
}

async function aTeamWithMember(ada: ApiClient): Promise<void> {
  const { id } = Object((await ada.post('/entity/teams', { name: 'Support desk' }, 201)).body);
  const person = { email: freshEmail('grace'), password: 'Correct-horse-1', display_name: 'Grace Hopper' };
  await ada.post('/entity/members', { ...person, team_id: id }, 201);
}

/** Ends with the document that is listed first. */
async function someDocuments(stack: DocumentedStack, ada: Member): Promise<void> {
  await stoppedIngestion(stack, ada, 'failed');
  for (let parked = 0; parked < 2; parked += 1) await stoppedIngestion(stack, ada, 'parked');
  const content = new Uint8Array(docxFile(docxParagraph('The lease of the office begins in March.')));
  const { id } = await anUpload(ada, { name: 'Lease.docx', content });
  await untilJob(ada, `ingest-${id}-1`, 'succeeded');
  await untilJob(ada, previewWorkflowId(id, 1), 'succeeded');
  await aFolder(ada, await rootOf(ada, 'personal_root'), 'Archive');
  await anIngestedDocument(ada, 'Returns', text);
}

async function anAgentWithChat(ada: ApiClient): Promise<void> {
  const anchors = { returns: 5, shipping: 5, delivery: 3 };
  const question = 'Within how many days can goods be returned?';
  const golden_cases = [{ id: 'days', prompt: question, reference_answer: 'Within 30 days of delivery.' }];
  const fields = { agent_name: 'Returns desk', agent_prompt: persona, anchor_words: anchors };
  const agent_id = await aPublishedAgent(ada, fields);
  const { id, head_version_id } = Object((await ada.get('/agent-drafts', 200)).body).items[0];
  const version = await commitVersion(ada, id, { parent_version_id: head_version_id, golden_cases });
  const evaluation = `/agent-drafts/${id}/versions/${version.id}/eval/start`;
  await ada.post(evaluation, { run_golden: true }, 200, { prefer: 'wait=60' });
  await aComparison(ada, { draft_id: id, version_id: version.id }, { run_golden: true });
  const { postprocess_job_id } = await ask(ada, { agent_id, message: question }, 201);
  await untilJob(ada, postprocess_job_id, 'succeeded');
}

async function aSyncedConnection(ada: ApiClient): Promise<void> {
  const { id } = Object((await ada.get('/connectors/connections', 200)).body).items[0];
  const sync = { enabled: true, interval_minutes: 60 };
  await ada.patch(`/connectors/connections/${id}`, { config: { sync } }, 200);
}
