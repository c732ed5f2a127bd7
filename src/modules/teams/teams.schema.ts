import { z } from 'zod';
import { nameField, tierField, uuidField } from '#src/http/request/fields.ts';
import type { Team, TeamList, TeamMember, TeamMemberList } from './teams.model.ts';

export const createTeamBody = z.strictObject({ name: nameField });
export const addTeamMemberBody = z.strictObject({ is_team_admin: z.boolean().default(false) });
export const teamAdminBody = z.strictObject({ is_team_admin: z.boolean() });

export const teamSchema = z
  .strictObject({ id: uuidField, org_id: uuidField, name: z.string(), created_at: z.iso.datetime() })
  .meta({ id: 'Team' });

export const teamListSchema = z
  .strictObject({ org_id: uuidField, tier: tierField, items: z.array(teamSchema) })
  .meta({ id: 'TeamList' });

export const teamMemberSchema = z
  .strictObject({
    user_id: uuidField,
    email: z.string(),
    display_name: z.string(),
    is_team_admin: z.boolean(),
    disabled: z.boolean(),
    added_by: uuidField.nullable(),
    added_at: z.iso.datetime(),
  })
  .meta({ id: 'TeamMember' });

export const teamMemberListSchema = z
  .strictObject({ team_id: uuidField, tier: tierField, items: z.array(teamMemberSchema) })
  .meta({ id: 'TeamMemberList' });

export function toTeamDto(team: Team): z.infer<typeof teamSchema> {
  return { id: team.id, org_id: team.orgId, name: team.name, created_at: team.createdAt.toISOString() };
}

export function toTeamListDto({ orgId, tier, items }: TeamList): z.infer<typeof teamListSchema> {
  return { org_id: orgId, tier, items: items.map(toTeamDto) };
}

export function toTeamMemberDto(member: TeamMember): z.infer<typeof teamMemberSchema> {
  return {
    user_id: member.userId,
    email: member.email,
    display_name: member.displayName,
    is_team_admin: member.isTeamAdmin,
    disabled: member.isDisabled,
    added_by: member.addedBy,
    added_at: member.addedAt.toISOString(),
  };
}

export function toTeamMemberListDto({ teamId, tier, items }: TeamMemberList): z.infer<typeof teamMemberListSchema> {
  return { team_id: teamId, tier, items: items.map(toTeamMemberDto) };
}
