import type { Sweep } from '#activities/clean-up.ts';
import type { Container } from '#src/container.ts';
import type { SweepName } from '#src/contracts/clean-up.ts';

/** The sweeps of the workflow `cleanUp`. The sweeper runs all others, because they must run without Temporal. */
export function createSweeps(container: Container): Record<SweepName, Sweep> {
  const { sessions, sso, consents, idempotency, rateLimiters, exports, blobs, embeddings, chunkContexts } = container;
  const { ingestion, importSteps, evaluations, erasure, vectors } = container;
  return {
    'forget old answers': idempotency.forgetExpired,
    'forget consents that never came': consents.deleteExpired,
    'forget sign-ins that never came': sso.deleteExpired,
    'forget windows of rate limits': rateLimiters.shared.forgetExpired,
    'delete expired exports': inPages(exports.deleteExpired),
    'delete stray uploads': blobs.deleteStrays,
    'forget expired sessions': sessions.deleteExpired,
    'forget unused embeddings': inPages(embeddings.sweepUnused),
    'forget unused situations': inPages(chunkContexts.sweepUnused),
    'forget unused conversions': inPages(ingestion.sweepUnusedConversions),
    'forget old imports': inPages(importSteps.forgetOld),
    'forget evaluations without a draft': inPages(evaluations.deleteOldAdhocRuns),
    'erase what came late': erasure.eraseLate,
    'maintain the vector store': vectors.maintain,
  };
}

/** Repeats a sweep, page by page, until its `next` is null. */
function inPages<Cursor>(
  sweepPage: (after: Cursor | null) => Promise<{ deleted: number; next: Cursor | null }>,
): Sweep {
  return async ({ signal, note }) => {
    let total = 0;
    let after: Cursor | null = null;
    do {
      signal.throwIfAborted();
      const page: { deleted: number; next: Cursor | null } = await sweepPage(after);
      total += page.deleted;
      after = page.next;
      note({ removed: total });
    } while (after !== null);
    return total;
  };
}
