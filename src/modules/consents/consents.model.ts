import { model } from '#src/adapters/postgres/base-model.ts';
import { bytea, type Row, text, textArray, timestamp, uuid } from '#src/adapters/postgres/columns.ts';

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
    /** Of a provider that keeps files by sites; null elsewhere. */
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

/** What somebody wants a provider's consent for; the callback of one takes no state of another. */
export type ConsentPurpose = 'tools' | 'connectors';

/** What is remembered of a consent that is under way at a provider. */
export type ConsentFacts = Omit<Row<typeof OauthStateModel>, 'stateHash' | 'codeVerifier' | 'expiresAt'>;

/** The same, once its state has come back; it exists nowhere else any more. One that is not fresh gives no rights. */
export type Consent = ConsentFacts & { codeVerifier: string; isFresh: boolean };
