/** What somebody wants a provider's consent for; the callback of one takes no state of another. */
export type ConsentPurpose = 'tools' | 'connectors';

/** A consent that is under way at a provider. `codeVerifier` is sealed for the row. */
export type ConsentRow = {
  stateHash: Buffer;
  orgId: string;
  userId: string;
  purpose: ConsentPurpose;
  provider: string;
  codeVerifier: string;
  redirectUri: string;
  scopes: string[];
  /** Of a provider that keeps files by sites; null elsewhere. */
  siteId: string | null;
  returnTo: string | null;
};

/** The same, once its state has come back; it exists nowhere else any more. One that is not fresh gives no rights. */
export type Consent = Omit<ConsentRow, 'stateHash'> & { isFresh: boolean };
