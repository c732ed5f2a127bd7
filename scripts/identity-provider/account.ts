export type ProviderAccount = {
  /** Stable subject identifier: never reused, and never shown to the user. */
  sub: string;
  /** The name that the user signs in with, even if the claims have no `email`. */
  login: string;
  /** Plain-text password: the accounts are for trials, and their owner must be able to look the password up. */
  password: string;
  /** Claims that clients get: `email`, `email_verified`, `given_name`, `family_name`, `name`, `picture`. */
  claims: Readonly<Record<string, unknown>>;
};
