import { model } from '#src/adapters/postgres/base-model.ts';
import { boolean, text, timestamp, uuid } from '#src/adapters/postgres/columns.ts';
import type { Tier } from '#src/domain/tiers.ts';

export class TeamModel extends model('teams', {
  id: uuid(),
  orgId: uuid(),
  name: text(),
  disabledAt: timestamp().nullable(),
  createdAt: timestamp(),
}) {}

export class TeamMembershipModel extends model(
  'team_memberships',
  {
    orgId: uuid(),
    teamId: uuid(),
    userId: uuid(),
    isTeamAdmin: boolean(),
    addedBy: uuid().nullable(),
    addedAt: timestamp(),
    isEntrusted: boolean(),
  },
  ['teamId', 'userId'],
) {}

export type Team = { id: string; orgId: string; name: string; createdAt: Date };

export type TeamList = { orgId: string; tier: Tier; items: Team[] };

/** A member of a team; `addedBy` and `addedAt` say how he came to the team. */
export type TeamMember = {
  userId: string;
  email: string;
  displayName: string;
  isTeamAdmin: boolean;
  isDisabled: boolean;
  addedBy: string | null;
  addedAt: Date;
};

export type TeamMemberList = { teamId: string; tier: Tier; items: TeamMember[] };

/** `isEntrusted` as in the policy: the team's admins manage the account. */
export type NewTeamMember = {
  orgId: string;
  teamId: string;
  userId: string;
  isTeamAdmin: boolean;
  isEntrusted: boolean;
  addedBy: string;
};
