import { z } from 'zod';
import {
  emailField,
  nameField,
  newPasswordField,
  optionalNameField,
  tierField,
  uuidField,
} from '#src/http/request/fields.ts';
import type { Member, TeamOfMember } from './members.repository.ts';
import type { MemberList } from './members.service.ts';

const isTeamAdminField = z.boolean().default(false);

export const createMemberBody = z
  .strictObject({
    email: emailField,
    password: newPasswordField,
    display_name: optionalNameField,
    is_admin: z.boolean().default(false),
    team_id: uuidField.optional(),
    is_team_admin: isTeamAdminField,
  })
  .refine((body) => body.team_id !== undefined || !body.is_team_admin, {
    path: ['is_team_admin'],
    error: 'requires team_id',
    params: { code: 'team_required' },
  })
  .meta({ anyOf: [{ required: ['team_id'] }, { properties: { is_team_admin: { enum: [false] } } }] })
  .transform(({ team_id: teamId, ...body }) => ({
    email: body.email,
    password: body.password,
    displayName: body.display_name,
    isOrgAdmin: body.is_admin,
    team: teamId === undefined ? undefined : { teamId, isTeamAdmin: body.is_team_admin },
  }));

export const createTeamMemberBody = z
  .strictObject({
    email: emailField,
    password: newPasswordField,
    display_name: optionalNameField,
    is_team_admin: isTeamAdminField,
  })
  .transform((body) => ({
    email: body.email,
    password: body.password,
    displayName: body.display_name,
    isTeamAdmin: body.is_team_admin,
  }));

export const orgAdminBody = z.strictObject({ is_org_admin: z.boolean() });

export const updateUserBody = z
  .strictObject({ email: emailField.optional(), display_name: nameField.optional() })
  .refine((body) => Object.keys(body).length > 0, { error: 'Send email or display_name', params: { code: 'required' } })
  .meta({ minProperties: 1 })
  .transform((body) => ({ email: body.email, displayName: body.display_name }));

export const resetPasswordBody = z
  .strictObject({ new_password: newPasswordField })
  .transform((body) => ({ newPassword: body.new_password }));

export const deleteAccountBody = z.strictObject({
  password: z
    .string()
    .min(1)
    .max(1_024)
    .optional()
    .meta({ description: 'Required if the account has a password.', writeOnly: true }),
});

const memberTeamsSchema = z.array(z.strictObject({ team_id: uuidField, is_team_admin: z.boolean() }));

const personFields = {
  user_id: uuidField,
  email: z.string(),
  first_name: z.string().nullable(),
  last_name: z.string().nullable(),
  display_name: z.string(),
};

export const memberListSchema = z
  .strictObject({
    org_id: uuidField,
    tier: tierField,
    member_limit: z.int(),
    items: z.array(
      z.strictObject({
        ...personFields,
        is_admin: z.boolean(),
        disabled: z.boolean(),
        added_by: uuidField.nullable().describe('Null for the founder of the organization'),
        added_at: z.iso.datetime(),
        teams: memberTeamsSchema,
      }),
    ),
  })
  .meta({ id: 'MemberList' });

export const userSchema = z
  .strictObject({
    ...personFields,
    org_id: uuidField,
    is_org_admin: z.boolean(),
    disabled: z.boolean(),
    teams: memberTeamsSchema,
    created_at: z.iso.datetime(),
  })
  .meta({ id: 'User' });

type UserDto = z.infer<typeof userSchema>;

const toPersonDto = (member: Member) => ({
  user_id: member.userId,
  email: member.email,
  first_name: member.firstName,
  last_name: member.lastName,
  display_name: member.displayName,
});

const toMemberTeamDto = (team: TeamOfMember) => ({ team_id: team.teamId, is_team_admin: team.isTeamAdmin });

export function toMemberListDto(list: MemberList): z.infer<typeof memberListSchema> {
  return {
    org_id: list.orgId,
    tier: list.tier,
    member_limit: list.memberLimit,
    items: list.items.map((member) => ({
      ...toPersonDto(member),
      is_admin: member.isOrgAdmin,
      disabled: member.isDisabled,
      added_by: member.addedBy,
      added_at: member.addedAt.toISOString(),
      teams: member.teams.map(toMemberTeamDto),
    })),
  };
}

export function toUserDto(member: Member): UserDto {
  return {
    ...toPersonDto(member),
    org_id: member.orgId,
    is_org_admin: member.isOrgAdmin,
    disabled: member.isDisabled,
    teams: member.teams.map(toMemberTeamDto),
    created_at: member.createdAt.toISOString(),
  };
}
