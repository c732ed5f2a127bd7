import { createHash, randomBytes } from 'node:crypto';
import { returnAddress } from '#src/domain/return-address.ts';
import type { RequestActor } from '#src/domain/visibility.ts';
import { type AppError, appError, fieldError } from '#src/errors.ts';
import type { Db } from '#src/ports/database.ts';
import type { OAuthClient, OAuthProvider } from '#src/ports/oauth-client.ts';
import type { SecretBox } from '#src/ports/secret-box.ts';
import type { Consent, ConsentPurpose } from './consents.model.ts';
import { createConsentsRepository } from './consents.repository.ts';

const stateBytes = 32;

export type ConsentWish = {
  purpose: ConsentPurpose;
  provider: string;
  settings: OAuthProvider;
  /** The callback, as the provider knows it. */
  redirectUri: string;
  scopes: readonly string[];
  /** As the client has sent it; the browser ends at the callback without one. */
  returnTo: string | undefined;
  /** Where the API is, for a deployment that has not said where its users are. */
  publicUrl: string;
};

/**
 * Consents of users that a provider gives us rights: what is remembered between sending somebody there and his coming
 * back. A state works once, for ten minutes, for what it was made for.
 */
export function createConsentsService(deps: {
  db: Db;
  oauth: OAuthClient;
  secrets: SecretBox;
  /** Where users may be sent back to. `frontendUrl` is null where the API's own origin has their pages. */
  frontend: { frontendUrl: string | null; origins: readonly string[] };
}) {
  const { db, oauth, secrets, frontend } = deps;

  function addressOf({ returnTo, publicUrl }: ConsentWish): string | null {
    if (returnTo === undefined) return null;
    const home = frontend.frontendUrl ?? new URL(publicUrl).origin;
    const address = returnAddress(returnTo, { home, origins: frontend.origins });
    if (address === null) throw fieldError('return_to', 'must be a path, or an address of an allowed origin', 'origin');
    return address;
  }

  function verifierOf(stateHash: Buffer, sealed: string): string {
    try {
      return secrets.open(sealed, placeOf(stateHash)).secret;
    } catch (cause) {
      // Its key went out of the settings in the meantime.
      throw lost(cause);
    }
  }

  return {
    /** The address at which the caller gives his consent. Throws `validation_failed` for where he may not return to. */
    async begin({ orgId, userId }: RequestActor, wish: ConsentWish): Promise<string> {
      const { purpose, provider, settings, redirectUri, scopes } = wish;
      const returnTo = addressOf(wish);
      const state = randomBytes(stateBytes).toString('base64url');
      const stateHash = hashOf(state);
      const codeVerifier = oauth.newCodeVerifier();
      await createConsentsRepository(db).insert({
        stateHash,
        orgId,
        userId,
        purpose,
        provider,
        codeVerifier: secrets.seal(codeVerifier, placeOf(stateHash)),
        redirectUri,
        scopes: [...scopes],
        returnTo,
      });
      return oauth.authorizeUrl(settings, { state, codeVerifier, redirectUri, scopes });
    },

    /**
     * Uses a state up. Throws `consent_invalid` unless it was made for this; of one that is too old (`isFresh`) the
     * caller still learns where its browser goes.
     */
    async take(state: string, made: { purpose: ConsentPurpose; provider: string }): Promise<Consent> {
      const row = await createConsentsRepository(db).take(hashOf(state));
      if (row === undefined || row.purpose !== made.purpose || row.provider !== made.provider) throw lost();
      const { stateHash, codeVerifier, ...consent } = row;
      return { ...consent, codeVerifier: verifierOf(stateHash, codeVerifier) };
    },

    /** A step of the sweeper. */
    async deleteExpired(): Promise<void> {
      await createConsentsRepository(db).deleteExpired();
    },
  };
}

export type ConsentsService = ReturnType<typeof createConsentsService>;

function lost(cause?: unknown): AppError {
  return appError('consent_invalid', { detail: 'Begin the consent once more.', cause });
}

function hashOf(state: string): Buffer {
  return createHash('sha256').update(state).digest();
}

function placeOf(stateHash: Buffer): string {
  return `oauth_states/${stateHash.toString('hex')}`;
}
