import { boolean, json, type Row, shape, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { Tier } from '#src/domain/access/limits.ts';

export type MemberTeam = { teamId: string; isTeamAdmin: boolean; isEntrusted: boolean };

/** A user as their organization knows them, with their live teams. `addedBy` is null for its founder. */
export const member = shape({
  userId: uuid(),
  orgId: uuid(),
  email: text(),
  firstName: text().nullable(),
  lastName: text().nullable(),
  displayName: text(),
  isOrgAdmin: boolean(),
  isDisabled: boolean(),
  addedBy: uuid().nullable(),
  addedAt: timestamp(),
  createdAt: timestamp(),
  teams: json<MemberTeam[]>(),
});

export type Member = Row<typeof member>;

export type MemberList = { orgId: string; tier: Tier; memberLimit: number; items: Member[] };

export type NewMember = {
  email: string;
  password: string;
  displayName: string | undefined;
  isOrgAdmin: boolean;
  /** The first team of the member. */
  team: { teamId: string; isTeamAdmin: boolean } | undefined;
};

export type UserChange = { email?: string | undefined; displayName?: string | undefined };
