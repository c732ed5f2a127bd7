import { ok } from '#src/http/answers.ts';
import { type Route, route } from '#src/http/route.ts';
import { membershipSchema, profileSchema, toMembershipDto, toProfileDto, updateProfileBody } from './profile.schema.ts';
import type { ProfileService } from './profile.service.ts';

export function profileRoutes(profiles: ProfileService): Route[] {
  return [
    route({
      method: 'get',
      path: '/entity/me/profile',
      operationId: 'getProfile',
      tag: 'profile',
      summary: 'Your names and your email',
      access: 'user',
      responses: { 200: { description: 'The profile', schema: profileSchema } },
      handle: async ({ actor }) => ok(toProfileDto(await profiles.get(actor))),
    }),
    route({
      method: 'patch',
      path: '/entity/me/profile',
      operationId: 'updateProfile',
      tag: 'profile',
      summary: 'Change your names',
      access: 'user',
      body: updateProfileBody,
      responses: { 200: { description: 'The profile as it is now', schema: profileSchema } },
      handle: async ({ actor, body, requireUnchanged }) =>
        ok(toProfileDto(await profiles.update(actor, body, requireUnchanged))),
    }),
    route({
      method: 'get',
      path: '/entity/me/membership',
      operationId: 'getMembership',
      tag: 'profile',
      summary: 'Your organization, your role in it and your teams',
      access: 'user',
      responses: { 200: { description: 'The membership', schema: membershipSchema } },
      handle: async ({ actor }) => ok(toMembershipDto(await profiles.membership(actor))),
    }),
  ];
}
