import { ok, versioned } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
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
      handle: async ({ actor }) => {
        const profile = await profiles.get(actor);
        return versioned(toProfileDto(profile), profile);
      },
    }),
    route({
      method: 'patch',
      path: '/entity/me/profile',
      operationId: 'updateProfile',
      tag: 'profile',
      summary: 'Change your names',
      access: 'user',
      takesIfMatch: true,
      body: updateProfileBody,
      responses: { 200: { description: 'The profile as it is now', schema: profileSchema } },
      handle: async ({ actor, body, expectedVersions }) =>
        ok(toProfileDto(await profiles.update(actor, body, expectedVersions))),
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
