import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { Knex } from 'knex';
import { createConcurrencyCounter } from '#src/domain/access/limits.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError, type IfMatchVersions, requireExpectedVersion } from '#src/errors.ts';
import type { AvatarMaker } from '#src/ports/documents.ts';
import type { Avatar, AvatarUpload, Membership, Profile, ProfileChange, VisibleAvatar } from './profile.model.ts';
import { createAvatarsRepository, createProfileRepository } from './profile.repository.ts';

export function createProfileService({ db }: { db: Knex }) {
  const profiles = createProfileRepository(db);

  const get = async ({ userId }: Actor): Promise<Profile> => {
    const profile = await profiles.find(userId);
    if (profile === undefined) throw appError('invalid_token');
    return profile;
  };

  return {
    get,

    async update(actor: Actor, change: ProfileChange, expected: IfMatchVersions): Promise<Profile> {
      await db.transaction(async (trx) => {
        const repository = createProfileRepository(trx);
        const locked = await repository.lock(actor.userId);
        if (locked === undefined) throw appError('invalid_token');
        requireExpectedVersion(expected, locked);
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

const LIMIT_BYTES = 5 * 1024 ** 2;

/** Concurrent avatar uploads per process. Each holds its image, up to `LIMIT_BYTES`, in memory until it ends. */
const MAX_UPLOADS = 22;
const MAX_UPLOADS_PER_ORGANIZATION = 4;
/**
 * Number of upload slots that any organization may take; the other slots are kept for organizations without an avatar
 * upload in progress.
 */
const UNRESERVED_UPLOADS = 16;

export function createAvatarsService({ db, makeAvatar }: { db: Knex; makeAvatar: AvatarMaker }) {
  const avatars = createAvatarsRepository(db);
  const places = createConcurrencyCounter();
  /** Image buffers of running uploads, each with the function that frees its upload slot. */
  const inMemory = new Map<ArrayBufferLike, () => void>();
  const free = (memory: ArrayBufferLike) => {
    inMemory.get(memory)?.();
    inMemory.delete(memory);
  };

  async function find(actor: Actor, userId: string): Promise<VisibleAvatar | undefined> {
    const found = await avatars.find({ orgId: actor.orgId, userId });
    if (found === undefined) return undefined;
    const { content, sha256, externalUrl } = found;
    if (content !== null && sha256 !== null) return { kind: 'stored', content, sha256 };
    return externalUrl === null ? undefined : { kind: 'external', url: externalUrl };
  }

  return {
    /**
     * Reads an uploaded image into memory. Throws `payload_too_large` above 5 MB, `rate_limited` beyond one concurrent
     * upload of the user or four of the organization, and `service_unavailable` when the process has no free slot.
     */
    async receive(actor: Actor, { fileName, content }: { fileName: string; content: Readable }): Promise<AvatarUpload> {
      if (places.of(actor.userId) > 0) {
        throw appError('rate_limited', {
          detail: 'Your previous avatar is still being uploaded.',
          retryAfterSeconds: 5,
        });
      }
      const countOfOrganization = places.of(actor.orgId);
      if (countOfOrganization >= MAX_UPLOADS_PER_ORGANIZATION) {
        const detail = `${MAX_UPLOADS_PER_ORGANIZATION} avatars of your organization are being uploaded.`;
        throw appError('rate_limited', { detail, retryAfterSeconds: 5 });
      }
      if (inMemory.size >= (countOfOrganization > 0 ? UNRESERVED_UPLOADS : MAX_UPLOADS)) {
        throw appError('service_unavailable', {
          detail: 'The server is processing too many avatars.',
          retryAfterSeconds: 5,
        });
      }
      // Allocates the maximum size at once, so that an upload in many small chunks cannot take more memory.
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

    async put(actor: Actor, upload: AvatarUpload, signal: AbortSignal): Promise<void> {
      const content = await makeAvatar(upload.content, signal).finally(() => free(upload.content.buffer));
      await db.transaction(async (trx) => {
        const repository = createAvatarsRepository(trx);
        // Refuses an account that was deleted meanwhile, because the erasure would miss an avatar that is stored later.
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

    async getOwn(actor: Actor): Promise<Avatar> {
      const avatar = await find(actor, actor.userId);
      if (avatar?.kind !== 'stored') throw appError('avatar_not_found');
      return avatar;
    },

    async get(actor: Actor, userId: string): Promise<VisibleAvatar> {
      const avatar = await find(actor, userId);
      if (avatar === undefined) throw appError('avatar_not_found');
      return avatar;
    },
  };
}

export type AvatarsService = ReturnType<typeof createAvatarsService>;

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
