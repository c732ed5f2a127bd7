import { model } from '#src/adapters/postgres/base-model.ts';
import { bytea, type Row, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';

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
export type Avatar = Pick<Row<typeof AvatarModel>, 'content' | 'sha256'>;

/** What others see: what the user has uploaded, or else what his identity provider shows. */
export type ShownAvatar = ({ kind: 'stored' } & Avatar) | { kind: 'external'; url: string };

/** An upload in memory, as it came. It has to be put or discarded, so that others can come. */
export type AvatarUpload = { fileName: string; content: Buffer; sha256: string };
