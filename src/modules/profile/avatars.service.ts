import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { Actor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AvatarMaker } from '#src/ports/avatar-maker.ts';
import type { Db } from '#src/ports/database.ts';
import type { Avatar, AvatarUpload, ShownAvatar } from './avatars.model.ts';
import { createAvatarsRepository } from './avatars.repository.ts';

/** Of the contract. */
const LIMIT_BYTES = 5 * 1024 ** 2;

/** The pictures of users. */
export function createAvatarsService({ db, makeAvatar }: { db: Db; makeAvatar: AvatarMaker }) {
  const avatars = createAvatarsRepository(db);

  /** What others see of a member; undefined for nothing. */
  async function find(actor: Actor, userId: string): Promise<ShownAvatar | undefined> {
    const found = await avatars.find({ orgId: actor.orgId, userId });
    if (found === undefined) return undefined;
    const { content, sha256, externalUrl } = found;
    if (content !== null && sha256 !== null) return { kind: 'stored', content, sha256 };
    return externalUrl === null ? undefined : { kind: 'external', url: externalUrl };
  }

  return {
    /** Throws `payload_too_large` as soon as there is more. */
    async receive({ fileName, content }: { fileName: string; content: Readable }): Promise<AvatarUpload> {
      const pieces: Buffer[] = [];
      let sizeBytes = 0;
      for await (const piece of content as AsyncIterable<Buffer>) {
        sizeBytes += piece.length;
        if (sizeBytes > LIMIT_BYTES) {
          throw appError('payload_too_large', { detail: `An avatar may have at most ${LIMIT_BYTES} bytes.` });
        }
        pieces.push(piece);
      }
      const image = Buffer.concat(pieces);
      return { fileName, content: image, sha256: sha256Of(image) };
    },

    /** Makes the caller's avatar of an image. Throws as {@link AvatarMaker} does. */
    async put(actor: Actor, image: Buffer): Promise<void> {
      const content = await makeAvatar(image);
      await db.transaction(async (trx) => {
        const repository = createAvatarsRepository(trx);
        // What comes after he has left would outlast his erasure.
        if (!(await repository.holdUser(actor.userId))) throw appError('invalid_token');
        await repository.put(actor, { content, sha256: sha256Of(content) });
      });
    },

    async remove(actor: Actor): Promise<void> {
      await avatars.delete(actor);
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

function sha256Of(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
