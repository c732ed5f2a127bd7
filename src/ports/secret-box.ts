/** A secret that was opened. `isStale`: another key seals by now, so it is to be sealed anew when it is next stored. */
export type OpenedSecret = { secret: string; isStale: boolean };

/**
 * Keeps secrets unreadable where they are stored (AES-256-GCM). What is sealed for one place opens nowhere else, so that
 * a row's secret is worth nothing in another row.
 */
export type SecretBox = {
  /** The id of the key that seals; it stands before what it has sealed, with a colon between them. */
  readonly sealingKeyId: string;
  /** @param place names the row and the column, the same to open it */
  seal(secret: string, place: string): string;
  /** Throws `credentials_unreadable` for a key that is not there, another place, and what was tampered with. */
  open(sealed: string, place: string): OpenedSecret;
};
