/** Turns passwords into hashes that say how they were made. */
export type PasswordHasher = {
  hash(password: string): Promise<string>;
  /** Takes the same time whether there is a hash to compare with or not (null: an unknown account); then it is false. */
  verify(hash: string | null, password: string): Promise<boolean>;
  /** Was it made with other parameters than `hash` takes now? */
  isOutdated(hash: string): boolean;
};
