/** `isStale`: encrypted with a key that is no longer the active one; encrypt it again when it is next stored. */
export type DecryptedSecret = { secret: string; isStale: boolean };

/** Encrypts stored secrets (AES-256-GCM). */
export type SecretCipher = {
  /** Id of the key that encrypts. Ciphertexts begin with the id of their key and a colon. */
  readonly activeKeyId: string;
  /** @param associatedData row and column of the secret: in another row it cannot be decrypted */
  encrypt(secret: string, associatedData: string): string;
  /** Throws `credentials_unreadable` for an unknown key, other associated data, or a ciphertext that was changed. */
  decrypt(encrypted: string, associatedData: string): DecryptedSecret;
};
