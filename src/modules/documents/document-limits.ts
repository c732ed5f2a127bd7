import { isOverlapBelowTarget, type RagConfig } from '#src/domain/rag-config.ts';
import type { TierLimits } from '#src/domain/tiers.ts';
import { appError, fieldError } from '#src/errors.ts';

/** Throws `document_limit_reached` or `storage_quota_exceeded` when what comes does not fit beside what is there. */
export function requireRoom(
  limits: Pick<TierLimits, 'documents' | 'storageBytes'>,
  usage: { documents: number; storageBytes: number },
  coming: { documents: number; bytes: number },
): void {
  if (coming.documents > 0 && usage.documents + coming.documents > limits.documents) {
    throw appError('document_limit_reached');
  }
  if (coming.bytes > 0 && usage.storageBytes + coming.bytes > limits.storageBytes) {
    throw appError('storage_quota_exceeded');
  }
}

/** Of a request's form, whose field the error names. */
export function requireOverlapBelowTarget(chunking: RagConfig['chunking']): void {
  if (!isOverlapBelowTarget(chunking)) throw fieldError('overlap_tokens', 'must be less than target_tokens');
}
