import { z } from 'zod';
import { nameField, nullableNameField, tierField, uuidField } from '#src/http/request/fields.ts';
import type { Membership, Profile } from './profile.model.ts';

export const updateProfileBody = z
  .strictObject({
    first_name: nullableNameField.optional(),
    last_name: nullableNameField.optional(),
    display_name: nameField.optional(),
  })
  .refine((body) => Object.keys(body).length > 0, {
    error: 'Send first_name, last_name or display_name',
    params: { code: 'required' },
  })
  .meta({ minProperties: 1 })
  .transform((body) => ({
    firstName: body.first_name,
    lastName: body.last_name,
    displayName: body.display_name,
  }));

export const profileSchema = z
  .strictObject({
    user_id: uuidField,
    email: z.string(),
    first_name: z.string().nullable(),
    last_name: z.string().nullable(),
    display_name: z.string(),
    has_avatar: z.boolean().describe('Whether an avatar was uploaded'),
    has_password: z.boolean(),
    avatar_fallback_url: z.string().nullable().describe('URL of the picture at the identity provider'),
  })
  .meta({ id: 'Profile' });

export const membershipSchema = z
  .strictObject({
    org_id: uuidField,
    org_name: z.string(),
    tier: tierField,
    user_id: uuidField,
    is_org_admin: z.boolean(),
    team_admins_contribute: z
      .boolean()
      .describe('Whether admins of teams may add documents and folders to the folder tree of the organization.'),
    teams: z.array(
      z.strictObject({
        team_id: uuidField,
        name: z.string(),
        is_team_admin: z.boolean(),
        added_at: z.iso.datetime(),
      }),
    ),
  })
  .meta({ id: 'Membership' });

export function toProfileDto(profile: Profile): z.infer<typeof profileSchema> {
  return {
    user_id: profile.userId,
    email: profile.email,
    first_name: profile.firstName,
    last_name: profile.lastName,
    display_name: profile.displayName,
    has_avatar: profile.hasAvatar,
    has_password: profile.hasPassword,
    avatar_fallback_url: profile.avatarUrl,
  };
}

export function toMembershipDto(membership: Membership): z.infer<typeof membershipSchema> {
  return {
    org_id: membership.orgId,
    org_name: membership.orgName,
    tier: membership.tier,
    user_id: membership.userId,
    is_org_admin: membership.isOrgAdmin,
    team_admins_contribute: membership.teamAdminsContribute,
    teams: membership.teams.map((team) => ({
      team_id: team.teamId,
      name: team.name,
      is_team_admin: team.isTeamAdmin,
      added_at: team.addedAt.toISOString(),
    })),
  };
}
