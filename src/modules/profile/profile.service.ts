import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { Knex } from 'knex';
import { createSlotCounter } from '#src/domain/access/limits.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError, type ExpectedVersions, requireVersion } from '#src/errors.ts';
import type { AvatarMaker } from '#src/ports/documents.ts';
import type { Avatar, AvatarUpload, ShownAvatar } from './avatars.model.ts';
import type { Membership, Profile, ProfileChange } from './profile.model.ts';
import { createAvatarsRepository, createProfileRepository } from './profile.repository.ts';

/** What users see and change of themselves. */
export function createProfileService({ db }: { db: Knex }) {
  const profiles = createProfileRepository(db);

  const get = async ({ userId }: Actor): Promise<Profile> => {
    const profile = await profiles.find(userId);
    if (profile === undefined) throw appError('invalid_token');
    return profile;
  };

  return {
    get,

    /** Throws `precondition_failed`. */
    async update(actor: Actor, change: ProfileChange, expected: ExpectedVersions): Promise<Profile> {
      await db.transaction(async (trx) => {
        const repository = createProfileRepository(trx);
        const locked = await repository.lock(actor.userId);
        if (locked === undefined) throw appError('invalid_token');
        requireVersion(expected, locked);
        await repository.update(actor.userId, change);
      });
      return get(actor);
    },

    async membership({ userId }: Actor): Promise<Membership> {
      const membership = await profiles.findMembership(userId);
      if (membership === undefined) throw appError('invalid_token');
      return membership;
    },
  };
}

export type ProfileService = ReturnType<typeof createProfileService>;

/** Of the contract. */
const LIMIT_BYTES = 5 * 1024 ** 2;

/** A sender may be slow, and each of them takes as much memory as an image may have. */
const MAX_IN_MEMORY = 22;
const MAX_OF_ORGANIZATION = 4;
/** The rest is reserved for organizations that have none on its way. */
const UNRESERVED_IN_MEMORY = 16;

/** The pictures of users. */
export function createAvatarsService({ db, makeAvatar }: { db: Knex; makeAvatar: AvatarMaker }) {
  const avatars = createAvatarsRepository(db);
  const places = createSlotCounter();
  /** Of each upload that is in memory, from before its first byte until it is an avatar, what gives its place back. */
  const inMemory = new Map<ArrayBufferLike, () => void>();
  const free = (memory: ArrayBufferLike) => {
    inMemory.get(memory)?.();
    inMemory.delete(memory);
  };

  /** What others see of a member; undefined for nothing. */
  async function find(actor: Actor, userId: string): Promise<ShownAvatar | undefined> {
    const found = await avatars.find({ orgId: actor.orgId, userId });
    if (found === undefined) return undefined;
    const { content, sha256, externalUrl } = found;
    if (content !== null && sha256 !== null) return { kind: 'stored', content, sha256 };
    return externalUrl === null ? undefined : { kind: 'external', url: externalUrl };
  }

  return {
    /**
     * Throws `payload_too_large` as soon as there is more, `rate_limited` beyond one upload of the user or four of the
     * organization at once, and `service_unavailable` when too many come altogether.
     */
    async receive(actor: Actor, { fileName, content }: { fileName: string; content: Readable }): Promise<AvatarUpload> {
      if (places.of(actor.userId) > 0) {
        throw appError('rate_limited', { detail: 'Your last avatar is still being uploaded.', retryAfterSeconds: 5 });
      }
      const countOfOrganization = places.of(actor.orgId);
      if (countOfOrganization >= MAX_OF_ORGANIZATION) {
        const detail = `${MAX_OF_ORGANIZATION} avatars of your organization are being uploaded.`;
        throw appError('rate_limited', { detail, retryAfterSeconds: 5 });
      }
      if (inMemory.size >= (countOfOrganization > 0 ? UNRESERVED_IN_MEMORY : MAX_IN_MEMORY)) {
        throw appError('service_unavailable', { detail: 'Too many avatars are being made.', retryAfterSeconds: 5 });
      }
      // No more than this, in however small pieces it comes.
      const memory = Buffer.allocUnsafeSlow(LIMIT_BYTES);
      inMemory.set(memory.buffer, places.take(actor.userId, actor.orgId));
      try {
        const image = memory.subarray(0, await fill(memory, content));
        return { fileName, content: image, sha256: sha256Of(image) };
      } catch (error) {
        free(memory.buffer);
        throw error;
      }
    },

    async discard(upload: AvatarUpload): Promise<void> {
      free(upload.content.buffer);
    },

    /** Makes the caller's avatar of an image. Throws as {@link AvatarMaker} does. */
    async put(actor: Actor, upload: AvatarUpload, signal: AbortSignal): Promise<void> {
      const content = await makeAvatar(upload.content, signal).finally(() => free(upload.content.buffer));
      await db.transaction(async (trx) => {
        const repository = createAvatarsRepository(trx);
        // What comes after he has left would outlast his erasure.
        if (!(await repository.touchUser(actor.userId))) throw appError('invalid_token');
        await repository.put(actor, { content, sha256: sha256Of(content) });
      });
    },

    async remove(actor: Actor): Promise<void> {
      await db.transaction(async (trx) => {
        const repository = createAvatarsRepository(trx);
        if (!(await repository.touchUser(actor.userId))) throw appError('invalid_token');
        await repository.delete(actor);
      });
    },

    /** What the caller has uploaded. Throws `avatar_not_found`. */
    async getOwn(actor: Actor): Promise<Avatar> {
      const avatar = await find(actor, actor.userId);
      if (avatar?.kind !== 'stored') throw appError('avatar_not_found');
      return avatar;
    },

    /** Of a member of the caller's organization. Throws `avatar_not_found`, for those who are disabled too. */
    async get(actor: Actor, userId: string): Promise<ShownAvatar> {
      const avatar = await find(actor, userId);
      if (avatar === undefined) throw appError('avatar_not_found');
      return avatar;
    },
  };
}

export type AvatarsService = ReturnType<typeof createAvatarsService>;

/** @returns how much there was */
async function fill(memory: Buffer, content: AsyncIterable<Buffer>): Promise<number> {
  let sizeBytes = 0;
  for await (const piece of content) {
    if (sizeBytes + piece.length > memory.length) {
      throw appError('payload_too_large', { detail: `An avatar may have at most ${memory.length} bytes.` });
    }
    sizeBytes += piece.copy(memory, sizeBytes);
  }
  return sizeBytes;
}

function sha256Of(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
