import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  byteaColumn,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';

export class OauthStateModel extends tableModel(
  'oauth_states',
  {
    stateHash: byteaColumn(),
    orgId: uuidColumn(),
    userId: uuidColumn(),
    purpose: textColumn<OAuthConsentPurpose>(),
    provider: textColumn(),
    codeVerifier: textColumn(),
    redirectUri: textColumn(),
    scopes: textArrayColumn(),
    returnTo: textColumn().nullable(),
    expiresAt: timestampColumn(),
    siteId: textColumn().nullable(),
  },
  'stateHash',
) {}

export class SignInStateModel extends tableModel(
  'sign_in_states',
  {
    stateHash: byteaColumn(),
    nonce: textColumn(),
    codeVerifier: textColumn(),
    redirectUri: textColumn(),
    expiresAt: timestampColumn(),
  },
  'stateHash',
) {}

/** Purpose of an OAuth consent. The callback of one purpose rejects the `state` of another. */
export type OAuthConsentPurpose = 'tools' | 'connectors';

export type PendingOAuthConsent = Omit<SqlRow<typeof OauthStateModel>, 'stateHash' | 'codeVerifier' | 'expiresAt'>;

/**
 * Data of an OAuth consent that was finished and whose stored `state` was deleted. If `isFresh` is false, the consent
 * has expired and must be rejected.
 */
export type FinishedOAuthConsent = PendingOAuthConsent & { codeVerifier: string; isFresh: boolean };
