import { z } from 'zod';
import { idParam } from '#src/http/request/validation.ts';
import { created, ok } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import {
  createMemberBody,
  createTeamMemberBody,
  memberListSchema,
  orgAdminBody,
  toMemberListDto,
  toUserDto,
  userSchema,
} from './members.schema.ts';
import type { MembersService } from './members.service.ts';

const memberParams = z.strictObject({ user_id: idParam('member_not_found') });
const teamParams = z.strictObject({ team_id: idParam('team_not_found') });

export function membersRoutes(members: MembersService): Route[] {
  return [
    route({
      method: 'get',
      path: '/entity/members',
      operationId: 'listMembers',
      tag: 'organization',
      summary: 'The members of your organization, disabled ones too',
      access: 'organization:read',
      responses: { 200: { description: 'In the order in which they came', schema: memberListSchema } },
      handle: async ({ actor }) => ok(toMemberListDto(await members.list(actor))),
    }),
    route({
      method: 'post',
      path: '/entity/members',
      operationId: 'createMember',
      tag: 'organization',
      summary: 'Make a user who belongs to your organization',
      access: 'organization:administer',
      idempotent: true,
      body: createMemberBody,
      responses: { 201: { description: 'The new user', schema: userSchema } },
      errors: ['email_taken', 'member_limit_reached', 'member_not_found', 'team_not_found'],
      handle: async ({ actor, body, newId }) => created(toUserDto(await members.add(actor, newId, body))),
    }),
    route({
      method: 'post',
      path: '/entity/teams/:team_id/members',
      operationId: 'createTeamMember',
      tag: 'teams',
      summary: 'Make a user who belongs to a team',
      access: 'team:manage_members',
      idempotent: true,
      params: teamParams,
      body: createTeamMemberBody,
      responses: { 201: { description: 'The new user', schema: userSchema } },
      errors: ['email_taken', 'member_limit_reached', 'member_not_found', 'team_not_found'],
      handle: async ({ actor, params: { team_id: teamId }, body: { isTeamAdmin, ...person }, newId }) => {
        const user = await members.add(actor, newId, { ...person, isOrgAdmin: false, team: { teamId, isTeamAdmin } });
        return created(toUserDto(user));
      },
    }),
    route({
      method: 'patch',
      path: '/entity/members/:user_id/org-admin',
      operationId: 'setOrgAdmin',
      tag: 'organization',
      summary: 'Make a member an admin of the organization, or no longer',
      access: 'organization:administer',
      params: memberParams,
      body: orgAdminBody,
      responses: { 200: { description: 'The changed user', schema: userSchema } },
      errors: ['member_not_found', 'last_org_admin'],
      handle: async ({ actor, params: { user_id }, body: { is_org_admin } }) =>
        ok(toUserDto(await members.setOrgAdmin(actor, user_id, is_org_admin))),
    }),
  ];
}
