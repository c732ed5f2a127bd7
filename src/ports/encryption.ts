/**
 * `isStale`: the secret is encrypted with a key that is no longer active, and should be encrypted again when it is next
 * stored.
 */
type DecryptedSecret = { secret: string; isStale: boolean };

export type SecretCipher = {
  /** Id of the key that encrypts; each ciphertext begins with the id of its key and a colon. */
  readonly activeKeyId: string;
  /** @param associatedData identifies row and column of the secret: copied to another row, it cannot be decrypted */
  encrypt(secret: string, associatedData: string): string;
  /**
   * Decrypts a secret. Throws `credentials_unreadable` if the key is unknown, the associated data differs, or the
   * ciphertext was changed.
   */
  decrypt(encrypted: string, associatedData: string): DecryptedSecret;
};
