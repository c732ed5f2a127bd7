import { Readable } from 'node:stream';
import { z } from 'zod';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { fileAnswer, foundRedirectAnswer, okAnswer, okAnswerWithVersion } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute, multipartBody } from '#src/http/routing/route.ts';
import type { Avatar } from './profile.model.ts';
import { membershipSchema, profileSchema, toMembershipDto, toProfileDto, updateProfileBody } from './profile.schema.ts';
import type { AvatarsService, ProfileService } from './profile.service.ts';

export function profileRoutes(profiles: ProfileService): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/entity/me/profile',
      operationId: 'getProfile',
      tag: 'profile',
      summary: 'Get your names and email',
      access: 'user',
      responses: { 200: { description: 'The profile', schema: profileSchema } },
      handle: async ({ actor }) => {
        const profile = await profiles.get(actor);
        return okAnswerWithVersion(toProfileDto(profile), profile);
      },
    }),
    defineRoute({
      method: 'patch',
      path: '/entity/me/profile',
      operationId: 'updateProfile',
      tag: 'profile',
      summary: 'Change your names',
      access: 'user',
      takesIfMatch: true,
      body: updateProfileBody,
      responses: { 200: { description: 'The updated profile', schema: profileSchema } },
      handle: async ({ actor, body, expectedVersions }) =>
        okAnswer(toProfileDto(await profiles.update(actor, body, expectedVersions))),
    }),
    defineRoute({
      method: 'get',
      path: '/entity/me/membership',
      operationId: 'getMembership',
      tag: 'profile',
      summary: 'Get your organization, your role in it and your teams',
      access: 'user',
      responses: { 200: { description: 'The membership', schema: membershipSchema } },
      handle: async ({ actor }) => okAnswer(toMembershipDto(await profiles.membership(actor))),
    }),
  ];
}

const path = '/entity/me/avatar';
const profileResponse = { 200: { description: 'The updated profile', schema: profileSchema } } as const;
const mediaType = 'image/webp';
const avatarResponses = {
  200: { description: 'A square image of at most 512 pixels per side', contentType: mediaType },
  206: { description: 'The requested byte range of the image', contentType: mediaType },
} as const;
const avatarErrors = ['avatar_not_found', 'range_not_satisfiable'] as const;

export function avatarsRoutes(avatars: AvatarsService, profiles: ProfileService): HttpRoute[] {
  return [
    defineRoute({
      method: 'post',
      path,
      operationId: 'uploadAvatar',
      tag: 'profile',
      summary: 'Upload an avatar: the centre of an image (PNG, JPEG, WebP or GIF of at most 5 MB)',
      access: 'user',
      limits: [{ limit: 'upload', by: 'user' }],
      body: multipartBody({
        fields: z.strictObject({}),
        store: (actor, upload) => avatars.receive(actor, upload),
        discard: (upload) => avatars.discard(upload),
      }),
      responses: profileResponse,
      errors: ['unsupported_format', 'corrupt_document', 'too_large', 'conversion_timeout'],
      handle: async ({ actor, body, signal }) => {
        await avatars.put(actor, body.file, signal);
        return okAnswer(toProfileDto(await profiles.get(actor)));
      },
    }),
    defineRoute({
      method: 'get',
      path,
      operationId: 'getAvatar',
      tag: 'profile',
      summary: 'Get the avatar that you uploaded',
      access: 'user',
      responses: avatarResponses,
      errors: avatarErrors,
      handle: async ({ actor }) => avatarFile(await avatars.getOwn(actor)),
    }),
    defineRoute({
      method: 'delete',
      path,
      operationId: 'deleteAvatar',
      tag: 'profile',
      summary: 'Delete the avatar that you uploaded, if there is one',
      access: 'user',
      responses: profileResponse,
      handle: async ({ actor }) => {
        await avatars.remove(actor);
        return okAnswer(toProfileDto(await profiles.get(actor)));
      },
    }),
    defineRoute({
      method: 'get',
      path: '/entity/users/:user_id/avatar',
      operationId: 'getUserAvatar',
      tag: 'users',
      summary: 'Get the avatar of a member of your organization',
      access: 'organization:read',
      params: z.strictObject({ user_id: uuidPathParam('avatar_not_found') }),
      responses: {
        ...avatarResponses,
        302: { description: 'The member has uploaded no avatar; redirects to their picture at the identity provider' },
      },
      errors: avatarErrors,
      handle: async ({ actor, params: { user_id } }) => {
        const avatar = await avatars.get(actor, user_id);
        return avatar.kind === 'stored' ? avatarFile(avatar) : foundRedirectAnswer(avatar.url);
      },
    }),
  ];
}

function avatarFile({ content, sha256 }: Avatar) {
  return fileAnswer({
    fileName: 'avatar.webp',
    mediaType,
    sizeBytes: content.length,
    etag: sha256,
    isShown: true,
    open: async ({ start, end } = { start: 0, end: content.length - 1 }) =>
      Readable.from([content.subarray(start, end + 1)]),
  });
}
