import { model } from '#src/adapters/postgres/base-model.ts';
import { bytea, text, timestamp, uuid } from '#src/adapters/postgres/columns.ts';

export class AvatarModel extends model(
  'avatars',
  {
    orgId: uuid(),
    userId: uuid(),
    content: bytea(),
    sha256: text(),
    updatedAt: timestamp(),
  },
  'userId',
) {}

/** A square WebP of at most 512 pixels a side; `sha256` is lower-case hex. */
export type Avatar = { content: Buffer; sha256: string };

/** What others see: what the user has uploaded, or else what his identity provider shows. */
export type ShownAvatar = ({ kind: 'stored' } & Avatar) | { kind: 'external'; url: string };

/** An upload in memory, as it came. It has to be put or discarded, so that others can come. */
export type AvatarUpload = { fileName: string; content: Buffer; sha256: string };
