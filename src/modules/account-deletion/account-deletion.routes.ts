import { z } from 'zod';
import { idParam } from '#src/http/request/validation.ts';
import { noContent } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import type { AccountDeletionService } from './account-deletion.service.ts';

const deleteAccountBody = z.strictObject({
  password: z
    .string()
    .min(1)
    .max(1_024)
    .optional()
    .meta({ description: 'Required if the account has a password.', writeOnly: true }),
});

export function accountDeletionRoutes(accountDeletion: AccountDeletionService): Route[] {
  return [
    route({
      method: 'delete',
      path: '/entity/members/:user_id',
      operationId: 'removeMember',
      tag: 'organization',
      summary: 'Delete the account of a member; shared content stays, personal content is erased later',
      access: 'organization:administer',
      params: z.strictObject({ user_id: idParam('member_not_found') }),
      responses: { 204: { description: 'The account is deleted' } },
      errors: ['member_not_found', 'last_org_admin', 'forbidden'],
      handle: async ({ actor, params: { user_id } }) => {
        await accountDeletion.removeMember(actor, user_id);
        return noContent();
      },
    }),
    route({
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
        return noContent();
      },
    }),
    route({
      method: 'delete',
      path: '/entity/org',
      operationId: 'deleteOrganization',
      tag: 'organization',
      summary: 'Delete the organization and the accounts of all its members',
      access: 'organization:administer',
      responses: { 204: { description: 'The organization is deleted' } },
      handle: async ({ actor }) => {
        await accountDeletion.deleteOrganization(actor);
        return noContent();
      },
    }),
  ];
}
