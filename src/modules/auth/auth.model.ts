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

export type NewAccount = {
  userId: string;
  orgId: string;
  orgName: string;
  email: string;
  passwordHash: string;
  firstName: string | null;
  lastName: string | null;
  displayName: string;
};

/** What a sign-in gives. */
export type SignIn = {
  accessToken: string;
  expiresInSeconds: number;
  refreshToken: string;
  account: Account;
  isNewUser: boolean;
};
