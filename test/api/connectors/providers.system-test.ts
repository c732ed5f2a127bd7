import {
  createsConnectionOnConsent,
  mirrorsChanges,
  otherProviders,
  type ProviderCase,
  renewsTokenOnceForConcurrentCallers,
  reportsRevokedGrantOnRefresh,
  revokesGrantOnDelete,
} from '#test/support/connector-provider-cases.ts';
import { importStack } from '#test/support/import-stack.ts';

const cases: Readonly<Record<string, (own: ProviderCase) => Promise<void>>> = {
  'is created on consent': createsConnectionOnConsent,
  'renews its access token once for concurrent callers': renewsTokenOnceForConcurrentCallers,
  'reports a revoked grant as needs_reauth on refresh, once in the audit log': reportsRevokedGrantOnRefresh,
  'mirrors edits, renames, moves, deletions and restorations': mirrorsChanges,
  'is deleted, and revokes its grant if the provider has an endpoint for it': revokesGrantOnDelete,
};

for (const provider of otherProviders) {
  describe(`a connection to ${provider}`, () => {
    for (const [title, check] of Object.entries(cases)) {
      it(title, async () => {
        const api = await importStack();
        await check({ api, member: await api.signUp(), provider });
      });
    }
  });
}
