/** What is summed up of rounds: the columns of a chat's log, and of totals over chats. */
export const roundSums = [
  'rounds',
  'completed_rounds',
  'stable_rounds',
  'drift_rounds',
  'refusal_rounds',
  'ewma_sum',
  'input_tokens',
  'completion_tokens',
  'cost_usd',
  'latency_ms',
];
