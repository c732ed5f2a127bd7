/**
 * The rows of docs/reliability.md by name. Each is a file of test/faults, or its tests with this title, which run at full
 * size once per seed.
 * test/architecture/everyday-tests.test.ts checks that every drill with a full size is listed.
 */
export const FAULT_ROWS: Record<string, { file: string; title?: string; seeds: number[] }> = {
  F1: { file: 'f1-crash-points.system-test.ts', seeds: [1, 2, 3] },
  F2: { file: 'killed-and-suspended-workers.faults-test.ts', title: 'F2:', seeds: [1] },
  F3: { file: 'lost-answers.system-test.ts', title: 'F3:', seeds: [1] },
  F4: { file: 'f4-killed-api.system-test.ts', seeds: [1, 2, 3] },
  F5: { file: 'f5-temporal-down.faults-test.ts', seeds: [1] },
  F6: { file: 'f6-postgres-away.system-test.ts', seeds: [1] },
  F7: { file: 'f7-qdrant-down.system-test.ts', seeds: [1] },
  F8: { file: 'lost-answers.system-test.ts', title: 'F8:', seeds: [1] },
  F9: { file: 'judging.system-test.ts', title: 'F9:', seeds: [1] },
  F10: { file: 'f10-broken-chat-model.test.ts', seeds: [1] },
  F11: { file: 'at-once.test.ts', title: 'F11:', seeds: [1] },
  F12: { file: 'at-once.test.ts', title: 'F12:', seeds: [1] },
  F13: { file: 'at-once.test.ts', title: 'F13:', seeds: [1] },
  F14: { file: 'f14-poison.system-test.ts', seeds: [1] },
  F15: { file: 'f15-random-schedules.system-test.ts', seeds: [1, 2, 3] },
  F16: { file: 'f16-ended-consent.system-test.ts', seeds: [1] },
  F18: { file: 'f18-slow-readers.faults-test.ts', seeds: [1] },
  F19: { file: 'f19-rolling-restart-s3.system-test.ts', seeds: [1] },
  F22: { file: 'f22-tenants.system-test.ts', seeds: [1, 2, 3] },
  F24: { file: 'f24-power-cut.faults-test.ts', seeds: [1] },
  F25: { file: 'killed-and-suspended-workers.faults-test.ts', title: 'F25:', seeds: [1] },
  judging: { file: 'judging.system-test.ts', title: 'judging:', seeds: [1] },
  'noisy-neighbour': { file: 'noisy-neighbour.faults-test.ts', seeds: [1] },
  readers: { file: 'reingest-under-a-reader.faults-test.ts', seeds: [1] },
  models: { file: 'reembedding-under-a-reader.faults-test.ts', seeds: [1] },
  'outbound-fuzz': { file: 'outbound-fuzz.faults-test.ts', seeds: [1] },
};
