/**
 * The rows of docs/reliability.md by name. Each is a file of test/faults that runs at full size once per seed.
 * test/architecture/everyday-tests.test.ts checks that every drill with a full size is listed.
 */
export const FAULT_ROWS: Record<string, { file: string; seeds: number[] }> = {
  F1: { file: 'f1-crash-points.system-test.ts', seeds: [1, 2, 3] },
  F2: { file: 'f2-workers-killed-in-turn.faults-test.ts', seeds: [1] },
  F3: { file: 'f3-api-killed.system-test.ts', seeds: [1] },
  F4: { file: 'f4-chat-killed.system-test.ts', seeds: [1, 2, 3] },
  F5: { file: 'f5-temporal-down.faults-test.ts', seeds: [1] },
  F6: { file: 'f6-postgres-away.system-test.ts', seeds: [1] },
  F7: { file: 'f7-qdrant-down.system-test.ts', seeds: [1] },
  F8: { file: 'f8-lost-answers.system-test.ts', seeds: [1] },
  F9: { file: 'f9-busy-judge.system-test.ts', seeds: [1] },
  F10: { file: 'f10-broken-chat-model.test.ts', seeds: [1] },
  F11: { file: 'f11-duplicates.test.ts', seeds: [1] },
  F12: { file: 'f12-one-parent.test.ts', seeds: [1] },
  F13: { file: 'f13-refresh-tokens.test.ts', seeds: [1] },
  F14: { file: 'f14-poison.system-test.ts', seeds: [1] },
  F15: { file: 'f15-random-schedules.system-test.ts', seeds: [1, 2, 3] },
  F16: { file: 'f16-ended-consent.system-test.ts', seeds: [1] },
  F18: { file: 'f18-slow-readers.faults-test.ts', seeds: [1] },
  F19: { file: 'f19-rolling-restart-s3.system-test.ts', seeds: [1] },
  F22: { file: 'f22-tenants.system-test.ts', seeds: [1, 2, 3] },
  F24: { file: 'f24-power-cut.faults-test.ts', seeds: [1] },
  F25: { file: 'f25-sleeping-workers.faults-test.ts', seeds: [1] },
  streams: { file: 'chat-streams.system-test.ts', seeds: [1, 2, 3] },
  restart: { file: 'restart-of-streams.faults-test.ts', seeds: [1] },
  judging: { file: 'evaluation-under-kills.system-test.ts', seeds: [1] },
  'noisy-neighbour': { file: 'noisy-neighbour.faults-test.ts', seeds: [1] },
  readers: { file: 'reingest-under-a-reader.faults-test.ts', seeds: [1] },
  models: { file: 'reembedding-under-a-reader.faults-test.ts', seeds: [1] },
  'outbound-fuzz': { file: 'outbound-fuzz.faults-test.ts', seeds: [1] },
};
