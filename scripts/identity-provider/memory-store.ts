import type { Adapter, AdapterPayload } from 'oidc-provider';

/** Keeps the provider's sessions and grants in memory: users must sign in again after a restart. */
export function createMemoryStore(): (model: string) => Adapter {
  const entries = new Map<string, AdapterPayload>();

  return (model) => {
    const keyOf = (id: string) => `${model}:${id}`;
    const findBy = async (field: 'uid' | 'userCode', value: string) =>
      [...entries].find(([key, entry]) => key.startsWith(`${model}:`) && entry[field] === value)?.[1];

    return {
      upsert: async (id, payload) => {
        entries.set(keyOf(id), payload);
      },
      // oidc-provider checks `exp` itself.
      find: async (id) => entries.get(keyOf(id)),
      findByUid: (uid) => findBy('uid', uid),
      findByUserCode: (userCode) => findBy('userCode', userCode),
      consume: async (id) => {
        const entry = entries.get(keyOf(id));
        if (entry) entry.consumed = Math.floor(Date.now() / 1_000);
      },
      destroy: async (id) => {
        entries.delete(keyOf(id));
      },
      revokeByGrantId: async (grantId) => {
        for (const [key, entry] of entries) if (entry.grantId === grantId) entries.delete(key);
      },
    };
  };
}
