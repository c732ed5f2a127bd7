/** `isStale`: encrypted with an inactive key; encrypt it again when it is next stored. */
type DecryptedSecret = { secret: string; isStale: boolean };

export type SecretCipher = {
  /** Id of the key that encrypts; each ciphertext begins with the id of its key and a colon. */
  readonly activeKeyId: string;
  /** @param associatedData identifies row and column of the secret: copied to another row, it cannot be decrypted */
  encrypt(secret: string, associatedData: string): string;
  /** Throws `credentials_unreadable` for an unknown key, other associated data or changed ciphertext. */
  decrypt(encrypted: string, associatedData: string): DecryptedSecret;
};
