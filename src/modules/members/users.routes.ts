import { z } from 'zod';
import { idParam } from '#src/http/request/validation.ts';
import { noContent, ok } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import { resetPasswordBody, toUserDto, updateUserBody, userSchema } from './members.schema.ts';
import type { UsersService } from './users.service.ts';

const params = z.strictObject({ user_id: idParam('user_not_found') });
const shared = { tag: 'users', access: 'user:manage', params } as const;

export function usersRoutes(users: UsersService): Route[] {
  return [
    route({
      ...shared,
      method: 'patch',
      path: '/entity/users/:user_id',
      operationId: 'updateUser',
      summary: 'Change the email or the display name of a user',
      body: updateUserBody,
      responses: { 200: { description: 'The changed user', schema: userSchema } },
      errors: ['user_not_found', 'forbidden', 'email_taken'],
      handle: async ({ actor, params: { user_id }, body }) => ok(toUserDto(await users.update(actor, user_id, body))),
    }),
    route({
      ...shared,
      method: 'post',
      path: '/entity/users/:user_id/disable',
      operationId: 'disableUser',
      summary: 'Disable a user, and end their sessions',
      responses: { 204: { description: 'The user is disabled' } },
      errors: ['user_not_found', 'forbidden', 'last_org_admin'],
      handle: async ({ actor, params: { user_id } }) => {
        await users.disable(actor, user_id);
        return noContent();
      },
    }),
    route({
      ...shared,
      method: 'post',
      path: '/entity/users/:user_id/enable',
      operationId: 'enableUser',
      summary: 'Enable a disabled user',
      responses: { 204: { description: 'The user is enabled' } },
      errors: ['user_not_found', 'forbidden'],
      handle: async ({ actor, params: { user_id } }) => {
        await users.enable(actor, user_id);
        return noContent();
      },
    }),
    route({
      ...shared,
      method: 'post',
      path: '/entity/users/:user_id/reset-password',
      operationId: 'resetPassword',
      summary: 'Set the password of a user, and end their sessions',
      body: resetPasswordBody,
      responses: { 204: { description: 'Only the new password works' } },
      errors: ['user_not_found', 'forbidden'],
      handle: async ({ actor, params: { user_id }, body }) => {
        await users.resetPassword(actor, user_id, body.newPassword);
        return noContent();
      },
    }),
  ];
}
