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
    /** SharePoint site; null for other providers. */
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

/** What a consent is for. The callback of one purpose accepts no state of another. */
export type ConsentPurpose = 'tools' | 'connectors';

/** State of a consent while the user is at the provider. */
export type ConsentFacts = Omit<Row<typeof OauthStateModel>, 'stateHash' | 'codeVerifier' | 'expiresAt'>;

/** A consent whose state was deleted. If `isFresh` is false it has expired: refuse it. */
export type Consent = ConsentFacts & { codeVerifier: string; isFresh: boolean };
