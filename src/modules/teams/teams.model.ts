import { model } from '#src/adapters/postgres/base-model.ts';
import { boolean, pick, type Row, shape, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { OrganizationTier } from '#src/domain/access/limits.ts';

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

const team = pick(TeamModel, 'id', 'orgId', 'name', 'createdAt');

export type Team = Row<typeof team>;

export type TeamList = { orgId: string; tier: OrganizationTier; items: Team[] };

/** A member of a team. `addedBy` and `addedAt` are about joining the team, not the organization. */
export const teamMemberShape = shape({
  userId: uuid(),
  email: text(),
  displayName: text(),
  isTeamAdmin: boolean(),
  isDisabled: boolean(),
  addedBy: uuid().nullable(),
  addedAt: timestamp(),
});

export type TeamMember = Row<typeof teamMemberShape>;

export type TeamMemberList = { teamId: string; tier: OrganizationTier; items: TeamMember[] };

/** `isEntrusted`: whether admins of the team may manage the user's account. */
export type NewTeamMember = {
  orgId: string;
  teamId: string;
  userId: string;
  isTeamAdmin: boolean;
  isEntrusted: boolean;
  addedBy: string;
};
