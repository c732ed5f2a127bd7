/** A stale secret is encrypted with a key that is no longer active; encrypt it again when it is next stored. */
export type DecryptedSecret = { secret: string; isStale: boolean };

export type SecretCipher = {
  /** Ciphertexts begin with the id of their key and a colon. */
  readonly activeKeyId: string;
  /** `place` (row and column) is bound to the ciphertext as associated data, so it cannot be decrypted elsewhere. */
  encrypt(secret: string, place: string): string;
  /** Throws `credentials_unreadable` for an unknown key, another `place`, or a ciphertext that was changed. */
  decrypt(encrypted: string, place: string): DecryptedSecret;
};
