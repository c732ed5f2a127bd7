import type { Knex } from 'knex';
import type { Identity } from '#src/ports/identity.ts';
import { UserIdentityModel } from './auth.model.ts';

type NameOfIdentity = Pick<Identity, 'issuer' | 'subject'>;

/** Who users are at identity providers. Whose account ends has none any more. */
export function createIdentitiesRepository(db: Knex) {
  return {
    async findUserId({ issuer, subject }: NameOfIdentity): Promise<string | undefined> {
      const row = await UserIdentityModel.table(db).where({ issuer, subject }).first('userId');
      return row?.userId;
    },

    /** Whether the issuer knows the user under another name. */
    async isAnother({ issuer, subject }: NameOfIdentity, userId: string): Promise<boolean> {
      const row = await UserIdentityModel.table(db).where({ userId, issuer }).whereNot({ subject }).first('subject');
      return row !== undefined;
    },

    /** False when somebody is known by it already, or the user by another one of the issuer. */
    async insert({ issuer, subject }: NameOfIdentity, userId: string): Promise<boolean> {
      const inserted = await UserIdentityModel.table(db)
        .insert({ issuer, subject, userId })
        .onConflict()
        .ignore()
        .returning('userId');
      return inserted.length > 0;
    },
  };
}
