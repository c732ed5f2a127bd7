import type { Knex } from 'knex';
import type { ExpectedVersions } from '#src/domain/access/idempotency.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError, requireVersion } from '#src/errors.ts';
import type { Membership, Profile, ProfileChange } from './profile.model.ts';
import { createProfileRepository } from './profile.repository.ts';

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
