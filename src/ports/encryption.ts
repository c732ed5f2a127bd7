/** A stale secret is encrypted with a key that is no longer active; encrypt it again when it is next stored. */
type DecryptedSecret = { secret: string; isStale: boolean };

export type SecretCipher = {
  /** Ciphertexts begin with the id of their key and a colon. */
  readonly activeKeyId: string;
  /** @param associatedData row and column of the secret: in another row it cannot be decrypted */
  encrypt(secret: string, associatedData: string): string;
  /** Throws `credentials_unreadable` for an unknown key, other associated data, or a ciphertext that was changed. */
  decrypt(encrypted: string, associatedData: string): DecryptedSecret;
};
