import type { Tier } from '#src/domain/tiers.ts';

export type Profile = {
  userId: string;
  email: string;
  firstName: string | null;
  lastName: string | null;
  displayName: string;
  hasPassword: boolean;
  /** He has uploaded one. */
  hasAvatar: boolean;
  /** Where his identity provider shows a picture of him. */
  avatarUrl: string | null;
};

/** What is undefined stays; null takes a name away. */
export type ProfileChange = {
  firstName?: string | null | undefined;
  lastName?: string | null | undefined;
  displayName?: string | undefined;
};

export type Membership = {
  orgId: string;
  orgName: string;
  tier: Tier;
  userId: string;
  isOrgAdmin: boolean;
  teams: { teamId: string; name: string; isTeamAdmin: boolean; addedAt: Date }[];
};
