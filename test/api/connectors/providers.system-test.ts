import type { Member } from '#test/support/client.ts';
import {
  browsesPages,
  createsConnectionOnConsent,
  encryptsVerifierAndHashesState,
  importsAndSkipsUnchangedFiles,
  keepsAndRemovesSchedule,
  mirrorsChanges,
  needsReauthWhenBrowseFindsRevokedGrant,
  otherProviders,
  type ProviderCase,
  passesOutageAndRetryAfterToBrowser,
  reactivatesConnectionOnRepeatedConsent,
  renewsTokenOnceForConcurrentCallers,
  reportsRevokedGrantOnRefresh,
  revokesGrantOnDelete,
  staysActiveWhenRefreshFindsOutage,
} from '#test/support/connector-provider-cases.ts';
import type { ConnectorStack } from '#test/support/connector-stack.ts';
import { importStack } from '#test/support/import-stack.ts';

const cases: Readonly<Record<string, (own: ProviderCase) => Promise<void>>> = {
  'returns the consent page with a PKCE challenge and a state, and stores neither in plain text':
    encryptsVerifierAndHashesState,
  'creates the connection on consent': createsConnectionOnConsent,
  'reactivates the connection when the same account consents again': reactivatesConnectionOnRepeatedConsent,
  'renews the access token once for concurrent callers': renewsTokenOnceForConcurrentCallers,
  'sets and removes the sync schedule': keepsAndRemovesSchedule,
  'reports a revoked grant as needs_reauth on refresh, once in the audit log': reportsRevokedGrantOnRefresh,
  'keeps the connection active when a refresh meets a provider outage': staysActiveWhenRefreshFindsOutage,
  'lists folders and files page by page': browsesPages,
  'marks the connection as needs_reauth when a listing finds the grant revoked': needsReauthWhenBrowseFindsRevokedGrant,
  'answers 503 to a listing during a provider outage, and with Retry-After when throttled':
    passesOutageAndRetryAfterToBrowser,
  'deletes the connection, and revokes its grant if the provider has an endpoint for it': revokesGrantOnDelete,
  'imports files and folders, and reports them as unchanged the next time': importsAndSkipsUnchangedFiles,
  'mirrors edits, renames, moves, deletions and restorations': mirrorsChanges,
};

for (const provider of otherProviders) {
  describe(`connections to ${provider}`, () => {
    let api: ConnectorStack;
    let member: Member;
    before(async () => {
      api = await importStack();
    });
    beforeEach(async () => {
      member = await api.signUp();
    });

    for (const [title, check] of Object.entries(cases)) it(title, () => check({ api, member, provider }));
  });
}
