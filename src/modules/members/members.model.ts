import type { Tier } from '#src/domain/tiers.ts';

export type MemberTeam = { teamId: string; isTeamAdmin: boolean; isEntrusted: boolean };

/** A user as his organization knows him, with the live teams that he is in. `addedBy` is null for its founder. */
export type Member = {
  userId: string;
  orgId: string;
  email: string;
  firstName: string | null;
  lastName: string | null;
  displayName: string;
  isOrgAdmin: boolean;
  isDisabled: boolean;
  addedBy: string | null;
  addedAt: Date;
  createdAt: Date;
  teams: MemberTeam[];
};

export type MemberList = { orgId: string; tier: Tier; memberLimit: number; items: Member[] };

export type NewMember = {
  email: string;
  password: string;
  displayName: string | undefined;
  isOrgAdmin: boolean;
  /** The team that he starts in. */
  team: { teamId: string; isTeamAdmin: boolean } | undefined;
};

export type UserChange = { email?: string | undefined; displayName?: string | undefined };
