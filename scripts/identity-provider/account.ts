/** Somebody who can sign in at the provider, as it stands in `accounts.json`. */
export type ProviderAccount = {
  /** Who it is, for good: never shown to him, and never given to another. */
  sub: string;
  /** What he signs in with. Without `email` among the claims it is still that. */
  login: string;
  /** As it is typed: these accounts are for trying out, and their owner has to read it somewhere. */
  password: string;
  /** What clients are told of him: `email`, `email_verified`, `given_name`, `family_name`, `name`, `picture`. */
  claims: Readonly<Record<string, unknown>>;
};
