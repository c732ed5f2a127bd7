/**
 * Turns passwords into hashes that say how they were made. Turns of owners go round: an owner is an organization, or the
 * network of a client that is not signed in. Throws `service_unavailable` when an owner asks for too much at once.
 */
export type PasswordHasher = {
  hash(password: string, owner: string): Promise<string>;
  /** Takes the same time whether there is a hash to compare with or not (null: an unknown account); then it is false. */
  verify(hash: string | null, password: string, owner: string): Promise<boolean>;
  /** Was it made with other parameters than `hash` takes now? */
  isOutdated(hash: string): boolean;
};
