import { model } from '#src/adapters/postgres/base-model.ts';
import { bytea, type Row, text, textArray, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';

export class OauthStateModel extends model(
  'oauth_states',
  {
    stateHash: bytea(),
    orgId: uuid(),
    userId: uuid(),
    purpose: text<ConsentPurpose>(),
    provider: text(),
    codeVerifier: text(),
    redirectUri: text(),
    scopes: textArray(),
    returnTo: text().nullable(),
    expiresAt: timestamp(),
    /** SharePoint site of the connection; null for other providers. */
    siteId: text().nullable(),
  },
  'stateHash',
) {}

export class SignInStateModel extends model(
  'sign_in_states',
  {
    stateHash: bytea(),
    nonce: text(),
    codeVerifier: text(),
    redirectUri: text(),
    expiresAt: timestamp(),
  },
  'stateHash',
) {}

/** Purpose of an OAuth consent. The callback of one purpose rejects the `state` of another. */
export type ConsentPurpose = 'tools' | 'connectors';

export type PendingConsent = Omit<Row<typeof OauthStateModel>, 'stateHash' | 'codeVerifier' | 'expiresAt'>;

/**
 * A finished OAuth consent; its stored `state` is deleted, so that it works only once. If `isFresh` is false, it has
 * expired and must be rejected.
 */
export type Consent = PendingConsent & { codeVerifier: string; isFresh: boolean };
