import type { Tier } from '#src/domain/tiers.ts';

export type Organization = { id: string; name: string; tier: Tier };
