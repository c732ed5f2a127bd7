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

/** Purpose of an OAuth consent. The callback of one purpose rejects states of another. */
export type ConsentPurpose = 'tools' | 'connectors';

/** OAuth consent that is in progress while the user is at the provider. */
export type ConsentFacts = Omit<Row<typeof OauthStateModel>, 'stateHash' | 'codeVerifier' | 'expiresAt'>;

/**
 * A finished OAuth consent; its stored state is deleted, so that it works only once. Reject it as expired if `isFresh`
 * is false.
 */
export type Consent = ConsentFacts & { codeVerifier: string; isFresh: boolean };
