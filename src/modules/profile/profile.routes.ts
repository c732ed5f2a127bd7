import { Readable } from 'node:stream';
import { z } from 'zod';
import { idParam } from '#src/http/request/validation.ts';
import { file, found, ok, versioned } from '#src/http/response/answers.ts';
import { multipart, type Route, route } from '#src/http/routing/route.ts';
import type { Avatar } from './avatars.model.ts';
import { membershipSchema, profileSchema, toMembershipDto, toProfileDto, updateProfileBody } from './profile.schema.ts';
import type { AvatarsService, ProfileService } from './profile.service.ts';

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

const path = '/entity/me/avatar';
const profileAnswer = { 200: { description: 'The profile as it is now', schema: profileSchema } } as const;
const mediaType = 'image/webp';
const pictureAnswers = {
  200: { description: 'A square of at most 512 pixels a side', contentType: mediaType },
  206: { description: 'The part of it that was asked for', contentType: mediaType },
} as const;
const pictureErrors = ['avatar_not_found', 'range_not_satisfiable'] as const;

export function avatarsRoutes(avatars: AvatarsService, profiles: ProfileService): Route[] {
  return [
    route({
      method: 'post',
      path,
      operationId: 'uploadAvatar',
      tag: 'profile',
      summary: 'Show yourself by the middle of an image (PNG, JPEG, WebP or GIF of at most 5 MB)',
      access: 'user',
      limits: [{ limit: 'upload', by: 'user' }],
      body: multipart({
        fields: z.strictObject({}),
        store: (actor, upload) => avatars.receive(actor, upload),
        discard: (upload) => avatars.discard(upload),
      }),
      responses: profileAnswer,
      errors: ['unsupported_format', 'corrupt_document', 'too_large', 'conversion_timeout'],
      handle: async ({ actor, body, signal }) => {
        await avatars.put(actor, body.file, signal);
        return ok(toProfileDto(await profiles.get(actor)));
      },
    }),
    route({
      method: 'get',
      path,
      operationId: 'getAvatar',
      tag: 'profile',
      summary: 'The picture that you have uploaded',
      access: 'user',
      responses: pictureAnswers,
      errors: pictureErrors,
      handle: async ({ actor }) => picture(await avatars.getOwn(actor)),
    }),
    route({
      method: 'delete',
      path,
      operationId: 'deleteAvatar',
      tag: 'profile',
      summary: 'Take the picture back that you have uploaded, if there is one',
      access: 'user',
      responses: profileAnswer,
      handle: async ({ actor }) => {
        await avatars.remove(actor);
        return ok(toProfileDto(await profiles.get(actor)));
      },
    }),
    route({
      method: 'get',
      path: '/entity/users/:user_id/avatar',
      operationId: 'getUserAvatar',
      tag: 'users',
      summary: 'The picture of a member of your organization',
      access: 'organization:read',
      params: z.strictObject({ user_id: idParam('avatar_not_found') }),
      responses: {
        ...pictureAnswers,
        302: { description: 'He has uploaded none, and his identity provider shows him there' },
      },
      errors: pictureErrors,
      handle: async ({ actor, params: { user_id } }) => {
        const avatar = await avatars.get(actor, user_id);
        return avatar.kind === 'stored' ? picture(avatar) : found(avatar.url);
      },
    }),
  ];
}

function picture({ content, sha256 }: Avatar) {
  return file({
    fileName: 'avatar.webp',
    mediaType,
    sizeBytes: content.length,
    etag: sha256,
    open: async ({ start, end } = { start: 0, end: content.length - 1 }) =>
      Readable.from([content.subarray(start, end + 1)]),
  });
}
