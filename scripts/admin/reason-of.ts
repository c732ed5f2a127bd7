/** Why something failed, in one line. What a run or a pool failed with says more than that it failed. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (cause instanceof Error) return reasonOf(cause);
  const [first] = error instanceof AggregateError ? error.errors : [];
  const message = error.message || (first instanceof Error ? first.message : error.name);
  return message.split('\n')[0] ?? '';
}
