import { z } from 'zod';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { createdAnswer, noContentAnswer, okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import type { AccountDeletionService } from './account-deletion.service.ts';
import {
  createMemberBody,
  createTeamMemberBody,
  deleteAccountBody,
  memberListSchema,
  orgAdminBody,
  resetPasswordBody,
  toMemberListDto,
  toUserDto,
  updateUserBody,
  userSchema,
} from './members.schema.ts';
import type { MembersService } from './members.service.ts';

const memberParams = z.strictObject({ user_id: uuidPathParam('member_not_found') });
const teamParams = z.strictObject({ team_id: uuidPathParam('team_not_found') });
const users = {
  tag: 'users',
  access: 'user:manage',
  params: z.strictObject({ user_id: uuidPathParam('user_not_found') }),
} as const;

export function membersRoutes(members: MembersService, accountDeletion: AccountDeletionService): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/entity/members',
      operationId: 'listMembers',
      tag: 'organization',
      summary: 'List the members of your organization, including disabled ones',
      access: 'organization:read',
      responses: { 200: { description: 'The members, longest-standing first', schema: memberListSchema } },
      handle: async ({ actor }) => okAnswer(toMemberListDto(await members.list(actor))),
    }),
    defineRoute({
      method: 'post',
      path: '/entity/members',
      operationId: 'createMember',
      tag: 'organization',
      summary: 'Create a user in your organization',
      access: 'organization:administer',
      idempotent: true,
      body: createMemberBody,
      responses: { 201: { description: 'The new user', schema: userSchema } },
      errors: ['email_taken', 'member_limit_reached', 'member_not_found', 'team_not_found'],
      handle: async ({ actor, body, newId }) => createdAnswer(toUserDto(await members.add(actor, newId, body))),
    }),
    defineRoute({
      method: 'post',
      path: '/entity/teams/:team_id/members',
      operationId: 'createTeamMember',
      tag: 'teams',
      summary: 'Create a user in a team',
      access: 'team:manage_members',
      idempotent: true,
      params: teamParams,
      body: createTeamMemberBody,
      responses: { 201: { description: 'The new user', schema: userSchema } },
      errors: ['email_taken', 'member_limit_reached', 'member_not_found', 'team_not_found'],
      handle: async ({ actor, params: { team_id: teamId }, body: { isTeamAdmin, ...person }, newId }) => {
        const user = await members.add(actor, newId, { ...person, isOrgAdmin: false, team: { teamId, isTeamAdmin } });
        return createdAnswer(toUserDto(user));
      },
    }),
    defineRoute({
      method: 'patch',
      path: '/entity/members/:user_id/org-admin',
      operationId: 'setOrgAdmin',
      tag: 'organization',
      summary: 'Grant or revoke the role of organization admin',
      access: 'organization:administer',
      params: memberParams,
      body: orgAdminBody,
      responses: { 200: { description: 'The changed user', schema: userSchema } },
      errors: ['member_not_found', 'last_org_admin'],
      handle: async ({ actor, params: { user_id }, body: { is_org_admin } }) =>
        okAnswer(toUserDto(await members.setOrgAdmin(actor, user_id, is_org_admin))),
    }),
    defineRoute({
      ...users,
      method: 'patch',
      path: '/entity/users/:user_id',
      operationId: 'updateUser',
      summary: 'Change the email or the display name of a user',
      body: updateUserBody,
      responses: { 200: { description: 'The changed user', schema: userSchema } },
      errors: ['user_not_found', 'forbidden', 'email_taken'],
      handle: async ({ actor, params: { user_id }, body }) =>
        okAnswer(toUserDto(await members.update(actor, user_id, body))),
    }),
    defineRoute({
      ...users,
      method: 'post',
      path: '/entity/users/:user_id/disable',
      operationId: 'disableUser',
      summary: 'Disable a user and end their sessions',
      responses: { 204: { description: 'The user is disabled' } },
      errors: ['user_not_found', 'forbidden', 'last_org_admin'],
      handle: async ({ actor, params: { user_id } }) => {
        await members.disable(actor, user_id);
        return noContentAnswer();
      },
    }),
    defineRoute({
      ...users,
      method: 'post',
      path: '/entity/users/:user_id/enable',
      operationId: 'enableUser',
      summary: 'Enable a disabled user',
      responses: { 204: { description: 'The user is enabled' } },
      errors: ['user_not_found', 'forbidden'],
      handle: async ({ actor, params: { user_id } }) => {
        await members.enable(actor, user_id);
        return noContentAnswer();
      },
    }),
    defineRoute({
      ...users,
      method: 'post',
      path: '/entity/users/:user_id/reset-password',
      operationId: 'resetPassword',
      summary: 'Set the password of a user and end their sessions',
      body: resetPasswordBody,
      responses: { 204: { description: 'The password is set; the previous one no longer works' } },
      errors: ['user_not_found', 'forbidden'],
      handle: async ({ actor, params: { user_id }, body }) => {
        await members.resetPassword(actor, user_id, body.newPassword);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/entity/members/:user_id',
      operationId: 'removeMember',
      tag: 'organization',
      summary: 'Delete the account of a member; shared content stays, personal content is erased later',
      access: 'organization:administer',
      params: memberParams,
      responses: { 204: { description: 'The account is deleted' } },
      errors: ['member_not_found', 'last_org_admin', 'forbidden'],
      handle: async ({ actor, params: { user_id } }) => {
        await accountDeletion.removeMember(actor, user_id);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/auth/account',
      operationId: 'deleteAccount',
      tag: 'auth',
      summary: 'Delete your account, and your organization if you are its only member',
      access: 'user',
      limits: [{ limit: 'login', by: 'user' }],
      body: deleteAccountBody,
      responses: { 204: { description: 'The account is deleted' } },
      errors: ['wrong_password', 'last_org_admin'],
      handle: async ({ actor, body }) => {
        await accountDeletion.deleteAccount(actor, body.password);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/entity/org',
      operationId: 'deleteOrganization',
      tag: 'organization',
      summary: 'Delete the organization and the accounts of all its members',
      access: 'organization:administer',
      responses: { 204: { description: 'The organization is deleted' } },
      handle: async ({ actor }) => {
        await accountDeletion.deleteOrganization(actor);
        return noContentAnswer();
      },
    }),
  ];
}
