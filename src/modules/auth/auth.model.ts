import type { Tier } from '#src/domain/tiers.ts';

/** A user with the organization that he belongs to. */
export type Account = {
  userId: string;
  email: string;
  passwordHash: string | null;
  firstName: string | null;
  lastName: string | null;
  displayName: string;
  isDisabled: boolean;
  orgId: string;
  orgName: string;
  tier: Tier;
  isOrgAdmin: boolean;
};

/** A person who is about to get an account. */
export type NewUser = {
  userId: string;
  email: string;
  /** Null for who comes by external sign-in only. */
  passwordHash: string | null;
  firstName: string | null;
  lastName: string | null;
  displayName: string;
};

/** `addedBy` is null for who has founded the organization. */
export type NewMembership = { orgId: string; isOrgAdmin: boolean; addedBy: string | null };

/** What a sign-in gives. */
export type SignIn = {
  accessToken: string;
  expiresInSeconds: number;
  refreshToken: string;
  account: Account;
  isNewUser: boolean;
};
